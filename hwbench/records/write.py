"""`StoreWriter`: making a store and appending to it, safe against a killed process.

Every file is written beside its place and renamed. `store.toml` announces the new hashes first and
keeps the old ones until all files are in place, so a store is valid at any moment: at worst the
last append is missing in part, and the next one cleans up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hwbench import architectures as archs
from hwbench.architectures import ArchitectureTable, SearchSpace
from hwbench.devices import canonical
from hwbench.errors import InvalidValue, UnknownName, invalid
from hwbench.records import files, schema
from hwbench.records.manifest import Manifest
from hwbench.records.readings import Condition, Readings
from hwbench.records.recorded import RecordedArchitectures, keys
from hwbench.workload import Workload


class StoreWriter:
    """A record store, open for appending.

    Several processes may append to one store: each append takes the store's lock and reads what is
    there.

    Attributes:
        path: The store's folder.

    Example:
        >>> from hwbench.records import Readings, StoreWriter
        >>> writer = StoreWriter.create("mine", name="mine", source="my desk", licence="CC0-1.0")
        ... # doctest: +SKIP
        >>> writer.append(Readings.one(arch, "latency", times_ms, device="my-gpu",
        ...                            workload=workload))              # doctest: +SKIP
    """

    def __init__(self, path: Path) -> None:
        """Use `StoreWriter.create` or `StoreWriter.open`."""
        self.path = path

    @classmethod
    def create(cls, path: str | Path, *, name: str, source: str, licence: str) -> StoreWriter:
        """Make an empty store.

        Args:
            path: The folder; it must not exist, or be empty.
            name: The store's name.
            source: Where its observations come from.
            licence: What they may be used under.

        Raises:
            InvalidValue: There is something at `path`.
            InvalidStore: The folder could not be written.
        """
        for field, value in (("name", name), ("source", source), ("licence", licence)):
            if not value:
                raise invalid(field, "StoreWriter.create", "a non-empty str", value)
        target = Path(path)
        with files.new_folder(target) as folder, files.writing(target):
            manifest = Manifest(name, source, licence)
            (folder / schema.MANIFEST).write_text(manifest.to_toml(), "utf-8")
        return cls(target)

    @classmethod
    def open(cls, path: str | Path) -> StoreWriter:
        """Open a store for appending.

        Raises:
            InvalidStore: There is no store, or its `store.toml` is not as it must be.
        """
        Manifest.read(Path(path))
        return cls(Path(path))

    def next_session(self, device: str, spaces: Iterable[str] | None = None) -> int:
        """A session number that no observation of a device has yet.

        Args:
            device: The device.
            spaces: The spaces to look at; all unless given.
        """
        root = self.path / schema.OBSERVATIONS / device
        latest = -1
        for file in root.glob("*.parquet"):
            if not files.is_temporary(file) and (spaces is None or file.stem in spaces):
                column = schema.read(file, str(file), schema.OBSERVATIONS, ["session"])["session"]
                latest = max(latest, int(column.to_numpy().max(initial=-1)))
        return latest + 1

    def add_architectures(
        self,
        table: ArchitectureTable,
        recorded_params: NDArray[np.int64] | None = None,
        recorded_macs: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Give ids to architectures; those that have one keep it.

        Args:
            table: Architectures of one space, n of them.
            recorded_params: Parameters as the source counted them, shape (n,); 0 where unknown.
            recorded_macs: Multiply-accumulates of one forward, likewise.

        Returns:
            The ids, shape (n,).

        Raises:
            InvalidStore: The store could not be read or written.
        """
        with files.writing(self.path), files.locked(self.path):
            change = _Change.begin(self.path)
            ids = change.ids(table, recorded_params, recorded_macs)
            change.commit()
        return ids

    def append(self, *readings: Readings, conditions: Sequence[Condition] = ()) -> None:
        """Append readings, and the conditions they were taken under, in one step.

        Args:
            readings: What was read; new architectures get an id.
            conditions: One for each (architecture, workload, session, position) that a profile
                took or gave up.

        Raises:
            InvalidValue: The store already has a reading of the same metric and architecture at
                the same workload, session and position, or two of the new ones collide.
            InvalidStore: The store could not be read or written.
        """
        with files.writing(self.path), files.locked(self.path):
            change = _Change.begin(self.path)
            for reading in readings:
                change.add(reading)
            for condition in conditions:
                change.note(condition)
            change.commit()

    def write_campaign(self, device: str, space: str, values: Mapping[str, Any]) -> None:
        """Write what a campaign says about itself, in place of what it said before.

        Args:
            device: The device.
            space: The space's name.
            values: Ready for JSON.

        Raises:
            InvalidStore: The store could not be written.
        """
        with files.writing(self.path), files.locked(self.path):
            change = _Change.begin(self.path)
            text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
            change.texts[schema.campaign_path(canonical(device), space)] = text
            change.commit()

    def write_hashes(self) -> int:
        """Write the hash of every file into `store.toml`.

        Returns:
            The number of files.

        Raises:
            InvalidStore: The store could not be read or written.
        """
        with files.writing(self.path), files.locked(self.path):
            files.clear_temporary(self.path)
            hashes = {name: files.sha256(self.path / name) for name in files.data_files(self.path)}
            manifest = Manifest.read(self.path).replace(
                sha256=MappingProxyType(hashes), superseded=MappingProxyType({})
            )
            files.write_text(self.path / schema.MANIFEST, manifest.to_toml())
        return len(hashes)


