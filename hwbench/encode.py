"""Named, versioned feature encoders: architectures as the columns that a booster reads.

An artefact's card names the encoder and its version. A change to what an encoder gives is a new
version, and an artefact made for another version is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable, SearchSpace
from hwbench.errors import unknown


@dataclass(frozen=True, slots=True)
class Encoder:
    """One way to lay architectures out as features.

    Attributes:
        name: What a card calls it.
        version: Raised whenever the same architecture gives other numbers, or other columns.
        columns: The names of the columns for a space.
        encode: The features of a table, float32, shape (n, len(columns(space))).
    """

    name: str
    version: int
    columns: Callable[[SearchSpace], tuple[str, ...]]
    encode: Callable[[ArchitectureTable], NDArray[np.float32]]


def choice_counts(table: ArchitectureTable) -> NDArray[np.float64]:
    """How many layers have each number of heads, then each MLP ratio.

    Args:
        table: The architectures.

    Returns:
        float64, shape (n, choices of heads + choices of ratio), columns in the space's order.
    """
    owner = table.search_space
    columns = [(table.n_head == h).sum(axis=1) for h in owner.n_head]
    columns += [(table.mlp_ratio == r).sum(axis=1) for r in owner.mlp_ratio]
    return np.stack(columns, axis=1).astype(np.float64)


def choice_index(column: NDArray[np.int64], choices: tuple[int, ...]) -> NDArray[np.intp]:
    """The index of every value among a space's choices, which need not be sorted.

    >>> choice_index(np.array([768, 192]), (192, 384, 768)).tolist()
    [2, 0]
    """
    order = np.argsort(choices)
    return order[np.searchsorted(np.asarray(choices)[order], column)]


def _count_columns(owner: SearchSpace) -> tuple[str, ...]:
    heads = tuple(f"layers_with_{h}_heads" for h in owner.n_head)
    ratios = tuple(f"layers_with_ratio_{r}" for r in owner.mlp_ratio)
    return ("embed_dim", "bias", "n_layer", *heads, *ratios, "heads", "ratios")


def _counts(table: ArchitectureTable) -> NDArray[np.float32]:
    once = np.stack([table.embed_dim, table.bias, table.n_layer], axis=1)
    sums = np.stack([table.heads, table.ratios], axis=1)
    return np.concatenate([once, choice_counts(table), sums], axis=1, dtype=np.float32)


def _position_columns(owner: SearchSpace) -> tuple[str, ...]:
    deepest = range(max(owner.n_layer))
    heads = tuple(f"heads_of_layer_{i}" for i in deepest)
    ratios = tuple(f"ratio_of_layer_{i}" for i in deepest)
    pairs = tuple(
        f"layers_with_{h}_heads_and_ratio_{r}" for h in owner.n_head for r in owner.mlp_ratio
    )
    return (*_count_columns(owner), *heads, *ratios, *pairs)


def _positions(table: ArchitectureTable) -> NDArray[np.float32]:
    owner = table.search_space
    pairs = [
        ((table.n_head == h) & (table.mlp_ratio == r)).sum(axis=1)
        for h in owner.n_head
        for r in owner.mlp_ratio
    ]
    return np.concatenate(
        [_counts(table), table.n_head, table.mlp_ratio, np.stack(pairs, axis=1)],
        axis=1,
        dtype=np.float32,
        casting="unsafe",
    )


ENCODERS: Mapping[str, Encoder] = MappingProxyType(
    {
        e.name: e
        for e in (
            Encoder("layer-counts", 1, _count_columns, _counts),
            Encoder("layer-positions", 1, _position_columns, _positions),
        )
    }
)
"""All encoders by name: counts of each choice over the layers; the same and every layer's own."""


def encoder(name: str) -> Encoder:
    """The encoder of that name.

    Raises:
        UnknownName: No encoder bears the name.

    >>> from hwbench.architectures import ArchitectureTable, space
    >>> table = ArchitectureTable.of(space("s").sample(2, seed=0))
    >>> encoder("layer-counts").encode(table).shape
    (2, 11)
    """
    found = ENCODERS.get(name)
    if found is None:
        raise unknown("encoder", name, ENCODERS)
    return found


class Features:
    """A table of architectures and everything that is computed from it more than once.

    A query asks some thirty surrogates about the same architectures; each of these is computed when
    it is first asked for, and once.
    """

    def __init__(self, table: ArchitectureTable) -> None:
        """Take the table."""
        self.table = table
        self._encoded: dict[str, NDArray[np.float32]] = {}

    def __len__(self) -> int:
        """The number of architectures."""
        return len(self.table)

    def encoded(self, by: Encoder) -> NDArray[np.float32]:
        """The features that an encoder makes, shape (n, columns)."""
        if by.name not in self._encoded:
            self._encoded[by.name] = by.encode(self.table)
        return self._encoded[by.name]

    @cached_property
    def width(self) -> NDArray[np.intp]:
        """The index of every architecture's `embed_dim` among its space's, shape (n,)."""
        return choice_index(self.table.embed_dim, self.table.search_space.embed_dim)

    @cached_property
    def bias(self) -> NDArray[np.intp]:
        """The index of every architecture's `bias` among its space's, shape (n,)."""
        choices = tuple(int(b) for b in self.table.search_space.bias)
        return choice_index(self.table.bias.astype(np.int64), choices)

    @cached_property
    def counts(self) -> NDArray[np.float64]:
        """`choice_counts` of the table."""
        return choice_counts(self.table)
