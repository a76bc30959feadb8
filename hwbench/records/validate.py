"""`validate`: whether a store is as it must be, every fault with its file, rule and count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hwbench import architectures as archs
from hwbench.architectures import SearchSpace
from hwbench.devices import canonical, catalogue
from hwbench.errors import HwbenchError, InvalidStore
from hwbench.records import files, power, schema
from hwbench.records.manifest import Manifest
from hwbench.records.observations import Repeats
from hwbench.records.readings import unacceptable
from hwbench.records.recorded import RecordedArchitectures, keys
from hwbench.records.write import duplicates, keys_of

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a store.

    Attributes:
        severity: "error" where the store must not be used, "warning" where a reader should know.
        file: The file's path inside the store.
        rule: What is violated, in a word or two.
        count: How often.
        message: What is wrong, in one line.
        examples: The first few.
    """

    severity: Literal["error", "warning"]
    file: str
    rule: str
    count: int
    message: str
    examples: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """All fields by name, ready for JSON."""
        return {
            "severity": self.severity,
            "file": self.file,
            "rule": self.rule,
            "count": self.count,
            "message": self.message,
            "examples": list(self.examples),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What `validate` found.

    Attributes:
        path: The store.
        findings: All faults, in the order of the files.
        files: How many files were looked at.
        rows: How many rows they hold.
    """

    path: Path
    findings: tuple[Finding, ...]
    files: int
    rows: int

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The faults that forbid the store's use."""
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The faults that a reader should know."""
        return tuple(f for f in self.findings if f.severity == "warning")

    @property
    def valid(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def to_dict(self) -> dict[str, Any]:
        """Everything by name, ready for JSON."""
        return {
            "path": str(self.path),
            "valid": self.valid,
            "files": self.files,
            "rows": self.rows,
            "errors": len(self.errors),
            "warnings": len(self.warnings),
            "findings": [finding.to_dict() for finding in self.findings],
        }


def validate(path: str | Path) -> Report:
    """Check a store: its files, schema, values and hashes.

    Args:
        path: The store's folder.

    Returns:
        What was found; an empty store that says what it is has no fault.

    Raises:
        InvalidStore: There is no store, or its `store.toml` is not as it must be.
    """
    folder = Path(path)
    manifest = Manifest.read(folder)
    check = _Check(folder, manifest)
    for name in files.data_files(folder):
        check.place(name)
    check.hashes()
    for name in check.placed[schema.ARCHITECTURES]:
        check.architectures(name)
    for kind in (schema.OBSERVATIONS, schema.CONDITIONS, schema.QUALITY):
        for name in check.placed[kind]:
            check.rows_of(kind, name)
    check.units()
    return Report(folder, tuple(check.findings), check.files, check.rows)


class _Check:
    """The faults found so far, and what later checks need of earlier ones."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.findings: list[Finding] = []
        self.placed: dict[str, list[str]] = {kind: [] for kind in schema.SCHEMAS}
        self.recorded: dict[str, RecordedArchitectures | None] = {}
        self.fields: set[str] = set()
        self.files = self.rows = 0

    def error(self, file: str, rule: str, message: str, examples: Sequence[Any] = ()) -> None:
        """Note an error, once for all the examples."""
        self._note("error", file, rule, message, examples)

    def warn(self, file: str, rule: str, message: str, examples: Sequence[Any] = ()) -> None:
        """Note a warning, once for all the examples."""
        self._note("warning", file, rule, message, examples)

    def _note(
        self,
        severity: Literal["error", "warning"],
        file: str,
        rule: str,
        message: str,
        examples: Sequence[Any],
    ) -> None:
        shown = tuple(map(str, examples[:_EXAMPLES]))
        self.findings.append(Finding(severity, file, rule, max(1, len(examples)), message, shown))

    def place(self, name: str) -> None:
        """Sort a file by its place in the store."""
        self.files += 1
        kind, *rest = name.split("/")
        if kind == schema.CAMPAIGNS and len(rest) == 2 and name.endswith(".json"):
            return
        depth = 2 if kind in (schema.OBSERVATIONS, schema.CONDITIONS) else 1
        if kind not in schema.SCHEMAS or len(rest) != depth or not name.endswith(".parquet"):
            self.warn(name, "place", "a store has no file of that name; it is not read")
            return
        self.placed[kind].append(name)
        if depth == 2:
            self._device(name, rest[0])

    def _device(self, name: str, device: str) -> None:
        if canonical(device) != device:
            self.error(name, "device", f"the folder must be named {canonical(device)!r}")
        elif device not in catalogue():
            self.warn(name, "device", f"the catalogue has no device {device!r}")

    def hashes(self) -> None:
        """Compare every file with its hash."""
        there = files.data_files(self.folder)
        known, before = self.manifest.sha256, self.manifest.superseded
        if not known and there:
            self.warn(schema.MANIFEST, "hashes", "no hashes; validate --write-hashes adds them")
            return
        missing = [n for n in there if n not in known]
        if missing:
            self.warn(schema.MANIFEST, "hashes", "files without a hash", missing)
        if before:
            message = "an append was interrupted; the next one settles it"
            self.warn(schema.MANIFEST, "interrupted", message, list(before))
        for name, wanted in known.items():
            if not (self.folder / name).is_file():
                if before.get(name) != "":
                    self.error(name, "hashes", "store.toml has its hash, but it is not there")
            elif files.sha256(self.folder / name) not in (wanted, before.get(name)):
                self.error(name, "hashes", "its content is not what store.toml has the hash of")

    def architectures(self, name: str) -> None:
        """Check a file of architectures and keep what it holds."""
        stem = Path(name).stem
        self.recorded[stem] = None
        table = self._table(schema.ARCHITECTURES, name)
        owner = self._space(stem)
        if owner is None:
            message = f"no space is named {stem!r}; store.toml may define it in [spaces.{stem}]"
            self.error(name, "space", message)
        if table is None or owner is None:
            return
        try:
            recorded = RecordedArchitectures.of(owner, table, name)
        except InvalidStore as error:
            self.error(name, "duplicates", str(error))
            return
        self.recorded[stem] = recorded
        if recorded.strangers:
            message = f"architectures outside space {stem}; they are listed and left out"
            said = [f"arch_id {i}: {reason}" for i, reason in recorded.strangers.items()]
            self.warn(name, "strangers", message, said)
        _, first, counts = np.unique(keys(recorded.table), return_index=True, return_counts=True)
        twice = recorded.arch_id[first[counts > 1]]
        if len(twice):
            said = [f"arch_id {i}" for i in twice.tolist()]
            self.error(name, "duplicates", "architectures with more than one id", said)

    def rows_of(self, kind: str, name: str) -> None:
        """Check a file of observations, conditions or quality."""
        table = self._table(kind, name)
        if table is None:
            return
        ids = table["arch_id"].to_numpy()
        self._ids(name, ids)
        for column in ("session", "position"):
            self._none(name, column, ids[table[column].to_numpy() < 0], f"{column} below 0")
        if "workload" in table.column_names:
            index = table["workload"].to_numpy()
            wrong = ids[(index < 0) | (index >= len(self.manifest.workloads))]
            allowed = f"an index into the {len(self.manifest.workloads)} of store.toml"
            self._none(name, "workload", wrong, f"the workload is not {allowed}")
        again = ids[duplicates(table, kind)]
        agree = ", ".join(keys_of(kind))
        self._none(name, "duplicates", again, f"rows that agree in {agree}")
        if kind == schema.CONDITIONS:
            status = np.array(table["status"].to_pylist(), dtype=object)
            allowed = ", ".join(schema.STATUSES)
            wrong = ids[np.isin(status, schema.STATUSES, invert=True)]
            self._none(name, "status", wrong, f"the status is none of {allowed}")
            return
        self._values(kind, name, table)
        if kind == schema.OBSERVATIONS:
            self._power(name, table)

    def _none(self, name: str, rule: str, arch_ids: NDArray[Any], message: str) -> None:
        """An error where there is any such row."""
        if len(arch_ids):
            self.error(name, rule, message, [f"arch_id {i}" for i in arch_ids.tolist()])

    def _ids(self, name: str, ids: NDArray[Any]) -> None:
        stem = Path(name).stem
        if stem not in self.recorded:
            self.error(name, "arch_id", f"there is no {schema.ARCHITECTURES}/{stem}.parquet")
            return
        recorded = self.recorded[stem]
        if recorded is None:
            return
        strange = np.isin(ids, list(recorded.strangers))
        unknown = ids[~strange & np.isin(ids, recorded.arch_id, invert=True)]
        self._none(name, "arch_id", unknown, f"no such id in {schema.ARCHITECTURES}/{stem}.parquet")
        if strange.any():
            message = f"rows of architectures outside space {stem}; they are left out"
            self.warn(name, "strangers", message, [f"arch_id {i}" for i in ids[strange].tolist()])

    def _values(self, kind: str, name: str, table: Any) -> None:
        ids = table["arch_id"].to_numpy()
        metric = np.asarray(table["metric"].cast("string").to_numpy(), dtype=np.str_)
        repeats = Repeats.of_lists(table["values"])
        lengths, values = repeats.lengths, repeats.flat
        self._none(name, "values", ids[lengths == 0], "no values")
        for field in np.unique(metric).tolist():
            self.fields.add(field)
            bare = field in schema.QUALITY_FIELDS
            if field not in schema.UNITS:
                self.warn(name, "metric", f"unknown metric {field!r}")
            elif bare != (kind == schema.QUALITY):
                place = schema.QUALITY if bare else schema.OBSERVATIONS
                self.error(name, "metric", f"{field} belongs into {place}/")
            mask = np.repeat(metric == field, lengths)
            wrong = unacceptable(field, values) & mask
            owners = np.repeat(ids, lengths)[wrong]
            if len(owners):
                said = [f"arch_id {i}: {v}" for i, v in zip(owners, values[wrong], strict=True)]
                self.error(name, "values", f"{field} must be finite and positive", said)
        if kind == schema.OBSERVATIONS:
            index = table["workload"].to_numpy()
            warmup = np.array([w.warmup_repeats for w in self.manifest.workloads] or [0])
            inside = (index >= 0) & (index < len(warmup))
            few = inside & (lengths <= warmup[np.where(inside, index, 0)]) & (lengths > 0)
            if few.any():
                said = [f"arch_id {i}" for i in ids[few].tolist()]
                self.warn(name, "warm-up", "rows with no more repeats than the warm-up", said)

    def _power(self, name: str, table: Any) -> None:
        device = catalogue().get(name.split("/")[1])
        if device is None:
            return
        for message, unlikely, impossible in power.check(table, self.manifest.workloads, device):
            if unlikely:
                self.warn(name, "implied power", message, unlikely)
            if impossible:
                self.error(name, "implied power", message, impossible)

    def units(self) -> None:
        """Check that the units are those of the schema."""
        for field in sorted(self.fields & set(schema.UNITS)):
            said, wanted = self.manifest.units.get(field), schema.UNITS[field]
            if said is None:
                self.warn(schema.MANIFEST, "units", f"no unit for {field}; it must be {wanted!r}")
            elif said != wanted:
                message = f"the unit of {field} must be {wanted!r}, not {said!r}"
                self.error(schema.MANIFEST, "units", message)

    def _table(self, kind: str, name: str) -> Any:
        try:
            table = schema.read(self.folder / name, name, kind)
        except InvalidStore as error:
            self.error(name, "schema", str(error))
            return None
        self.rows += len(table)
        return table

    def _space(self, name: str) -> SearchSpace | None:
        own = self.manifest.spaces.get(name)
        if own is not None:
            return own
        try:
            return archs.space(name)
        except HwbenchError:
            return None


def lines(report: Report) -> Iterable[str]:
    """The findings as lines for a reader, one each."""
    for finding in report.findings:
        shown = f" ({'; '.join(finding.examples)})" if finding.examples else ""
        times = f" x {finding.count}" if finding.count > 1 else ""
        yield f"{finding.severity}: {finding.file}: {finding.rule}{times}: {finding.message}{shown}"
