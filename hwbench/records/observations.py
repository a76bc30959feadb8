"""`Repeats` and `Observations`: what was read off, ragged arrays and their columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable
from hwbench.errors import InvalidStore
from hwbench.metrics import METRICS
from hwbench.records.recorded import RecordedArchitectures
from hwbench.records.schema import UNITS
from hwbench.workload import Workload


@dataclass(frozen=True, eq=False)
class Repeats:
    """One list of values a row, flat.

    Attributes:
        flat: All values, float64, shape (total,).
        offsets: Where each row starts, and where the last one ends, int64, shape (n + 1,).

    >>> r = Repeats(np.array([3.0, 1.0, 2.0, 7.0]), np.array([0, 3, 4]))
    >>> r.medians.tolist(), r.without_first(1).lengths.tolist()
    ([2.0, 7.0], [2, 0])
    """

    flat: NDArray[np.float64]
    offsets: NDArray[np.int64]

    @classmethod
    def of_lists(cls, column: Any) -> Repeats:
        """The rows of an Arrow column of lists."""
        lists = column.combine_chunks()
        lists = lists.chunk(0) if hasattr(lists, "num_chunks") else lists
        offsets = lists.offsets.to_numpy().astype(np.int64)
        values = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
        return cls(values, offsets - offsets[0])

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    def of(self, row: int) -> NDArray[np.float64]:
        """The values of one row, a copy."""
        return self.flat[self.offsets[row] : self.offsets[row + 1]].copy()

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many values each row has, shape (n,)."""
        return np.diff(self.offsets)

    @cached_property
    def row(self) -> NDArray[np.int64]:
        """The row of every value, shape (total,)."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def rectangular(self) -> bool:
        """Whether all rows are of one length."""
        lengths = self.lengths
        return not len(lengths) or bool((lengths == lengths[0]).all())

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The values as one array, shape (n, repeats).

        Raises:
            InvalidStore: The rows are not all of one length.
        """
        if not self.rectangular:
            low, high = self.lengths.min(), self.lengths.max()
            raise InvalidStore(f"All rows must have as many repeats. Got {low} to {high}.")
        return self.flat.reshape(len(self), -1 if len(self.flat) else 0)

    @cached_property
    def medians(self) -> NDArray[np.float64]:
        """The median of each row, shape (n,); NaN where a row is empty."""
        return self._by_length(lambda block: np.median(block, axis=1))

    @cached_property
    def relative_std(self) -> NDArray[np.float64]:
        """Standard deviation over mean of each row, shape (n,); NaN below two values."""

        def spread(block: NDArray[np.float64]) -> NDArray[np.float64]:
            if block.shape[1] < 2:
                return np.full(len(block), np.nan)
            deviation: NDArray[np.float64] = block.std(axis=1, ddof=1) / block.mean(axis=1)
            return deviation

        return self._by_length(spread)

    def _by_length(self, statistic: Any) -> NDArray[np.float64]:
        result = np.full(len(self), np.nan)
        lengths = self.lengths
        for length in np.unique(lengths[lengths > 0]).tolist():
            rows = np.flatnonzero(lengths == length)
            at = self.offsets[rows][:, None] + np.arange(length)
            result[rows] = statistic(self.flat[at])
        return result

    def take(self, rows: NDArray[Any]) -> Repeats:
        """Some rows: indices, or a mask of shape (n,)."""
        index = np.arange(len(self))[rows]
        return self._cut(self.offsets[index], self.lengths[index])

    def without_first(self, count: int) -> Repeats:
        """The rows without their first values; a row with no more than `count` becomes empty."""
        if count == 0:
            return self
        lengths = np.maximum(self.lengths - count, 0)
        return self._cut(self.offsets[1:] - lengths, lengths)

    def _cut(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Repeats:
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Repeats(self.flat[at], offsets)


@dataclass(frozen=True, eq=False, kw_only=True)
class Observations:
    """One metric's observations on one device in one space, under one workload.

    Row i of every array is one observation. Strangers (architectures outside the space) are not
    among them.

    Attributes:
        device: The device; None for perplexity and accuracy.
        space: The space's name.
        field: The metric's name in a store, where the unit is spelled.
        metric: Its name in the API.
        workload: What was run and how it was read; None for perplexity and accuracy.
        workload_index: Its place in the store's list.
        recorded: The architectures of the space.
        arch_id: Shape (n,).
        row: Each architecture's row in `recorded.table`, shape (n,).
        session: One uninterrupted run on one machine, shape (n,).
        position: The order within the session, shape (n,).
        repeats: All raw repeats in the order they were taken.
        strangers: How many rows of strangers were left out.
    """

    device: str | None
    space: str
    field: str
    metric: str
    workload: Workload | None
    workload_index: int | None
    recorded: RecordedArchitectures
    arch_id: NDArray[np.int64]
    row: NDArray[np.int64]
    session: NDArray[np.int64]
    position: NDArray[np.int64]
    repeats: Repeats
    strangers: int = 0

    def __len__(self) -> int:
        """The number of observations."""
        return len(self.arch_id)

    @property
    def unit(self) -> str:
        """The unit of every value."""
        known = METRICS.get(self.metric)
        return known.unit if known is not None else UNITS.get(self.field, "")

    @cached_property
    def table(self) -> ArchitectureTable:
        """The architecture of every observation, row by row."""
        return self.recorded.table.take(self.row)

    @property
    def warmup_repeats(self) -> int:
        """How many leading repeats every fit, score and check leaves out."""
        return self.workload.warmup_repeats if self.workload is not None else 0

    @cached_property
    def kept(self) -> Repeats:
        """The repeats without the workload's warm-up; `kept.matrix` has shape (n, repeats)."""
        return self.repeats.without_first(self.warmup_repeats)

    def take(self, rows: NDArray[Any]) -> Observations:
        """Some observations: indices, or a mask of shape (n,)."""
        return replace(
            self,
            arch_id=self.arch_id[rows],
            row=self.row[rows],
            session=self.session[rows],
            position=self.position[rows],
            repeats=self.repeats.take(rows),
        )
