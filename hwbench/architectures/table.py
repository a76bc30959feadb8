"""`ArchitectureTable`: many architectures of one space as arrays, for everything vectorised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures.architecture import Architecture
from hwbench.architectures.space import SearchSpace
from hwbench.errors import InvalidArchitecture, brief


@dataclass(frozen=True, slots=True, eq=False)
class ArchitectureTable:
    """Many architectures of one space, column by column.

    Attributes:
        search_space: The space of all of them.
        n_layer: Layers, int64, shape (n,).
        embed_dim: Residual width, int64, shape (n,).
        bias: bool, shape (n,).
        n_head: Heads a layer, int64, shape (n, deepest); 0 where there is no such layer.
        mlp_ratio: MLP ratio a layer, int64, shape (n, deepest); 0 where there is no such layer.
    """

    search_space: SearchSpace
    n_layer: NDArray[np.int64]
    embed_dim: NDArray[np.int64]
    bias: NDArray[np.bool_]
    n_head: NDArray[np.int64]
    mlp_ratio: NDArray[np.int64]

    @classmethod
    def of(cls, architectures: Iterable[Architecture]) -> ArchitectureTable:
        """Lay architectures out as columns.

        Args:
            architectures: At least one, all of one space.

        Raises:
            InvalidArchitecture: There is none, one is no `Architecture`, or they are of different
                spaces.
        """
        given: object = architectures
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InvalidArchitecture(
                f"Architectures must come in a list or the like. Got {brief(given)} instead."
            )
        architectures = list(architectures)
        if not architectures:
            raise InvalidArchitecture("There must be at least one architecture. Got none.")
        for a in architectures:
            if not isinstance(a, Architecture):
                raise InvalidArchitecture(
                    f"Each of the architectures must be an Architecture. Got {brief(a)} instead."
                )
        owner = architectures[0].search_space
        for a in architectures:
            if a.search_space is not owner and a.search_space != owner:
                other = a.search_space.name
                twin = " with other choices" if other == owner.name else ""
                raise InvalidArchitecture(
                    f"All architectures must be of one space. "
                    f"Got {owner.name!r} and {other!r}{twin}."
                )
        n = len(architectures)
        n_layer = np.fromiter((a.n_layer for a in architectures), np.int64, n)
        return cls(
            owner,
            n_layer,
            np.fromiter((a.embed_dim for a in architectures), np.int64, n),
            np.fromiter((a.bias for a in architectures), np.bool_, n),
            padded((a.n_head for a in architectures), n_layer, max(owner.n_layer)),
            padded((a.mlp_ratio for a in architectures), n_layer, max(owner.n_layer)),
        )

    def __len__(self) -> int:
        """The number of architectures."""
        return len(self.n_layer)

    def take(self, rows: NDArray[Any]) -> ArchitectureTable:
        """The architectures at some rows: indices, or a mask of shape (n,)."""
        return ArchitectureTable(
            self.search_space,
            self.n_layer[rows],
            self.embed_dim[rows],
            self.bias[rows],
            self.n_head[rows],
            self.mlp_ratio[rows],
        )

    def architectures(self) -> list[Architecture]:
        """The rows as values."""
        columns = (self.n_layer, self.embed_dim, self.n_head, self.mlp_ratio, self.bias)
        return [
            Architecture.unchecked(self.search_space, n, d, tuple(h[:n]), tuple(r[:n]), b)
            for n, d, h, r, b in zip(*(c.tolist() for c in columns), strict=True)
        ]

    @property
    def heads(self) -> NDArray[np.int64]:
        """Heads of all layers together, shape (n,)."""
        total: NDArray[np.int64] = self.n_head.sum(axis=1)
        return total

    @property
    def ratios(self) -> NDArray[np.int64]:
        """MLP ratios of all layers together, shape (n,)."""
        total: NDArray[np.int64] = self.mlp_ratio.sum(axis=1)
        return total


def padded(
    lists: Iterable[Iterable[int]], lengths: NDArray[np.int64], width: int
) -> NDArray[np.int64]:
    """Lists of the given lengths as the rows of one array, filled up with 0.

    Args:
        lists: One list a row.
        lengths: Their lengths, shape (n,).
        width: Columns of the result.

    Returns:
        int64, shape (n, width).
    """
    rows = np.zeros((len(lengths), width), np.int64)
    inside = np.arange(width) < lengths[:, None]
    rows[inside] = np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum()))
    return rows
