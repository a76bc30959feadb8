"""NSGA-II and SMS-EMOA from pymoo, on genes.

pymoo's NSGA-III is not among them: in the releases so far its tournament between infeasible
architectures draws from a generator without a seed, so that runs with constraints differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.algorithms.moo.sms import SMSEMOA
from pymoo.core.crossover import Crossover
from pymoo.core.evaluator import Evaluator
from pymoo.core.mutation import Mutation
from pymoo.core.problem import Problem
from pymoo.core.repair import Repair
from pymoo.core.sampling import Sampling
from pymoo.core.termination import NoTermination
from pymoo.problems.static import StaticProblem

from hwbench.architectures import ArchitectureTable
from hwbench.search.coding import Coding
from hwbench.search.optimiser import Floats, Setting


class Genes(Problem):  # type: ignore[misc]
    """The bounds of a space's genes, with no objective of its own.

    Args:
        coding: The genes.
        n_objectives: How many objectives there are.
    """

    def __init__(self, coding: Coding, n_objectives: int) -> None:
        """Set the bounds."""
        super().__init__(
            n_var=len(coding.choices),
            n_obj=n_objectives,
            n_ieq_constr=1,
            xl=np.zeros(len(coding.choices), int),
            xu=coding.choices - 1,
            vtype=int,
        )


class _Sampling(Sampling):  # type: ignore[misc]
    def __init__(self, coding: Coding) -> None:
        super().__init__()
        self._coding = coding

    def _do(
        self, problem: Any, n_samples: int, *args: Any, random_state: Any, **kwargs: Any
    ) -> Any:
        return self._coding.sample(n_samples, random_state)


class _Crossover(Crossover):  # type: ignore[misc]
    """Each gene from either parent."""

    def __init__(self) -> None:
        super().__init__(2, 2, prob=0.9)

    def _do(self, problem: Any, X: Any, *args: Any, random_state: Any, **kwargs: Any) -> Any:
        swap = random_state.random(X.shape[1:]) < 0.5
        children = X.copy()
        children[0][swap], children[1][swap] = X[1][swap], X[0][swap]
        return children


class _Mutation(Mutation):  # type: ignore[misc]
    """Changes at least one choice."""

    def __init__(self, coding: Coding) -> None:
        super().__init__(prob=1.0)
        self._coding = coding

    def _do(self, problem: Any, X: Any, *args: Any, random_state: Any, **kwargs: Any) -> Any:
        return self._coding.mutate(self._coding.clear(X.astype(np.int64)), random_state)


class _Repair(Repair):  # type: ignore[misc]
    def __init__(self, coding: Coding) -> None:
        super().__init__()
        self._coding = coding

    def _do(self, problem: Any, X: Any, **kwargs: Any) -> Any:
        return self._coding.clear(X.astype(np.int64))


class Genetic:
    """An algorithm of pymoo behind ask and tell."""

    POPULATION = 20

    def __init__(self, setting: Setting, make: Any, population: int = POPULATION) -> None:
        """Make the algorithm.

        Args:
            setting: Space, objectives and seed.
            make: pymoo's algorithm.
            population: Architectures of a generation.
        """
        coding = self._coding = setting.coding
        self._population, self._rng = population, setting.rng()
        self._problem = Genes(coding, setting.n_objectives)
        self._algorithm = make(
            pop_size=population,
            n_offsprings=population,
            sampling=_Sampling(coding),
            crossover=_Crossover(),
            mutation=_Mutation(coding),
            repair=_Repair(coding),
        )
        self._algorithm.setup(
            self._problem, termination=NoTermination(), seed=setting.seed, verbose=False
        )

    def ask(self) -> ArchitectureTable:
        """The next generation; random architectures where pymoo finds none that it has not seen."""
        self._asked = self._algorithm.ask()
        if self._asked is None:
            return self._coding.table(self._coding.sample(self._population, self._rng))
        return self._coding.table(self._asked.get("X").astype(np.int64))

    def tell(self, asked: ArchitectureTable, costs: Floats, violation: Floats) -> None:
        """The survivors are chosen."""
        if self._asked is None:
            return
        known = StaticProblem(self._problem, F=costs, G=violation[:, None])
        Evaluator().eval(known, self._asked)
        self._algorithm.tell(infills=self._asked)


def nsga2(setting: Setting) -> Genetic:
    """NSGA-II (Deb, Pratap, Agarwal and Meyarivan, 2002)."""
    return Genetic(setting, NSGA2)


def sms_emoa(setting: Setting) -> Genetic:
    """SMS-EMOA (Beume, Naujoks and Emmerich, 2007)."""
    return Genetic(setting, SMSEMOA)