class _Change:
    """What one append changes, collected in memory until `commit`."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self.tables: dict[str, tuple[str, Any]] = {}
        self.texts: dict[str, str] = {}
        self.known: dict[str, RecordedArchitectures] = {}

    @classmethod
    def begin(cls, path: Path) -> _Change:
        """Read the manifest and settle what a killed append left."""
        files.clear_temporary(path)
        manifest = Manifest.read(path)
        hashes = dict(manifest.sha256)
        for name in manifest.superseded:
            hashes.pop(name, None)
            if (path / name).is_file():
                hashes[name] = files.sha256(path / name)
        return cls(path, manifest.replace(sha256=hashes, superseded={}))

    def ids(
        self,
        table: ArchitectureTable,
        params: NDArray[np.int64] | None = None,
        macs: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """The ids of architectures, new ones given to those that have none."""
        space = self._space(table.search_space)
        name = schema.relative_path(schema.ARCHITECTURES, space.name)
        before = self._table(name, schema.ARCHITECTURES)
        if space.name not in self.known:
            self.known[space.name] = RecordedArchitectures.of(space, before, name)
        known = self.known[space.name]
        rows = known.rows(table)
        if (rows < 0).any():
            new = _first_of_each(table, np.flatnonzero(rows < 0))
            taken = before["arch_id"].to_numpy()
            first = int(taken.max(initial=-1)) + 1
            added = _architecture_rows(table, new, first, params, macs)
            after = pa.concat_tables([before, added], promote_options="default")
            self.tables[name] = (schema.ARCHITECTURES, after)
            known = self.known[space.name] = RecordedArchitectures.of(space, after, name)
            rows = known.rows(table)
        return known.arch_id[rows]

    def add(self, reading: Readings) -> None:
        """Append readings to their file."""
        arch_id = self.ids(reading.architectures)
        n, space = len(arch_id), reading.architectures.search_space.name
        columns: dict[str, Any] = {
            "arch_id": arch_id,
            "metric": pa.array([reading.metric] * n, pa.string()).dictionary_encode(),
            "session": reading.session,
            "position": reading.position,
            "values": pa.ListArray.from_arrays(
                pa.array(reading.repeats.offsets, pa.int32()),
                pa.array(reading.repeats.flat, pa.float32()),
            ),
        }
        kind = schema.QUALITY if reading.device is None else schema.OBSERVATIONS
        if reading.workload is not None:
            columns["workload"] = np.full(n, self._workload(reading.workload))
        self._append(schema.relative_path(kind, space, reading.device), kind, columns)

    def note(self, condition: Condition) -> None:
        """Append the conditions of one architecture to their file."""
        arch = condition.architecture
        columns = {
            name: [getattr(condition, name)]
            for name in schema.CONDITION_SCHEMA.names
            if name not in ("arch_id", "workload", "warmup_values")
        }
        columns["arch_id"] = self.ids(ArchitectureTable.of([arch])).tolist()
        columns["workload"] = [self._workload(condition.workload)]
        columns["warmup_values"] = [list(condition.warmup_values)]
        kind = schema.CONDITIONS
        self._append(schema.relative_path(kind, arch.space, condition.device), kind, columns)

    def commit(self) -> None:
        """Put all files in their places."""
        try:
            self._commit()
        except OSError:
            files.clear_temporary(self.path)
            raise

    def _commit(self) -> None:
        names = (*self.tables, *self.texts)
        beside = {name: files.temporary(self.path / name) for name in names}
        for name, (kind, table) in self.tables.items():
            files.write_table(beside[name], kind, table)
        for name, text in self.texts.items():
            beside[name].parent.mkdir(parents=True, exist_ok=True)
            beside[name].write_text(text, "utf-8")
        hashes = {name: files.sha256(path) for name, path in beside.items()}
        before = dict(self.manifest.sha256)
        replaced = {
            name: before.get(name) or _hash_or_none(self.path / name) for name in sorted(hashes)
        }
        after = {**before, **hashes}
        self._announce(after, replaced)
        for name, path in beside.items():
            path.replace(self.path / name)
        if beside:
            self._announce(after, {})

    def _announce(self, sha256: dict[str, str], superseded: dict[str, str]) -> None:
        manifest = self.manifest.replace(sha256=sha256, superseded=superseded)
        files.write_text(self.path / schema.MANIFEST, manifest.to_toml())

    def _table(self, name: str, kind: str) -> Any:
        if name in self.tables:
            return self.tables[name][1]
        if (self.path / name).is_file():
            return schema.read(self.path / name, str(self.path / name), kind)
        return schema.SCHEMAS[kind].empty_table()

    def _append(self, name: str, kind: str, columns: dict[str, Any]) -> None:
        whole = schema.SCHEMAS[kind]
        rows = pa.table({n: columns[n] for n in whole.names}).cast(whole)
        after = pa.concat_tables([self._table(name, kind), rows]).unify_dictionaries()
        twice = duplicates(after, kind)
        if len(twice):
            row = {k: after[k][int(twice[0])].as_py() for k in keys_of(kind)}
            said = ", ".join(f"{k} {v}" for k, v in row.items())
            raise InvalidValue(f"Readings must be new to the store. {name} already has {said}.")
        self.tables[name] = (kind, after.combine_chunks())

    def _workload(self, workload: Workload) -> int:
        if workload not in self.manifest.workloads:
            known = (*self.manifest.workloads, workload)
            self.manifest = self.manifest.replace(workloads=known)
        return self.manifest.workloads.index(workload)

    def _space(self, space: SearchSpace) -> SearchSpace:
        """The space under its name; one of one's own is written into the manifest."""
        try:
            named = self.manifest.spaces.get(space.name) or archs.space(space.name)
        except UnknownName:
            own = {**self.manifest.spaces, space.name: space}
            self.manifest = self.manifest.replace(spaces=MappingProxyType(own))
            return space
        if named != space:
            raise InvalidValue(
                f"The store knows another space by the name of {space.name!r}; rename one of them."
            )
        return named


