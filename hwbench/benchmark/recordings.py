"""`Recordings`: what a record store holds of a benchmark's space."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace
from hwbench.metrics import Metric
from hwbench.workload import Workload

if TYPE_CHECKING:
    from hwbench.records import Observations, Store

Floats = NDArray[np.float64]


class Recordings:
    """A record store as a benchmark asks it: about architectures of one space.

    Attributes:
        store: The store.
        space: The space.
        devices: The devices that were observed in the space.
    """

    def __init__(self, store: Store, space: SearchSpace) -> None:
        """Use `Recordings.open`."""
        self.store = store
        self.space = space
        self.devices = {d for d in store.devices() if space.name in store.spaces(d)}
        self._order: dict[tuple[str | None, str], tuple[NDArray[np.intp], NDArray[np.int64]]] = {}

    @classmethod
    def open(cls, path: str | Path, space: SearchSpace) -> Recordings:
        """Open a store; its files are read when they are asked for.

        Raises:
            InvalidValue: `path` is no path.
            InvalidStore: There is no store.
        """
        # A reader of Parquet is slow to import, and a benchmark without a store needs none.
        from hwbench.records import Store

        return cls(Store.open(path), space)

    def raw(
        self, arch: Architecture, device: str | None, metric: Metric, workload: Workload | None
    ) -> Floats | None:
        """All repeats of one architecture, warm-up included, or None."""
        if metric.source == "analytic" or (device is not None and device not in self.devices):
            return None
        return self.store.repeats(arch, device, metric.name, workload)

    def workload(
        self, device: str | None, metric: Metric, preferred: Workload | None
    ) -> Workload | None:
        """Which workload's readings stand for a metric: the only one, or the preferred one.

        None where there are several and the preferred one is not among them.
        """
        if device is None or device not in self.devices:
            return None
        there = self.store.workloads_of(device, self.space, metric.name)
        if len(there) == 1:
            return there[0]
        return preferred if preferred in there else None

    def kept(
        self,
        table: ArchitectureTable,
        device: str | None,
        metric: Metric,
        preferred: Workload | None,
    ) -> dict[int, Floats]:
        """The repeats of those rows of a table that were observed, warm-up left out.

        Args:
            table: Architectures of the space.
            device: The device, or None for a metric that belongs to none.
            metric: The metric.
            preferred: The workload that is meant where there are several.

        Returns:
            Row to repeats, at least one; those of several sessions one after the other.
        """
        seen = self._observations(device, metric, preferred)
        if seen is None:
            return {}
        key = (device, metric.name)
        if key not in self._order:
            order = np.argsort(seen.row, kind="stable")
            self._order[key] = order, seen.row[order]
        order, ordered = self._order[key]
        rows = seen.recorded.rows(table)
        first, last = (np.searchsorted(ordered, rows, side) for side in ("left", "right"))
        found: dict[int, Floats] = {}
        for i in np.flatnonzero(last > first).tolist():
            lists = [seen.kept.of(at) for at in order[first[i] : last[i]].tolist()]
            repeats = np.concatenate(lists)
            if len(repeats):
                found[i] = repeats
        return found

    def _observations(
        self, device: str | None, metric: Metric, preferred: Workload | None
    ) -> Observations | None:
        if self.space.name not in self.store.spaces():
            return None
        if device is None:
            return self.store.quality(self.space, metric.name)
        workload: Any = self.workload(device, metric, preferred)
        if workload is None:
            return None
        return self.store.observations(device, self.space, metric.name, workload)
