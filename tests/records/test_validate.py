"""Every rule of a store has a fault that breaks it, named with its file and counted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hwbench import space
from hwbench.errors import InvalidStore
from hwbench.records import Finding, Readings, Store, StoreWriter, validate
from hwbench.records.validate import lines
from hwbench.workload import Workload

H100 = "observations/h100/s.parquet"
ARCHS = "architectures/s.parquet"
QUALITY = "quality/s.parquet"


def found(store: Path, rule: str) -> Finding:
    """The one finding of a rule; a change of a file also breaks its hash."""
    (finding,) = [f for f in validate(store).findings if f.rule == rule]
    return finding


def column(store: Path, name: str, of: str) -> list[Any]:
    values: list[Any] = pq.read_table(store / name)[of].to_pylist()
    return values


def first(values: list[Any], new: Any) -> list[Any]:
    return [new, *values[1:]]


@pytest.mark.parametrize(
    "file, of, new, rule, severity",
    [
        (H100, "arch_id", 55, "arch_id", "error"),
        (H100, "workload", 9, "workload", "error"),
        (H100, "workload", -1, "workload", "error"),
        (H100, "session", -1, "session", "error"),
        (H100, "position", -4, "position", "error"),
        (H100, "values", [], "values", "error"),
        (H100, "values", [float("nan")] * 10, "values", "error"),
        (H100, "values", [float("inf")] * 10, "values", "error"),
        (H100, "values", [0.0] * 10, "values", "error"),
        (H100, "values", [-1.0] * 10, "values", "error"),
        (H100, "values", [5.0, 5.0], "warm-up", "warning"),
        (H100, "metric", "speed", "metric", "warning"),
        (H100, "metric", "perplexity", "metric", "error"),
        (QUALITY, "metric", "latency_ms", "metric", "error"),
        (QUALITY, "values", [-3.0], "values", "error"),
        (ARCHS, "arch_id", 1, "duplicates", "error"),
        (ARCHS, "n_layer", 99, "strangers", "warning"),
        (ARCHS, "n_head", [4, 4], "strangers", "warning"),
    ],
)
def test_a_changed_value(
    store: Path,
    edit: Callable[..., None],
    file: str,
    of: str,
    new: Any,
    rule: str,
    severity: str,
) -> None:
    values = column(store, file, of)
    if of == "metric":
        changed: Any = pa.array(first(values, new)).dictionary_encode()
    else:
        changed = first(values, new)
    edit(file, **{of: changed})
    matching = [f for f in validate(store).findings if (f.rule, f.file) == (rule, file)]
    assert [f.severity for f in matching] == [severity]
    assert matching[0].count >= 1
    assert any(f.rule == "hashes" and f.file == file for f in validate(store).errors)


def test_rows_of_strangers_are_counted(store: Path, edit: Callable[..., None]) -> None:
    edit(ARCHS, embed_dim=[5, *column(store, ARCHS, "embed_dim")[1:]])
    counts = {f.file: f.count for f in validate(store).warnings if f.rule == "strangers"}
    assert counts == {ARCHS: 1, H100: 3, "observations/cpu_xeon_gold/s.parquet": 2, QUALITY: 2}
    finding = next(f for f in validate(store).warnings if f.file == ARCHS)
    assert finding.examples == ("arch_id 0: embed_dim 5 is not in space s",)


def test_one_architecture_under_two_ids(store: Path) -> None:
    table = pq.read_table(store / ARCHS)
    again = table.slice(0, 1).set_column(0, "arch_id", pa.array([7], pa.int32()))
    pq.write_table(pa.concat_tables([table, again]), store / ARCHS)
    assert found(store, "duplicates").message == "architectures with more than one id"


def test_duplicate_rows(store: Path) -> None:
    table = pq.read_table(store / H100)
    pq.write_table(pa.concat_tables([table, table.slice(2, 2)]), store / H100)
    finding = found(store, "duplicates")
    assert (finding.file, finding.severity, finding.count) == (H100, "error", 2)
    assert "agree in arch_id, workload, metric, session, position" in finding.message


@pytest.mark.parametrize("kind", [H100, ARCHS, QUALITY])
def test_a_missing_column_and_a_truncated_file(store: Path, kind: str) -> None:
    table = pq.read_table(store / kind)
    pq.write_table(table.drop_columns(["arch_id"]), store / kind)
    finding = found(store, "schema")
    assert finding.file == kind
    assert "It lacks 'arch_id'" in finding.message
    pq.write_table(table, store / kind)
    data = (store / kind).read_bytes()
    (store / kind).write_bytes(data[: len(data) // 2])
    finding = found(store, "schema")
    assert finding.file == kind
    assert "Cannot read" in finding.message
    assert "\n" not in finding.message


def test_no_architectures(store: Path) -> None:
    (store / ARCHS).unlink()
    report = validate(store)
    assert {f.file for f in report.errors if f.rule == "arch_id"} == {
        H100,
        "observations/cpu_xeon_gold/s.parquet",
        QUALITY,
    }
    assert [f.file for f in report.errors if f.rule == "hashes"] == [ARCHS]


def test_a_space_that_nobody_knows(store: Path) -> None:
    for name in (ARCHS, H100):
        path = store / name
        path.rename(path.with_name("mine.parquet"))
    finding = found(store, "space")
    assert finding.file == "architectures/mine.parquet"
    assert "[spaces.mine]" in finding.message


def test_devices(store: Path) -> None:
    folder = store / "observations"
    shutil.copytree(folder / "h100", folder / "my-gpu")
    shutil.copytree(folder / "h100", folder / "P100")
    findings = [f for f in validate(store).findings if f.rule == "device"]
    assert [(f.file, f.severity) for f in findings] == [
        ("observations/P100/s.parquet", "error"),
        ("observations/my-gpu/s.parquet", "warning"),
    ]
    assert found(store, "hashes").examples == (
        "observations/P100/s.parquet",
        "observations/my-gpu/s.parquet",
    )


def test_files_that_do_not_belong(store: Path) -> None:
    (store / "notes.txt").write_text("a")
    (store / "observations/h100/deep").mkdir()
    shutil.copy(store / H100, store / "observations/h100/deep/s.parquet")
    places = [f.file for f in validate(store).warnings if f.rule == "place"]
    assert places == ["notes.txt", "observations/h100/deep/s.parquet"]


def test_hashes(store: Path) -> None:
    assert validate(store).findings == ()
    text = (store / "store.toml").read_text()
    (store / "store.toml").write_text(text.split("[sha256]")[0])
    assert found(store, "hashes").severity == "warning"
    assert StoreWriter.open(store).write_hashes() == 4
    assert validate(store).findings == ()
    (store / QUALITY).unlink()
    finding = found(store, "hashes")
    assert (finding.file, finding.severity) == (QUALITY, "error")


def test_units(store: Path) -> None:
    text = (store / "store.toml").read_text()
    changed = text.replace('latency_ms = "ms"', 'latency_ms = "s"')
    (store / "store.toml").write_text(changed)
    assert found(store, "units").message == "the unit of latency_ms must be 'ms', not 's'"
    (store / "store.toml").write_text(text.replace('latency_ms = "ms", ', ""))
    assert found(store, "units").severity == "warning"


def energy_store(path: Path, device: str, watts: float, batch: int) -> Path:
    """A latency of 10 ms at batch 4, and an energy of so many watts at another batch."""
    writer = StoreWriter.create(path, name="a", source="b", licence="c")
    archs = space("m").sample(3, 0)
    for i, arch in enumerate(archs):
        time = Workload(batch_size=4, seq_len=1024, method="a clock")
        meter = Workload(batch_size=batch, seq_len=1024, method="a meter")
        joules = watts * 0.010 * batch / 4
        writer.append(
            Readings.one(arch, "latency", [10.0], device=device, workload=time, position=i),
            Readings.one(arch, "energy", [joules], device=device, workload=meter, position=i),
        )
    return path


@pytest.mark.parametrize("batch", [1, 4, 8])
@pytest.mark.parametrize(
    "device, watts, severity",
    [
        ("v100", 300, None),
        ("v100", 374, None),
        ("v100", 376, "warning"),
        ("v100", 1124, "warning"),
        ("v100", 1126, "error"),
        ("cpu_amd_7513", 499, None),
        ("cpu_amd_7513", 501, "warning"),
        ("my-gpu", 1e6, None),
    ],
)
def test_implied_power_takes_batch_sizes_and_sockets_into_account(
    tmp_path: Path, device: str, watts: float, severity: str | None, batch: int
) -> None:
    report = validate(energy_store(tmp_path / "store", device, watts, batch))
    findings = [f for f in report.findings if f.rule == "implied power"]
    assert [f.severity for f in findings] == ([severity] if severity else [])
    if severity:
        assert findings[0].count == 3
        assert f"{watts:.0f} W" in findings[0].examples[0]
        assert ("time x" in findings[0].message) == (batch != 4)


def test_an_interrupted_append_is_a_warning(store: Path) -> None:
    text = (store / "store.toml").read_text()
    (store / "store.toml").write_text(text + f'\n[superseded]\n"{H100}" = "{"0" * 64}"\n')
    assert found(store, "interrupted").severity == "warning"


def test_conditions_are_checked(store: Path) -> None:
    path = store / "conditions/h100/s.parquet"
    path.parent.mkdir(parents=True)
    row = {"arch_id": 44, "workload": 9, "session": 0, "position": 0, "status": "great"}
    lists = {"warmup_values": pa.array([None], pa.list_(pa.float32()))}
    clocks = ("clock_sm_mhz", "clock_memory_mhz", "temperature_c")
    before = ("clock_sm_before_mhz", "clock_memory_before_mhz", "temperature_before_c")
    names = (*clocks, *before, "energy_window_s", "energy_passes")
    numbers = {name: pa.array([None], pa.float32()) for name in names}
    texts = {n: pa.array([""]) for n in ("reason", "throttle", "energy_counter")}
    columns = {name: pa.array([value]) for name, value in row.items()}
    pq.write_table(pa.table({**columns, **lists, **numbers, **texts}), path)
    report = validate(store)
    rules = {f.rule for f in report.errors if f.file.startswith("conditions")}
    assert rules == {"arch_id", "workload", "status"}


def test_no_store_and_lines_for_a_reader(tmp_path: Path, store: Path) -> None:
    with pytest.raises(InvalidStore, match="no record store"):
        validate(tmp_path / "nowhere")
    (store / "notes.txt").write_text("a")
    text = list(lines(validate(store)))
    assert text[0].startswith("warning: notes.txt: place: a store has no file of that name")
    assert validate(store).to_dict()["valid"] is True


@pytest.mark.recorded
def test_the_recorded_store_has_warnings_only(recorded_store: Path) -> None:
    report = validate(recorded_store)
    assert report.errors == ()
    assert {(f.file, f.rule, f.count) for f in report.warnings} == {
        ("store.toml", "hashes", 1),
        ("architectures/m.parquet", "strangers", 17),
        ("observations/a6000/m.parquet", "strangers", 17),
        ("observations/cpu_amd_7513/s.parquet", "implied power", 3062),
        ("observations/cpu_amd_7513/m.parquet", "implied power", 799),
        ("observations/cpu_amd_7513/l.parquet", "implied power", 1374),
        ("observations/cpu_xeon_gold/l.parquet", "implied power", 7),
    }


@pytest.mark.recorded
def test_a_copy_of_the_recorded_store_can_be_given_hashes(
    recorded_store: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    for name in ("architectures/m.parquet", "quality/m.parquet", "store.toml"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(recorded_store / name, copy / name)
    assert StoreWriter.open(copy).write_hashes() == 2
    assert [f.rule for f in validate(copy).findings] == ["strangers"]
    assert Store.open(copy).manifest == Store.open(recorded_store).manifest.replace(
        sha256=Store.open(copy).manifest.sha256
    )
