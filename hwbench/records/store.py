"""`Store`: reading a record store, lazily and column by column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from hwbench import architectures as archs
from hwbench.architectures import Architecture, SearchSpace
from hwbench.devices import canonical
from hwbench.errors import InvalidStore, invalid
from hwbench.records import files, schema
from hwbench.records.manifest import Manifest
from hwbench.records.observations import Observations, Repeats
from hwbench.records.recorded import RecordedArchitectures
from hwbench.workload import Workload

if TYPE_CHECKING:
    import pandas as pd


class Store:
    """A record store, open for reading.

    What was read is kept, so asking again costs nothing; a store that another process appends to is
    seen as it was when each file was first read.

    Attributes:
        path: The store's folder.
        manifest: What its `store.toml` says.

    Example:
        >>> from hwbench.records import Store
        >>> store = Store.open("data/miniature")                       # doctest: +SKIP
        >>> seen = store.observations("h100", "s", "latency")          # doctest: +SKIP
        >>> seen.kept.matrix.shape                                     # doctest: +SKIP
        (3, 7)
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        """Use `Store.open`."""
        self.path = path
        self.manifest = manifest
        self._architectures: dict[str, RecordedArchitectures] = {}
        self._files: dict[str, Any] = {}
        self._observations: dict[tuple[str | None, str, str, int | None], Observations] = {}
        self._rows: dict[tuple[str | None, str, str, int | None], dict[int, list[int]]] = {}

    @classmethod
    def open(cls, path: str | Path) -> Store:
        """Open a store; only its `store.toml` is read.

        Raises:
            InvalidStore: There is no store, or its `store.toml` is not as it must be.
        """
        given: object = path
        if not isinstance(given, str | Path) or not str(given) or "\0" in str(given):
            raise invalid("path", "Store.open", "the path of a folder", path)
        folder = Path(path)
        return cls(folder, Manifest.read(folder))

    def __repr__(self) -> str:
        """Its name and folder."""
        return f"Store({self.name!r} at {str(self.path)!r})"

    @property
    def name(self) -> str:
        """The store's name."""
        return self.manifest.name

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """What the observations were taken of."""
        return self.manifest.workloads

    def devices(self) -> tuple[str, ...]:
        """The devices that were observed, in alphabetical order."""
        root = self.path / schema.OBSERVATIONS
        return tuple(sorted({path.parent.name for path in _tables(root, "*/*.parquet")}))

    def spaces(self, device: str | None = None) -> tuple[str, ...]:
        """The spaces with architectures, or those that a device was observed in.

        Named spaces come first, in their own order.
        """
        part = schema.ARCHITECTURES if device is None else schema.OBSERVATIONS
        root = self.path / part / (canonical(device) if device is not None else "")
        found = {path.stem for path in _tables(root, "*.parquet")}
        known = [name for name in archs.spaces() if name in found]
        return (*known, *sorted(found.difference(known)))

    def space(self, space: str | SearchSpace) -> SearchSpace:
        """A space that the store defines, a named one, or a file of one's own.

        Raises:
            UnknownName: No such space.
        """
        own = self.manifest.spaces.get(space) if isinstance(space, str) else None
        return own if own is not None else archs.space(space)

    def metrics(self, device: str | None, space: str | SearchSpace) -> tuple[str, ...]:
        """The API names of what was observed: on a device, or of quality where it is None."""
        table = self._table(device, self.space(space).name)
        if table is None:
            return ()
        fields = pc.unique(table["metric"].cast("string")).to_pylist()
        return tuple(schema.api_name(f) for f in sorted(fields))

    def workloads_of(
        self, device: str, space: str | SearchSpace, metric: str
    ) -> tuple[Workload, ...]:
        """The workloads under which a metric was observed on a device, in the store's order."""
        table = self._table(canonical(device), self.space(space).name)
        if table is None:
            return ()
        rows = table.filter(pc.equal(table["metric"].cast("string"), schema.field_name(metric)))
        return tuple(self.workloads[i] for i in np.unique(_integers(rows["workload"])).tolist())

    def conditions(self, device: str, space: str | SearchSpace) -> pd.DataFrame | None:
        """Under which conditions a profile took its readings, one row each, or None.

        Raises:
            InvalidStore: The file is damaged.
        """
        path = self._path(schema.CONDITIONS, self.space(space).name, canonical(device))
        if not path.is_file():
            return None
        frame: pd.DataFrame = schema.read(path, str(path), schema.CONDITIONS).to_pandas()
        return frame

    def campaign(self, device: str, space: str | SearchSpace) -> dict[str, Any] | None:
        """What a profiling campaign says about itself: its plan, sessions and learning curve.

        Raises:
            InvalidStore: The file is damaged.
        """
        name = schema.campaign_path(canonical(device), self.space(space).name)
        try:
            found: object = json.loads((self.path / name).read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise InvalidStore(f"Cannot read {self.path / name}: {error}.") from None
        if not isinstance(found, dict):
            raise InvalidStore(f"{self.path / name} must hold an object.")
        return found

    def architectures(self, space: str | SearchSpace) -> RecordedArchitectures:
        """All architectures of a space, those that are not of it listed apart.

        Raises:
            InvalidStore: The store has none of the space, or the file is damaged.
            UnknownName: No such space.
        """
        owner = self.space(space)
        if owner.name not in self._architectures:
            path = self._path(schema.ARCHITECTURES, owner.name)
            if not path.is_file():
                there = ", ".join(self.spaces()) or "none"
                raise InvalidStore(
                    f"{self.path} has no architectures of space {owner.name}. It has: {there}."
                )
            table = schema.read(path, str(path), schema.ARCHITECTURES)
            self._architectures[owner.name] = RecordedArchitectures.of(owner, table, str(path))
        return self._architectures[owner.name]

    def observations(
        self,
        device: str,
        space: str | SearchSpace,
        metric: str,
        workload: Workload | None = None,
    ) -> Observations | None:
        """All observations of a metric on a device, rows of strangers left out.

        Args:
            device: The device's name or alias.
            space: The space.
            metric: The metric's API or field name, or an alias.
            workload: Which one, where the metric was observed under several.

        Returns:
            The observations in the order of the file, or None where there are none.

        Raises:
            InvalidValue: Several workloads, and none was named.
            InvalidStore: The file is damaged.
            UnknownName: No such metric or space.
        """
        if device is None:
            raise invalid("device", "Store.observations", "a device's name", device)
        return self._read(canonical(device), self.space(space), metric, workload)

    def quality(self, space: str | SearchSpace, metric: str) -> Observations | None:
        """All observations of perplexity or accuracy, which belong to no device.

        Its `workload` is None. Everything else is as in `observations`.
        """
        return self._read(None, self.space(space), metric, None)

    def repeats(
        self,
        architecture: Architecture,
        device: str | None,
        metric: str,
        workload: Workload | None = None,
    ) -> NDArray[np.float64] | None:
        """The raw repeats that were recorded of one architecture, warm-up included.

        Args:
            architecture: The architecture.
            device: The device, or None for perplexity and accuracy.
            metric: The metric's API or field name, or an alias.
            workload: Which one, where the metric was observed under several.

        Returns:
            The repeats in the order they were taken, those of several sessions one after the other,
            in the metric's unit; None where there are none.

        Raises:
            InvalidValue: Several workloads, and none was named.
            InvalidStore: A file is damaged.
            UnknownName: No such metric.
        """
        owner = architecture.search_space
        known = self._path(schema.ARCHITECTURES, owner.name).is_file()
        name = canonical(device) if device is not None else None
        seen = self._read(name, owner, metric, workload) if known else None
        if seen is None:
            return None
        row = seen.recorded.row(architecture)
        if row is None:
            return None
        key = self._key(name, owner.name, seen.field, workload)
        if key not in self._rows:
            rows: dict[int, list[int]] = {}
            for at in np.lexsort((seen.position, seen.session)).tolist():
                rows.setdefault(int(seen.row[at]), []).append(at)
            self._rows[key] = rows
        found = self._rows[key].get(row)
        return np.concatenate([seen.repeats.of(at) for at in found]) if found else None

    def _path(self, kind: str, space: str, device: str | None = None) -> Path:
        return self.path / schema.relative_path(kind, space, device)

    def _table(self, device: str | None, space: str) -> Any:
        kind = schema.QUALITY if device is None else schema.OBSERVATIONS
        path = self._path(kind, space, device)
        if str(path) not in self._files:
            if not path.is_file():
                return None
            self._files[str(path)] = schema.read(path, str(path), kind)
        return self._files[str(path)]

    def _key(
        self, device: str | None, space: str, field: str, workload: Workload | None
    ) -> tuple[str | None, str, str, int | None]:
        index = None if workload is None else self._index(workload)
        return (device, space, field, index)

    def _index(self, workload: Workload) -> int:
        if workload not in self.workloads:
            raise invalid("workload", "Store", f"one of {self.name}'s workloads", str(workload))
        return self.workloads.index(workload)

    def _read(
        self, device: str | None, owner: SearchSpace, metric: str, workload: Workload | None
    ) -> Observations | None:
        table = self._table(device, owner.name)
        present = [] if table is None else pc.unique(table["metric"].cast("string")).to_pylist()
        field = schema.field_name(metric, present)
        if field not in present:
            return None
        key = self._key(device, owner.name, field, workload)
        if key not in self._observations:
            rows = table.filter(pc.equal(table["metric"].cast("string"), field))
            made = self._made(rows, key, owner, workload)
            if made is None:
                return None
            self._observations[key] = made
        return self._observations[key]

    def _made(
        self,
        rows: Any,
        key: tuple[str | None, str, str, int | None],
        owner: SearchSpace,
        workload: Workload | None,
    ) -> Observations | None:
        device, space, field, index = key
        kind = schema.QUALITY if device is None else schema.OBSERVATIONS
        shown = str(self._path(kind, space, device))
        if device is not None:
            index, rows = self._of_one_workload(rows, index, field, shown)
            if index is not None:
                workload = self.workloads[index]
        recorded = self.architectures(owner)
        arch_id = _integers(rows["arch_id"])
        row, stranger = recorded.find(arch_id, shown)
        if stranger.any():
            rows = rows.filter(~stranger)
            arch_id, row = arch_id[~stranger], row[~stranger]
        if not len(arch_id):
            return None
        return Observations(
            device=device,
            space=space,
            field=field,
            metric=schema.api_name(field),
            workload=workload,
            workload_index=index,
            recorded=recorded,
            arch_id=arch_id,
            row=row,
            session=_integers(rows["session"]),
            position=_integers(rows["position"]),
            repeats=_repeats(rows["values"], shown, field),
            strangers=int(stranger.sum()),
        )

    def _of_one_workload(
        self, rows: Any, index: int | None, field: str, shown: str
    ) -> tuple[int | None, Any]:
        indices = _integers(rows["workload"])
        there = np.unique(indices).tolist()
        if there and not 0 <= there[0] <= there[-1] < len(self.workloads):
            wrong = there[0] if there[0] < 0 else there[-1]
            raise InvalidStore(
                f"Column 'workload' of {shown} must be an index into the {len(self.workloads)} "
                f"workloads of store.toml. Got {wrong} instead."
            )
        if index is not None:
            return index, rows.filter(indices == index)
        if len(there) > 1:
            listed = "; ".join(str(self.workloads[i]) for i in there)
            raise invalid("workload", "Store", f"given, for {field} has several ({listed})", None)
        return (there[0] if there else None), rows


def _tables(root: Path, pattern: str) -> list[Path]:
    """The files of a pattern, without what an interrupted write left."""
    return [path for path in root.glob(pattern) if not files.is_temporary(path)]


def _integers(column: Any) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _repeats(column: Any, shown: str, field: str) -> Repeats:
    repeats = Repeats.of_lists(column)
    finite = np.isfinite(repeats.flat)
    if not finite.all():
        wrong = repeats.flat[~finite][0]
        raise InvalidStore(f"Column 'values' of {shown} must be finite. Got {wrong} in {field}.")
    return repeats
