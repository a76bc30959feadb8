"""Random search, Pareto local search and regularised evolution for several objectives.

They are hwbench's own: no kept library has the last two for spaces of this kind.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable
from hwbench.search.optimiser import Floats, Setting, front, ranks, sparsity


class RandomSearch:
    """Draws every choice uniformly and independently."""

    BATCH = 1000

    def __init__(self, setting: Setting) -> None:
        """Seed the draws."""
        self._coding, self._rng = setting.coding, setting.rng()

    def ask(self) -> ArchitectureTable:
        """The next draws."""
        return self._coding.table(self._coding.sample(self.BATCH, self._rng))

    def tell(self, asked: ArchitectureTable, costs: Floats, violation: Floats) -> None:
        """Nothing is learnt."""


class LocalSearch:
    """Pareto local search: goes through the neighbours of an archive's members, one by one.

    Paquete, Chiarandini and Stuetzle (2004), Pareto local optimum sets in the biobjective traveling
    salesman problem. It starts at a random architecture, and starts anew, with an archive of its
    own, when every member's neighbours have been seen.
    """

    BATCH = 10

    def __init__(self, setting: Setting) -> None:
        """Seed the draws."""
        self._coding, self._rng = setting.coding, setting.rng()
        self._start()

    def _start(self) -> None:
        self._genomes = np.empty((0, len(self._coding.choices)), np.int64)
        self._costs, self._violation = np.empty((0, 0)), np.empty(0)
        self._explored: set[bytes] = set()
        self._waiting = self._coding.sample(1, self._rng)

    def ask(self) -> ArchitectureTable:
        """Neighbours of a member of the archive that was not gone through yet."""
        if not len(self._waiting):
            open_ = [i for i, g in enumerate(self._genomes) if g.tobytes() not in self._explored]
            if open_:
                chosen = self._genomes[open_[int(self._rng.integers(len(open_)))]]
                self._explored.add(chosen.tobytes())
                near = self._coding.neighbours(chosen)
                self._waiting = near[self._rng.permutation(len(near))]
            if not len(self._waiting):
                self._start()
        self._now, self._waiting = self._waiting[: self.BATCH], self._waiting[self.BATCH :]
        return self._coding.table(self._now)

    def tell(self, asked: ArchitectureTable, costs: Floats, violation: Floats) -> None:
        """Keep the archive; while nothing is feasible, the least violation."""
        genomes = np.concatenate([self._genomes, self._now])
        costs = np.concatenate([self._costs.reshape(-1, costs.shape[1]), costs])
        violation = np.concatenate([self._violation, violation])
        kept = front(costs, violation)
        if not kept.any():
            kept[int(np.argmin(violation))] = True
        self._genomes, self._costs, self._violation = genomes[kept], costs[kept], violation[kept]


class RegularisedEvolution:
    """Ageing evolution for several objectives (MO-REA): the oldest die, whatever they are worth.

    Real, Aggarwal, Huang and Le (2019), Regularized evolution for image classifier architecture
    search, with parents chosen by non-dominated rank and then by crowding distance.
    """

    POPULATION = 100
    TOURNAMENT = 10
    BATCH = 10

    def __init__(self, setting: Setting) -> None:
        """Seed the draws."""
        self._coding, self._rng = setting.coding, setting.rng()
        self._genomes = np.empty((0, len(self._coding.choices)), np.int64)
        self._costs = np.empty((0, setting.n_objectives))
        self._violation = np.empty(0)

    def ask(self) -> ArchitectureTable:
        """Random architectures until the population is full, then mutated winners."""
        if len(self._genomes) < self.POPULATION:
            self._now = self._coding.sample(self.BATCH, self._rng)
        else:
            self._now = self._coding.mutate(self._genomes[self._parents()], self._rng)
        return self._coding.table(self._now)

    def _parents(self) -> NDArray[np.intp]:
        rank = ranks(self._costs, self._violation)
        order = np.lexsort((-sparsity(self._costs, rank), rank))
        place = np.argsort(order)
        members = self._rng.random((self.BATCH, len(place))).argsort(axis=1)[:, : self.TOURNAMENT]
        best = place[members].argmin(axis=1)
        found: NDArray[np.intp] = members[np.arange(self.BATCH), best]
        return found

    def tell(self, asked: ArchitectureTable, costs: Floats, violation: Floats) -> None:
        """The new ones join, the oldest leave."""
        last = -self.POPULATION
        self._genomes = np.concatenate([self._genomes, self._now])[last:]
        self._costs = np.concatenate([self._costs, costs])[last:]
        self._violation = np.concatenate([self._violation, violation])[last:]
