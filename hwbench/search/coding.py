"""`Coding`: architectures of a space as rows of whole numbers, which optimisers vary.

A row has one gene a choice: the index of `n_layer`, `embed_dim` and `bias` among the space's, then
that of the heads of every layer, then that of the MLP ratio of every layer. Genes of layers that an
architecture does not have are 0, so that equal architectures are equal rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable, SearchSpace
from hwbench.encode import choice_index

Genomes = NDArray[np.int64]

ONCE = 3
"""Genes that are chosen once: n_layer, embed_dim, bias. The layers' follow."""


@dataclass(frozen=True)
class Coding:
    """The genes of a space.

    Attributes:
        search_space: The space.

    >>> import numpy as np
    >>> from hwbench.architectures import space
    >>> coding = Coding(space("s"))
    >>> drawn = coding.sample(3, np.random.default_rng(0))
    >>> bool((coding.genomes(coding.table(drawn)) == drawn).all())
    True
    """

    search_space: SearchSpace

    @property
    def deepest(self) -> int:
        """The most layers."""
        return max(self.search_space.n_layer)

    @cached_property
    def choices(self) -> NDArray[np.int64]:
        """How many choices each gene has, shape (genes,)."""
        s, deep = self.search_space, self.deepest
        once = [len(s.n_layer), len(s.embed_dim), len(s.bias)]
        return np.array(once + [len(s.n_head)] * deep + [len(s.mlp_ratio)] * deep, np.int64)

    def depth(self, genomes: Genomes) -> NDArray[np.int64]:
        """Layers of each row, shape (n,)."""
        return np.asarray(self.search_space.n_layer, np.int64)[genomes[:, 0]]

    def clear(self, genomes: Genomes) -> Genomes:
        """The rows with 0 for the genes of layers that they do not have."""
        absent = np.arange(self.deepest) >= self.depth(genomes)[:, None]
        cleared = genomes.copy()
        cleared[:, ONCE:][np.concatenate([absent, absent], axis=1)] = 0
        return cleared

    def sample(self, n: int, rng: np.random.Generator) -> Genomes:
        """Draw rows, every choice uniformly and independently, shape (n, genes).

        Drawing n and then m gives what drawing n + m gives.
        """
        uniform = rng.random((n, len(self.choices)))
        return self.clear((uniform * self.choices).astype(np.int64))

    def mutate(self, genomes: Genomes, rng: np.random.Generator, expected: float = 1.0) -> Genomes:
        """Change choices at random: at least one of each row, `expected` more on average.

        A changed gene takes another of its choices. A row that becomes deeper draws its new layers.

        Args:
            genomes: Rows, shape (n, genes).
            rng: Draws.
            expected: How many genes change besides the one that must.

        Returns:
            New rows, shape (n, genes).
        """
        n, genes = genomes.shape
        layers = self.depth(genomes)[:, None]
        place = np.arange(genes - ONCE) % self.deepest
        free = np.concatenate([np.ones((n, ONCE), bool), place < layers], axis=1)
        free &= self.choices > 1
        certain = np.argmax(np.where(free, rng.random((n, genes)), -1.0), axis=1)
        chance = expected / np.maximum(free.sum(axis=1, keepdims=True), 1)
        change = free & (rng.random((n, genes)) < chance)
        change[np.arange(n), certain] = True
        step = 1 + (rng.random((n, genes)) * np.maximum(self.choices - 1, 1)).astype(np.int64)
        moved = np.where(change, (genomes + step) % self.choices, genomes)
        drawn = (rng.random((n, genes)) * self.choices).astype(np.int64)
        return self.clear(np.where(free, moved, np.where(self.choices > 1, drawn, 0)))

    def neighbours(self, genome: NDArray[np.int64]) -> Genomes:
        """All rows that differ from one in a single choice, as `SearchSpace.neighbours` has them.

        A deeper neighbour repeats the last layer's genes.
        """
        layers = int(self.depth(genome[None])[0])
        found = []
        for gene, many in enumerate(self.choices.tolist()):
            if gene >= ONCE and (gene - ONCE) % self.deepest >= layers:
                continue
            for choice in range(many):
                if choice != genome[gene]:
                    near = genome.copy()
                    near[gene] = choice
                    if gene == 0:
                        for start in (ONCE, ONCE + self.deepest):
                            last = near[start + layers - 1]
                            near[start + layers : start + self.deepest] = last
                    found.append(near)
        return self.clear(np.stack(found)) if found else np.empty((0, len(genome)), np.int64)

    def table(self, genomes: Genomes) -> ArchitectureTable:
        """The architectures of rows."""
        s, deep = self.search_space, self.deepest
        layers = self.depth(genomes)
        there = np.arange(deep) < layers[:, None]
        heads = np.asarray(s.n_head, np.int64)[genomes[:, ONCE : ONCE + deep]]
        ratios = np.asarray(s.mlp_ratio, np.int64)[genomes[:, ONCE + deep :]]
        return ArchitectureTable(
            s,
            layers,
            np.asarray(s.embed_dim, np.int64)[genomes[:, 1]],
            np.asarray(s.bias, np.bool_)[genomes[:, 2]],
            np.where(there, heads, 0),
            np.where(there, ratios, 0),
        )

    def genomes(self, table: ArchitectureTable) -> Genomes:
        """The rows of architectures of this space."""
        s = self.search_space
        there = np.arange(self.deepest) < table.n_layer[:, None]

        def layered(values: NDArray[np.int64], choices: tuple[int, ...]) -> Genomes:
            filled = np.where(there, values, choices[0])
            return np.where(there, choice_index(filled, choices), 0)

        biases = tuple(int(b) for b in s.bias)
        once = [
            choice_index(table.n_layer, s.n_layer),
            choice_index(table.embed_dim, s.embed_dim),
            choice_index(table.bias.astype(np.int64), biases),
        ]
        return np.concatenate(
            [
                np.stack(once, axis=1),
                layered(table.n_head, s.n_head),
                layered(table.mlp_ratio, s.mlp_ratio),
            ],
            axis=1,
        ).astype(np.int64)

    def scaled(self, genomes: Genomes) -> NDArray[np.float64]:
        """Rows as numbers in [0, 1] by value, for models; absent layers have -1.

        Returns:
            float64, shape (n, genes).
        """
        s, deep = self.search_space, self.deepest
        groups = [s.n_layer, s.embed_dim, tuple(int(b) for b in s.bias)]
        groups += [s.n_head] * deep + [s.mlp_ratio] * deep
        columns = []
        for gene, choices in enumerate(groups):
            values = np.asarray(choices, np.float64)
            span = max(float(np.ptp(values)), 1.0)
            columns.append(((values - values.min()) / span)[genomes[:, gene]])
        found = np.stack(columns, axis=1)
        absent = np.arange(deep) >= self.depth(genomes)[:, None]
        found[:, ONCE:][np.concatenate([absent, absent], axis=1)] = -1.0
        return found


def texts(table: ArchitectureTable) -> list[str]:
    """The text form of every architecture of a table.

    >>> from hwbench.architectures import ArchitectureTable, space
    >>> archs = space("m").sample(2, seed=1)
    >>> texts(ArchitectureTable.of(archs)) == [str(a) for a in archs]
    True
    """
    s = table.search_space
    columns = (table.n_layer.tolist(), table.embed_dim.tolist(), table.bias.tolist())
    layers = (_joined(table.mlp_ratio, s.mlp_ratio), _joined(table.n_head, s.n_head))
    return [
        f"gpt-{s.name}-{n}-{d}{ratios}{heads}-{b}"
        for n, d, b, ratios, heads in zip(*columns, *layers, strict=True)
    ]


def _joined(values: NDArray[np.int64], choices: tuple[int, ...]) -> list[str]:
    """Each row's values with a dash before each, up to the first layer that is not there."""
    known = (0, *sorted(choices))
    pieces = np.array(["", *(f"-{choice}" for choice in known[1:])], object)
    joined: list[str] = pieces[np.searchsorted(known, values)].sum(axis=1).tolist()
    return joined
