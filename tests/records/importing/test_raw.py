"""Raw shards: units element by element, strangers and zeros left out, every reading counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwbench import space
from hwbench.cost import count
from hwbench.errors import InvalidValue
from hwbench.records import Store, validate
from hwbench.records.importing import ImportReport, InvalidPickle, import_hwgptbench

ROOT = "data_collection/raw_results_hw"
Write = Callable[[str, Any], Path]


def reasons(report: ImportReport) -> dict[tuple[str, str], int]:
    return {(item.metric, item.reason): item.count for item in report.left_out}


def imported(source: Path, out: Path) -> tuple[ImportReport, Store]:
    report = import_hwgptbench(source, out)
    assert report.readings == report.readings_kept + report.readings_left_out
    assert validate(out).valid
    return report, Store.open(out)


def test_every_kind_of_file(source: Path, tmp_path: Path, write: Write, entries: Any) -> None:
    archs = entries.archs("m", 4)
    write(
        f"{ROOT}/latency_P100_m/efficiency_observations_2_4.pkl",
        [*map(entries.latency_gpu, archs[2:])],
    )
    write(
        f"{ROOT}/latency_P100_m/efficiency_observations_0_2.pkl",
        [*map(entries.latency_gpu, archs[:2])],
    )
    write(
        f"{ROOT}/latency_P100_m/efficiency_energy_observations_tracker_0_2.pkl",
        [*map(entries.energy_gpu, archs[:2])],
    )
    write(
        "raw_results_hw/latency_helix_cpu_m/efficiency_observations_0_4.pkl",
        [*map(entries.latency_cpu, archs)],
    )
    write(
        "raw_results_hw/mem_a100_m/efficiency_observations_0_4.pkl", [*map(entries.memory, archs)]
    )
    write(
        "arch_ppl_bench_m/ppl_observations_tracker_2_4.pkl", [*map(entries.quality, archs[:1:-1])]
    )
    report, store = imported(source, tmp_path / "out")
    assert (report.readings, report.readings_left_out) == (4 + 2 + 8 + 4 + 4, 0)
    assert report.architectures == {"m": 4}

    recorded = store.architectures("m")
    assert recorded.table.architectures() == archs
    assert recorded.recorded_params is not None
    assert recorded.recorded_params.tolist() == [count(a).params for a in archs]
    assert recorded.recorded_macs is not None
    assert recorded.recorded_macs.tolist() == [count(a).macs for a in archs]

    gpu = store.observations("p100", "m", "latency")
    assert gpu is not None
    assert gpu.arch_id.tolist() == [0, 1, 2, 3]
    assert gpu.session.tolist() == [0, 0, 1, 1]
    assert gpu.position.tolist() == [0, 1, 0, 1]
    assert gpu.repeats.of(0).tolist() == [20.0 + i / 8 for i in range(10)]

    energy = store.observations("p100", "m", "energy")
    assert energy is not None
    wh = np.array([0.005 + i / 1e5 for i in range(50)])
    assert energy.repeats.of(1) == pytest.approx(wh * 3600, rel=1e-7)

    cpu = store.observations("cpu_amd_7513", "m", "latency")
    assert cpu is not None
    assert cpu.repeats.of(3).tolist() == [2710, 1500, 1250, 1000, 1000, *[999.5] * 5]
    mean = store.observations("cpu_amd_7513", "m", "energy")
    assert mean is not None
    assert mean.repeats.flat == pytest.approx(np.full(4, 126.0), rel=1e-7)

    memory = store.observations("a100", "m", "memory")
    assert memory is not None
    assert memory.repeats.flat.tolist() == [836.5] * 4

    quality = store.quality("m", "perplexity")
    assert quality is not None
    assert quality.arch_id.tolist() == [3, 2]
    assert quality.session.tolist() == [1, 1]


@pytest.mark.parametrize(
    "name, device, field, batch, dtype, warmup",
    [
        ("latency_a100", "a100", "latency", 8, "bfloat16", 3),
        ("latency_v100_m", "v100", "latency", 4, "float16", 3),
        ("latency_h100_l", "h100", "latency", 1, "bfloat16", 3),
    ],
)
def test_workloads_of_gpus(
    source: Path,
    tmp_path: Path,
    write: Write,
    entries: Any,
    name: str,
    device: str,
    field: str,
    batch: int,
    dtype: str,
    warmup: int,
) -> None:
    of = name[-1] if name[-2] == "_" else "s"
    (arch,) = entries.archs(of, 1)
    write(f"{ROOT}/{name}/efficiency_observations_0_1.pkl", [entries.latency_gpu(arch)])
    write(
        f"{ROOT}/{name}/efficiency_energy_observations_tracker_0_1.pkl", [entries.energy_gpu(arch)]
    )
    _, store = imported(source, tmp_path / "out")
    time, energy = (store.observations(device, of, m) for m in ("latency", "energy"))
    assert time is not None
    assert energy is not None
    assert time.workload is not None
    assert energy.workload is not None
    assert (time.workload.batch_size, time.workload.compute_dtype) == (batch, dtype)
    assert (energy.workload.batch_size, energy.workload.compute_dtype) == (8, dtype)
    assert (time.warmup_repeats, energy.warmup_repeats) == (warmup, 12)


def test_strangers_are_counted_and_shift_no_id(
    source: Path, tmp_path: Path, write: Write, entries: Any
) -> None:
    archs, strange = entries.archs("m", 3), entries.archs("s", 2)
    made = [entries.latency_gpu(a) for a in (*strange, *archs)]
    write(f"{ROOT}/latency_a6000_m/efficiency_observations_0_3.pkl", made)
    report, store = imported(source, tmp_path / "out")
    (item,) = report.left_out
    assert (item.reason, item.count) == ("the architecture is not in space m", 2)
    assert "n_layer must be one of 22, 23, 24 in space m" in item.examples[0]
    assert item.examples[0].startswith("position 0")
    seen = store.observations("a6000", "m", "latency")
    assert seen is not None
    assert seen.arch_id.tolist() == [0, 1, 2]
    assert seen.position.tolist() == [2, 3, 4]
    assert store.architectures("m").strangers == {}


@pytest.mark.parametrize(
    "changes, left",
    [
        ({"mean_energy_cpu": np.float64(0)}, {("energy_j", "zero"): 1}),
        ({"mean_energy_cpu": None}, {("energy_j", "missing"): 1}),
        ({"mean_energy_cpu": np.float64("nan")}, {("energy_j", "not a finite value"): 1}),
        ({"mean_energy_cpu": -1.0}, {("energy_j", "not a positive value"): 1}),
        ({"mean_energy_cpu": "many"}, {("energy_j", "not a list of numbers"): 1}),
        ({"unit_energy": "KWh"}, {("energy_j", "a unit of energy that is not the known one"): 1}),
        ({"times_profiler_cpu": []}, {("latency_ms", "not one unit a repeat"): 1}),
        ({"times_profiler_cpu": [], "unit_cpu": []}, {("latency_ms", "no value"): 1}),
        ({"times_profiler_cpu": None}, {("latency_ms", "missing"): 1}),
        ({"times_profiler_cpu": [None] * 10}, {("latency_ms", "not a list of numbers"): 1}),
        ({"times_profiler_cpu": [0.0] * 10}, {("latency_ms", "zero"): 1}),
        ({"unit_cpu": ["s"] * 9}, {("latency_ms", "not one unit a repeat"): 1}),
        ({"unit_cpu": ["h"] * 10}, {("latency_ms", "a unit that is none of s, ms, us"): 1}),
        (
            {"times_profiler_cpu": [1.0] * 7, "unit_cpu": ["ms"] * 7},
            {("latency_ms", "the number of repeats is none of 1, 10, 50"): 1},
        ),
        (
            {"params": 12345},
            {
                ("latency_ms", "the parameters counted are not those of the architecture"): 1,
                ("energy_j", "the parameters counted are not those of the architecture"): 1,
            },
        ),
        (
            {"arch": None},
            {
                ("latency_ms", "the architecture is not in space s"): 1,
                ("energy_j", "the architecture is not in space s"): 1,
            },
        ),
    ],
)
def test_what_is_left_out_has_its_reason(
    source: Path,
    tmp_path: Path,
    write: Write,
    entries: Any,
    changes: dict[str, Any],
    left: dict[tuple[str, str], int],
) -> None:
    good, bad = entries.archs("s", 2)
    made = [entries.latency_cpu(good), entries.latency_cpu(bad, **changes)]
    write(f"{ROOT}/latency_cpu_p100/efficiency_observations_0_2.pkl", made)
    report, store = imported(source, tmp_path / "out")
    assert reasons(report) == left
    assert report.readings == 4
    assert store.architectures("s").table.architectures()[0] == good


def test_single_latencies_have_no_warm_up(
    source: Path, tmp_path: Path, write: Write, entries: Any
) -> None:
    (arch,) = entries.archs("s", 1)
    entry = entries.latency_cpu(arch, times_profiler_cpu=[1.5], unit_cpu=["s"])
    write(f"{ROOT}/latency_helix_cpu/efficiency_observations_0_1.pkl", [entry])
    _, store = imported(source, tmp_path / "out")
    seen = store.observations("cpu_amd_7513", "s", "latency")
    assert seen is not None
    assert (seen.kept.flat.tolist(), seen.warmup_repeats) == ([1500.0], 0)


@pytest.mark.parametrize(
    "changes, reason",
    [
        # 5 Wh at 170 W would be a forward of 106 s.
        ({"energy_gpu": [5.0] * 50}, "energy over power is no forward's duration"),
        ({"emissions_gpu": [170.0] * 9}, "not one power a repeat"),
        ({"unit_energy": "J"}, "a unit of energy that is not the known one"),
        ({"energy_gpu": [0.005] * 49, "unit": "kg"}, "the number of repeats is none of 1, 10, 50"),
        ({"energy_gpu": [0.0] * 50, "emissions_gpu": [0.0] * 50}, "zero"),
        ({"energy_gpu": [0.0] + [0.005] * 49}, "zero"),
    ],
)
def test_energies_of_gpus_must_be_of_the_known_unit(
    source: Path, tmp_path: Path, write: Write, entries: Any, changes: dict[str, Any], reason: str
) -> None:
    good, bad = entries.archs("s", 2)
    made = [entries.energy_gpu(good), entries.energy_gpu(bad, **changes)]
    write(f"{ROOT}/latency_a40/efficiency_energy_observations_tracker_0_2.pkl", made)
    report, _ = imported(source, tmp_path / "out")
    assert reasons(report) == {("energy_j", reason): 1}


def test_files_that_are_not_read_are_listed(
    source: Path, tmp_path: Path, write: Write, entries: Any
) -> None:
    archs = entries.archs("s", 2)
    made = [*map(entries.latency_gpu, archs)]
    name = "latency_a6000/efficiency_observations_0_2.pkl"
    write(f"{ROOT}/{name}", made)
    write(f"raw_results_hw/{name}", made)
    write(name, made[:1])
    write(f"{ROOT}/latency_a6000/efficiency_energy_observations_0_2.pkl", [])
    write(f"{ROOT}/latency_amd/efficiency_observations_0_2.pkl", [])
    write("arch_ppl_bench_s/ppl.pkl", [])
    write("arch_ppl_bench_s/efficiency_observations_0_2.pkl", [])
    write("data_collection/gpt_datasets/gpt_s/stats.pkl", {})
    write(f"{ROOT}/elsewhere/efficiency_observations_0_2.pkl", [])
    write(f"{ROOT}/latency_a6000/efficiency_observations_2_2.pkl", [])
    report, _ = imported(source, tmp_path / "out")
    assert report.readings == 2
    assert dict(report.ignored) == {
        f"raw_results_hw/{name}": f"the same as {ROOT}/{name}",
        name: f"another version of {ROOT}/{name}",
        f"{ROOT}/latency_a6000/efficiency_energy_observations_0_2.pkl": (
            "readings of an earlier form, which the benchmark does not use"
        ),
        f"{ROOT}/latency_a6000/efficiency_observations_2_2.pkl": (
            "not named as a shard of observations"
        ),
        f"{ROOT}/latency_amd/efficiency_observations_0_2.pkl": (
            "no known device is called 'amd' there"
        ),
        "arch_ppl_bench_s/ppl.pkl": "not named as a shard of observations",
        "arch_ppl_bench_s/efficiency_observations_0_2.pkl": "not named as a shard of perplexities",
        "data_collection/gpt_datasets/gpt_s/stats.pkl": "the raw observations are there",
    }


def test_a_reading_that_was_read_before(
    source: Path, tmp_path: Path, write: Write, entries: Any
) -> None:
    archs = entries.archs("s", 3)
    folder = f"{ROOT}/latency_a40"
    write(f"{folder}/efficiency_observations_0_2.pkl", [*map(entries.latency_gpu, archs[:2])])
    write(f"{folder}/efficiency_observations_0_3.pkl", [*map(entries.latency_gpu, archs)])
    report, store = imported(source, tmp_path / "out")
    assert reasons(report) == {("latency_ms", "the architecture was read before"): 2}
    assert len(store.architectures("s")) == 3


@pytest.mark.parametrize("value", [{}, [1, 2], "text", [[]]], ids=str)
def test_a_file_of_another_structure(
    source: Path, tmp_path: Path, write: Write, value: Any
) -> None:
    write(f"{ROOT}/latency_a40/efficiency_observations_0_2.pkl", value)
    with pytest.raises(InvalidPickle, match="must hold a list of observations"):
        import_hwgptbench(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_malicious_or_truncated_file_leaves_nothing(
    source: Path, tmp_path: Path, write: Write
) -> None:
    path = write(f"{ROOT}/latency_a40/efficiency_observations_0_2.pkl", [])
    for data in (b"cposix\nsystem\n(Vtouch /tmp/x\ntR.", b"\x80\x04]"):
        path.write_bytes(data)
        with pytest.raises(InvalidPickle):
            import_hwgptbench(source, tmp_path / "out")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["checkout"]


def test_nothing_to_import(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="must hold data_collection/raw_results_hw"):
        import_hwgptbench(source, tmp_path / "out")
    with pytest.raises(InvalidValue, match="The source to import must exist"):
        import_hwgptbench(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_taken_folder_is_left_alone(
    source: Path, tmp_path: Path, write: Write, entries: Any
) -> None:
    write(f"{ROOT}/mem_a100/efficiency_observations_0_1.pkl", [entries.memory(space("s").smallest)])
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    with pytest.raises(InvalidValue, match="must be new or empty"):
        import_hwgptbench(source, tmp_path / "out")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine.txt"]
    (tmp_path / "out/mine.txt").unlink()
    import_hwgptbench(source, tmp_path / "out")
    assert Store.open(tmp_path / "out").devices() == ("a100",)
