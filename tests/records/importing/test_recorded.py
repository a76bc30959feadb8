"""The import of original files agrees with the recorded store, value for value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwbench.records import Store, validate
from hwbench.records.importing import ImportReport, import_hwgptbench

pytestmark = pytest.mark.recorded

Imported = tuple[ImportReport, Store]


@pytest.fixture(scope="module")
def sample(recorded_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    source = recorded_store.parent / "hw-gpt-bench-raw-sample"
    if not source.is_dir():
        pytest.skip(f"no original files at {source}")
    out = tmp_path_factory.mktemp("imported") / "store"
    return import_hwgptbench(source, out), Store.open(out)


def test_counts_add_up(sample: Imported) -> None:
    report, store = sample
    assert (report.readings, report.readings_kept, report.readings_left_out) == (20269, 20260, 9)
    (item,) = report.left_out
    assert (item.metric, item.count) == ("latency_ms", 9)
    assert item.reason == "the architecture is not in space m"
    assert report.ignored == ()
    assert report.architectures == {"s": 10000, "m": 2500, "l": 2500}
    assert validate(store.path).valid


@pytest.mark.parametrize(
    "device, space, metric, common",
    [
        ("a6000", "m", "latency", 2252),
        ("a6000", "m", "energy", 2252),
        ("cpu_xeon_gold", "l", "latency", 2266),
        ("cpu_xeon_gold", "l", "energy", 2266),
        ("a100", "s", "memory", 9000),
        (None, "l", "perplexity", 116),
        (None, "l", "accuracy", 116),
    ],
)
def test_rows_are_the_recorded_ones(
    sample: Imported,
    recorded_store: Path,
    device: str | None,
    space: str,
    metric: str,
    common: int,
) -> None:
    mine, theirs = (
        store.quality(space, metric)
        if device is None
        else store.observations(device, space, metric)
        for store in (sample[1], Store.open(recorded_store))
    )
    assert mine is not None
    assert theirs is not None
    assert mine.workload == theirs.workload
    _, here, there = np.intersect1d(mine.arch_id, theirs.arch_id, return_indices=True)
    assert len(here) == common
    mine, theirs = mine.take(here), theirs.take(there)
    assert mine.table.architectures() == theirs.table.architectures()
    for name in ("session", "position"):
        assert np.array_equal(getattr(mine, name), getattr(theirs, name))
    assert np.array_equal(mine.repeats.offsets, theirs.repeats.offsets)
    assert np.array_equal(mine.repeats.flat, theirs.repeats.flat)


def test_counts_of_the_source_are_the_recorded_ones(sample: Imported, recorded_store: Path) -> None:
    mine, theirs = (store.architectures("m") for store in (sample[1], Store.open(recorded_store)))
    _, here, there = np.intersect1d(mine.arch_id, theirs.arch_id, return_indices=True)
    for name in ("recorded_params", "recorded_macs"):
        assert np.array_equal(getattr(mine, name)[here], getattr(theirs, name)[there])