def keys_of(kind: str) -> list[str]:
    """The columns that together name a row of a file: no two rows agree in all of them."""
    names = ("arch_id", "workload", "metric", "session", "position")
    return [name for name in names if name in schema.SCHEMAS[kind].names]


def duplicates(table: Any, kind: str) -> NDArray[np.intp]:
    """The rows whose key stands in an earlier row."""
    columns = []
    for name in keys_of(kind):
        column = table[name].combine_chunks()
        column = column.dictionary_encode().indices if name == "metric" else column
        columns.append(np.asarray(column.to_numpy(zero_copy_only=False), np.int64))
    if not len(table):
        return np.zeros(0, np.intp)
    order = np.lexsort(columns[::-1])
    sorted_columns = [column[order] for column in columns]
    same = np.ones(len(order) - 1, np.bool_)
    for column in sorted_columns:
        same &= column[1:] == column[:-1]
    return np.sort(order[1:][same])


def _hash_or_none(path: Path) -> str:
    return files.sha256(path) if path.is_file() else ""


def _first_of_each(table: ArchitectureTable, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """The first row of each different architecture among some rows, in order."""
    first: dict[bytes, int] = {}
    for row, key in zip(rows.tolist(), keys(table.take(rows)), strict=True):
        first.setdefault(key, row)
    return np.array(list(first.values()), np.intp)


def _architecture_rows(
    table: ArchitectureTable,
    rows: NDArray[np.intp],
    first_id: int,
    params: NDArray[np.int64] | None,
    macs: NDArray[np.int64] | None,
) -> Any:
    some = table.take(rows)
    columns: dict[str, Any] = {
        "arch_id": np.arange(first_id, first_id + len(rows), dtype=np.int32),
        "n_layer": some.n_layer.astype(np.int16),
        "embed_dim": some.embed_dim.astype(np.int16),
        "n_head": _lists(some.n_head, some.n_layer),
        "mlp_ratio": _lists(some.mlp_ratio, some.n_layer),
        "bias": some.bias,
    }
    for name, counts in (("recorded_params", params), ("recorded_macs", macs)):
        if counts is not None:
            columns[name] = pa.array(counts[rows], pa.int64(), mask=counts[rows] == 0)
    return pa.table(columns)


def _lists(rows: NDArray[np.int64], lengths: NDArray[np.int64]) -> Any:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    inside = np.arange(rows.shape[1]) < lengths[:, None]
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(rows[inside], pa.int16())
    )
