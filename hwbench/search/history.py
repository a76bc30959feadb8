"""What model-based optimisers share: their whole state is what has been evaluated.

A proposal depends on the history, the seed and the number of evaluations alone, so that a run can
go on from its file without fitting every earlier model again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable
from hwbench.search.coding import Genomes
from hwbench.search.optimiser import Floats, Setting, front


class History:
    """Everything evaluated so far, and how a random start and candidates are drawn.

    Attributes:
        setting: What the optimiser was made from.
        genomes: Rows evaluated, shape (n, genes).
        costs: Shape (n, objectives).
        violation: Shape (n,).
    """

    START = 20
    """Random architectures before the first model."""

    def __init__(self, setting: Setting) -> None:
        """Begin empty."""
        self.setting, self._coding = setting, setting.coding
        self.genomes = np.empty((0, len(self._coding.choices)), np.int64)
        self.costs = np.empty((0, setting.n_objectives))
        self.violation = np.empty(0)

    def ask(self) -> ArchitectureTable:
        """Random architectures first, then one at a time what the model proposes."""
        n = len(self.genomes)
        rng = self.setting.rng(n)
        if n < self.START:
            # Of the run's own stream, so that a resumed start goes on where it stopped.
            drawn = self._coding.sample(self.START, self.setting.rng())[n:]
            return self._coding.table(drawn)
        return self._coding.table(self.propose(rng)[None])

    def propose(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """The next row, shape (genes,)."""
        raise NotImplementedError

    def tell(self, asked: ArchitectureTable, costs: Floats, violation: Floats) -> None:
        """Add to the history."""
        self.genomes = np.concatenate([self.genomes, self._coding.genomes(asked)])
        self.costs = np.concatenate([self.costs, costs])
        self.violation = np.concatenate([self.violation, violation])

    restore = tell

    def normalised(self) -> Floats:
        """The costs between the least and the greatest seen, shape (n, objectives)."""
        low, high = self.costs.min(axis=0), self.costs.max(axis=0)
        return np.asarray((self.costs - low) / np.where(high > low, high - low, 1.0))

    def candidates(self, rng: np.random.Generator, drawn: int = 256, near: int = 512) -> Genomes:
        """Rows that were not evaluated: random ones, and mutants of the front."""
        best = self.genomes[front(self.costs, self.violation)]
        if not len(best):
            best = self.genomes[[int(np.argmin(self.violation))]]
        parents = best[rng.integers(len(best), size=near)]
        pool = np.concatenate(
            [self._coding.sample(drawn, rng), self._coding.mutate(parents, rng, expected=2.0)]
        )
        seen = {row.tobytes() for row in self.genomes}
        fresh = [i for i, row in enumerate(pool) if row.tobytes() not in seen]
        return pool[fresh] if fresh else pool
