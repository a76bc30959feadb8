"""`RecordedArchitectures`: a store's architectures of one space, and the strangers among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace
from hwbench.errors import InvalidStore


@dataclass(frozen=True, eq=False)
class RecordedArchitectures:
    """A store's architectures of one space.

    A stranger is a row whose choices are not the space's. Strangers are listed here and left out of
    everything else.

    Attributes:
        search_space: The space.
        table: The architectures of the space, n of them.
        arch_id: Their ids, int64, shape (n,).
        recorded_params: Parameters as the source counted them, int64, shape (n,), or None.
        recorded_macs: Multiply-accumulates of one forward as the source counted them, int64, shape
            (n,), or None.
        strangers: The strangers' ids to the reason.
    """

    search_space: SearchSpace
    table: ArchitectureTable
    arch_id: NDArray[np.int64]
    recorded_params: NDArray[np.int64] | None
    recorded_macs: NDArray[np.int64] | None
    strangers: dict[int, str]

    @classmethod
    def of(cls, owner: SearchSpace, table: Any, shown: str) -> RecordedArchitectures:
        """Sort the rows of an architectures file.

        Args:
            owner: The space.
            table: The `pyarrow.Table`, its columns checked.
            shown: The file's name in an error.

        Raises:
            InvalidStore: An id stands twice.
        """
        arch_id = table["arch_id"].to_numpy().astype(np.int64)
        values, counts = np.unique(arch_id, return_counts=True)
        if (counts > 1).any():
            twice = int(values[counts > 1][0])
            raise InvalidStore(f"Column 'arch_id' of {shown} must have no duplicates. Got {twice}.")
        columns = {
            name: table[name].to_numpy().astype(np.int64) for name in ("n_layer", "embed_dim")
        }
        bias = table["bias"].to_numpy().astype(np.bool_)
        lists = {name: _padded(table[name]) for name in ("n_head", "mlp_ratio")}
        reasons = _reasons(owner, columns, bias, lists)
        inside = reasons == ""
        deepest = max(owner.n_layer)
        made = ArchitectureTable(
            owner,
            columns["n_layer"][inside],
            columns["embed_dim"][inside],
            bias[inside],
            *(_widened(lists[name][0][inside], deepest) for name in ("n_head", "mlp_ratio")),
        )
        return cls(
            owner,
            made,
            arch_id[inside],
            _optional(table, "recorded_params", inside),
            _optional(table, "recorded_macs", inside),
            dict(zip(arch_id[~inside].tolist(), reasons[~inside].tolist(), strict=True)),
        )

    def __len__(self) -> int:
        """How many architectures are of the space."""
        return len(self.arch_id)

    def find(
        self, arch_id: NDArray[np.int64], shown: str
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The rows of architectures by id.

        Args:
            arch_id: Ids, shape (n,).
            shown: Where they are from, for an error.

        Returns:
            The row in `table` of each, and whether it is a stranger, both of shape (n,); a
            stranger's row means nothing.

        Raises:
            InvalidStore: An id is unknown.
        """
        order = self._order
        at = np.searchsorted(self.arch_id, arch_id, sorter=order)
        row = order[np.minimum(at, len(order) - 1)] if len(order) else np.zeros_like(at)
        known = self.arch_id[row] == arch_id if len(order) else np.zeros(len(at), np.bool_)
        stranger = ~known & np.isin(arch_id, list(self.strangers))
        unknown = arch_id[~known & ~stranger]
        if len(unknown):
            raise InvalidStore(
                f"Column 'arch_id' of {shown} must be an id of the space's architectures. "
                f"Got {unknown[0]} instead."
            )
        return row.astype(np.int64), stranger

    def row(self, architecture: Architecture) -> int | None:
        """The row in `table` of an architecture, or None."""
        if architecture.search_space != self.search_space:
            return None
        return self._index.get(keys(ArchitectureTable.of([architecture]))[0])

    def rows(self, table: ArchitectureTable) -> NDArray[np.int64]:
        """The rows in `table` of many architectures of this space, -1 where there is none."""
        index = self._index
        return np.array([index.get(key, -1) for key in keys(table)], np.int64)

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        return np.argsort(self.arch_id, kind="stable")

    @cached_property
    def _index(self) -> dict[bytes, int]:
        return {key: row for row, key in enumerate(keys(self.table))}


def keys(table: ArchitectureTable) -> list[bytes]:
    """A key for each row of a table: equal where two architectures of one space are equal."""
    once = np.stack([table.n_layer, table.embed_dim, table.bias], axis=1)
    rows = np.ascontiguousarray(
        np.concatenate([once, table.n_head, table.mlp_ratio], axis=1).astype(np.int16)
    )
    return [row.tobytes() for row in rows]


def _optional(table: Any, name: str, inside: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    if name not in table.column_names or table[name].null_count:
        return None
    column: NDArray[np.int64] = table[name].to_numpy().astype(np.int64)[inside]
    return column


def _padded(column: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lists as the rows of one array, filled up with 0, and their lengths."""
    lists = column.combine_chunks()
    lists = lists.chunk(0) if hasattr(lists, "num_chunks") else lists
    lengths = np.diff(lists.offsets.to_numpy()).astype(np.int64)
    rows = np.zeros((len(lengths), int(lengths.max(initial=0))), np.int64)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = lists.flatten().to_numpy()
    return rows, lengths


def _widened(rows: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    missing = max(0, width - rows.shape[1])
    return np.pad(rows[:, :width], ((0, 0), (0, missing)))


def _reasons(
    owner: SearchSpace,
    columns: dict[str, NDArray[np.int64]],
    bias: NDArray[np.bool_],
    lists: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> NDArray[np.object_]:
    """Why each row is a stranger; empty where it is not."""
    reasons = np.full(len(bias), "", dtype=object)

    def note(rows: NDArray[np.bool_], name: str, value: Any) -> None:
        for at in np.flatnonzero(rows & (reasons == "")).tolist():
            reasons[at] = f"{name} {value(at)} is not in space {owner.name}"

    for name, column in columns.items():
        note(np.isin(column, getattr(owner, name), invert=True), name, lambda at, c=column: c[at])
    note(np.isin(bias, owner.bias, invert=True), "bias", lambda at: bias[at])
    inside = columns["n_layer"]
    for name, (values, lengths) in lists.items():
        note(np.not_equal(lengths, inside), f"a list {name} of length", lambda at, n=lengths: n[at])
        strange = np.isin(values, getattr(owner, name), invert=True)
        strange &= np.arange(values.shape[1]) < lengths[:, None]
        note(
            np.asarray(strange.any(axis=1)),
            name,
            lambda at, v=values, s=strange: v[at][s[at]].tolist()[0],
        )
    return reasons
