"""`Optimiser`: the ask/tell interface, and what the built-in optimisers share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace
from hwbench.errors import MissingDependency
from hwbench.search.coding import Coding

try:
    import moocore
except ImportError:
    raise MissingDependency("Search needs moocore: pip install 'hwbench[search]'.") from None

Floats = NDArray[np.float64]
Asked = ArchitectureTable | Iterable[Architecture]


@runtime_checkable
class Optimiser(Protocol):
    """Anything that proposes architectures and learns what they cost.

    An optimiser that can go on from a history without having been asked for it has a method
    `restore(asked, costs, violation)` too, with the arguments of `tell`; every other one is asked
    again, and must propose the same.
    """

    def ask(self) -> Asked:
        """Propose architectures, at least one."""
        ...

    def tell(self, asked: ArchitectureTable, costs: Floats, violation: Floats) -> None:
        """Learn what the proposed architectures cost.

        Args:
            asked: The architectures that `ask` proposed last.
            costs: Their objectives, less is better everywhere, shape (n, objectives).
            violation: How far constraints are broken in all, 0 where none is, shape (n,).
        """
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What an optimiser is made from.

    Attributes:
        search_space: The space.
        n_objectives: How many objectives there are.
        seed: The run's seed, >= 0.
    """

    search_space: SearchSpace
    n_objectives: int
    seed: int

    @property
    def coding(self) -> Coding:
        """The genes of the space."""
        return Coding(self.search_space)

    def rng(self, *more: int) -> np.random.Generator:
        """A generator of the seed, and of whatever else tells streams apart."""
        return np.random.default_rng([self.seed, *more])


def front(costs: Floats, violation: Floats) -> NDArray[np.bool_]:
    """Which rows no other feasible row dominates; of equal rows the first.

    Args:
        costs: Shape (n, objectives).
        violation: Shape (n,); rows above 0 are no part of a front.

    >>> import numpy as np
    >>> front(np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0]]), np.zeros(3)).tolist()
    [True, True, False]
    """
    feasible = violation <= 0
    found = np.zeros(len(costs), bool)
    if feasible.any():
        found[feasible] = moocore.is_nondominated(costs[feasible])
    return found


def ranks(costs: Floats, violation: Floats) -> NDArray[np.float64]:
    """A rank for each row, less is better: by front, and behind all fronts by violation.

    >>> import numpy as np
    >>> ranks(np.array([[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]]), np.array([0.0, 0.0, 0.5])).tolist()
    [0.0, 1.0, 3.5]
    """
    feasible = violation <= 0
    found = len(costs) + violation.astype(np.float64)
    if feasible.any():
        found[feasible] = moocore.pareto_rank(costs[feasible])
    return found


def sparsity(costs: Floats, rank: Floats) -> Floats:
    """The crowding distance of each row among the rows of its rank, shape (n,).

    Deb, Pratap, Agarwal and Meyarivan (2002), A fast and elitist multiobjective genetic algorithm.
    """
    found = np.zeros(len(costs))
    for level in np.unique(rank).tolist():
        rows = np.flatnonzero(rank == level)
        for column in costs[rows].T:
            order = np.argsort(column, kind="stable")
            span = column[order[-1]] - column[order[0]]
            found[rows[order[[0, -1]]]] = np.inf
            if len(rows) > 2 and span > 0:
                gaps = (column[order[2:]] - column[order[:-2]]) / span
                found[rows[order[1:-1]]] += gaps
    return found
