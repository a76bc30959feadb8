"""A merged stats.pkl of the structure that HW-GPT-Bench's HEAD has; its units are checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwbench import Architecture
from hwbench.cost import count
from hwbench.devices import device, published
from hwbench.records import Store, validate
from hwbench.records.importing import InvalidPickle, import_hwgptbench

Write = Callable[[str, Any], Path]
MACS_A_MS = {"gpu": 2e10, "cpu": 4e8}
WATTS = {"gpu": 150.0, "cpu": 100.0}
THEIR_NAMES = ["P100" if name == "p100" else name for name in published()]


def stats_of(arch: Architecture) -> dict[str, Any]:
    """What stands under an architecture's text: values of our own, units as theirs."""
    counts = count(arch)
    entry: dict[str, Any] = {
        "perplexity": 25.0,
        "flops": 2.0 * counts.macs,
        "params": counts.params,
        "bfloat16_memory": 5.8 * counts.params / 1e6,
        "float16_memory": 5.7 * counts.params / 1e6,
    }
    for name in THEIR_NAMES:
        kind = device(name).kind
        time_ms = counts.macs / MACS_A_MS[kind]
        batch = arch.search_space.batch_size
        scale = 8 / batch if kind == "gpu" else 1
        energy_wh = WATTS[kind] * time_ms / 1000 * scale / 3600
        entry[name] = {
            "latencies": [time_ms * (1 + i / 100) for i in range(10)],
            "energies": [energy_wh] * 50 if kind == "gpu" else np.float64(energy_wh),
        }
    return entry


def stats_for(*archs: Architecture) -> dict[str, Any]:
    return {str(a): stats_of(a) for a in archs}


@pytest.mark.parametrize("name", ["s", "m", "l"])
def test_the_whole_of_a_file(
    source: Path, tmp_path: Path, write: Write, entries: Any, name: str
) -> None:
    archs = entries.archs(name, 3)
    write(f"data_collection/gpt_datasets/gpt_{name}/stats.pkl", stats_for(*archs))
    report = import_hwgptbench(source, tmp_path / "out")
    assert (report.readings, report.readings_left_out) == (3 * (2 * 13 + 2 + 1), 0)
    assert validate(tmp_path / "out").findings == ()
    store = Store.open(tmp_path / "out")
    assert set(store.devices()) == set(published())
    assert store.architectures(name).table.architectures() == archs
    params = store.architectures(name).recorded_params
    assert params is not None
    assert params.tolist() == [count(a).params for a in archs]
    stats = stats_of(archs[1])
    for theirs, ours in (("P100", "p100"), ("cpu_amd_7513", "cpu_amd_7513")):
        times = store.repeats(archs[1], ours, "latency")
        energies = store.repeats(archs[1], ours, "energy")
        assert times == pytest.approx(stats[theirs]["latencies"], rel=1e-6)
        wh = np.atleast_1d(stats[theirs]["energies"])
        assert energies == pytest.approx(wh * 3600, rel=1e-6)
    for ours, key in (("a100", "bfloat16_memory"), ("rtx2080", "float16_memory")):
        memory = store.repeats(archs[1], ours, "memory")
        assert memory == pytest.approx([stats[key]], rel=1e-6)
    assert store.repeats(archs[1], None, "perplexity").tolist() == [25.0]  # type: ignore[union-attr]
    seen = store.observations("h100", name, "latency")
    assert seen is not None
    assert (seen.session.tolist(), seen.position.tolist()) == ([0, 0, 0], [0, 1, 2])


def test_the_file_itself_is_a_source(
    source: Path, tmp_path: Path, write: Write, entries: Any
) -> None:
    path = write("stats.pkl", stats_for(*entries.archs("s", 1), *entries.archs("m", 1)))
    report = import_hwgptbench(path, tmp_path / "out")
    assert report.architectures == {"s": 1, "m": 1}
    assert {file for file, _ in report.kept} == {"stats.pkl"}


def times(factor: float) -> Callable[[dict[str, Any]], None]:
    def change(entry: dict[str, Any]) -> None:
        for name in THEIR_NAMES:
            entry[name]["latencies"] = [t * factor for t in entry[name]["latencies"]]

    return change


def energies(factor: float) -> Callable[[dict[str, Any]], None]:
    def change(entry: dict[str, Any]) -> None:
        for name in THEIR_NAMES:
            entry[name]["energies"] = np.atleast_1d(entry[name]["energies"]) * factor

    return change


def one_in_seconds(entry: dict[str, Any]) -> None:
    entry["cpu_xeon_gold"]["latencies"][4] /= 1000


def put(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(entry: dict[str, Any]) -> None:
        entry[key] = value

    return change


@pytest.mark.parametrize(
    "change, left",
    [
        (
            times(1e-3),
            {"not a latency in ms": 13, "no latency to tell the energy's unit by": 13},
        ),
        (
            times(1e3),
            {"not a latency in ms": 13, "no latency to tell the energy's unit by": 13},
        ),
        (
            one_in_seconds,
            {"not a latency in ms": 1, "no latency to tell the energy's unit by": 1},
        ),
        (energies(3600), {"not an energy in Wh": 13}),
        (energies(1e-3), {"not an energy in Wh": 13}),
        (energies(0), {"zero": 13}),
        (put("bfloat16_memory", 0.8), {"not a memory in MB": 1}),
        (put("float16_memory", 3e8), {"not a memory in MB": 1}),
        (put("perplexity", float("nan")), {"not a finite value": 1}),
        (put("perplexity", None), {"missing": 1}),
        (put("accuracy", 0.4), {}),
        (put("macs", 3), {}),
        (put("colour", "red"), {"not a metric of HW-GPT-Bench": 1}),
        (put("tpu", {"latencies": [1.0] * 10}), {"unknown device 'tpu'": 1}),
        (put("h100", {"speed": 3.0}), {"unknown metric 'speed'": 1}),
        (put("h100", {"latencies": {"a": 1}}), {"not a list of numbers": 1}),
        (put("h100", {"energies": [0.01] * 50}), {"no latency to tell the energy's unit by": 1}),
        (
            put("h100", {"latencies": [5.0] * 7}),
            {"the number of repeats is none of 1, 10, 50": 1},
        ),
        (put("params", 7), {"the parameters counted are not those of the architecture": 29}),
    ],
)
def test_what_cannot_be_told_is_left_out_and_listed(
    source: Path,
    tmp_path: Path,
    write: Write,
    entries: Any,
    change: Callable[[dict[str, Any]], None],
    left: dict[str, int],
) -> None:
    good, bad = entries.archs("l", 2)
    stats = stats_for(good, bad)
    change(stats[str(bad)])
    write("stats.pkl", stats)
    report = import_hwgptbench(source, tmp_path / "out")
    counted: dict[str, int] = {}
    for item in report.left_out:
        counted[item.reason] = counted.get(item.reason, 0) + item.count
    assert counted == left
    assert report.readings == report.readings_kept + report.readings_left_out
    assert validate(tmp_path / "out").valid


@pytest.mark.parametrize("text", ["gpt-s-12", "", "gpt-xl-46", "gpt-s-12-768-True"])
def test_texts_that_are_no_architectures(
    source: Path, tmp_path: Path, write: Write, entries: Any, text: str
) -> None:
    (arch,) = entries.archs("s", 1)
    write("stats.pkl", {**stats_for(arch), text: stats_of(arch)})
    report = import_hwgptbench(source, tmp_path / "out")
    assert {item.reason for item in report.left_out} == {"the architecture cannot be read"}
    assert report.readings_left_out == report.readings_kept == 29


def test_a_space_that_was_never_recorded(
    source: Path, tmp_path: Path, write: Write, entries: Any
) -> None:
    (arch,) = entries.archs("s-wide", 1)
    write("stats.pkl", {str(arch): {"perplexity": 3.0}})
    report = import_hwgptbench(source, tmp_path / "out")
    assert report.readings_left_out == report.readings == 1


@pytest.mark.parametrize("value", [[], {"a": 1}, {1: {}}, None], ids=str)
def test_a_file_of_another_structure(
    source: Path, tmp_path: Path, write: Write, value: Any
) -> None:
    write("stats.pkl", value)
    with pytest.raises(InvalidPickle, match="must hold a dict of architectures' texts"):
        import_hwgptbench(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
