"""`store=`: what a record store holds of an architecture is answered as measured."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from hwbench import Architecture, Benchmark
from hwbench.errors import InvalidArchitecture, InvalidStore, InvalidValue, UnknownName
from hwbench.records import Readings, Store, StoreWriter
from hwbench.workload import Workload
from tests.benchmark.conftest import OWN, WORKLOAD


@pytest.fixture(scope="module")
def stored(own_toml: Path, artifacts: Path, store: Path) -> Benchmark:
    return Benchmark(own_toml, artifacts=artifacts, store=store)


@pytest.fixture(scope="module")
def known(store: Path) -> Architecture:
    """An architecture that was observed."""
    return Store.open(store).architectures("own").table.architectures()[3]


@pytest.fixture(scope="module")
def new(store: Path) -> Architecture:
    """One that was not."""
    seen = set(Store.open(store).architectures("own").table.architectures())
    return next(a for a in OWN.sample(1000, 99) if a not in seen)


def test_recorded_gives_the_raw_repeats_with_the_warm_up(
    stored: Benchmark, known: Architecture, new: Architecture
) -> None:
    raw = stored.recorded(known, "my-gpu", "latency")
    assert raw is not None
    assert raw.dtype == np.float64
    assert raw.shape == (7,)
    assert raw[0] > 1.4 * raw[2:].mean()
    again = stored.recorded(known, "my-gpu", "latencies")
    assert again is not None
    assert np.array_equal(again, raw)
    assert stored.recorded(new, "my-gpu", "latency") is None
    assert stored.recorded(known, "my-gpu", "memory") is None
    assert stored.recorded(known, "a100", "latency") is None
    assert stored.recorded(known, "h200", "latency") is None
    assert stored.recorded(known, None, "accuracy") is None
    assert stored.recorded(known, None, "params") is None
    quality = stored.recorded(known, None, "perplexity")
    assert quality is not None
    assert quality.shape == (1,)


def test_a_measured_answer_leaves_the_warm_up_out(
    stored: Benchmark, own: Benchmark, known: Architecture, new: Architecture
) -> None:
    raw = stored.recorded(known, "my-gpu", "latency")
    assert raw is not None
    p = stored.query(known)["my-gpu"]["latency"]
    assert p.source == "measured"
    assert p.median == np.median(raw[2:])
    assert p.mean == pytest.approx(raw[2:].mean())
    assert p.std == p.components.repeat == pytest.approx(raw[2:].std(ddof=1))
    assert (p.components.drift, p.components.model) == (None, None)
    assert raw[2:].min() <= p.quantile(0.01) <= p.quantile(0.99) <= raw[2:].max()
    assert p.workload == WORKLOAD
    assert (p.artifact, p.evidence) == (None, None)
    assert stored.query(known)["perplexity"].source == "measured"
    assert stored.query(known)["params"].source == "analytic"
    other = stored.query(new)["my-gpu"]["latency"]
    assert other.source == "surrogate"
    assert other.median == own.query(new)["my-gpu"]["latency"].median
    # Without a store the same architecture is predicted.
    assert own.query(known)["my-gpu"]["latency"].source == "surrogate"


def test_many_are_measured_where_they_were(
    stored: Benchmark, known: Architecture, new: Architecture
) -> None:
    archs = [new, known, new, known]
    frame = stored.query_many(archs, "my-gpu", ["latency", "perplexity"])
    assert frame["source"].tolist() == ["surrogate", "measured"] * 4
    one = stored.query(known, "my-gpu", ["latency", "perplexity"]).to_frame()
    for row in (1, 3):
        columns = ["median", "mean", "std", "q05", "q95"]
        assert frame.loc[row, columns].tolist() == one.loc[0, columns].tolist()


def test_a_device_of_the_store_alone_is_answered(store: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(store, tmp_path / "store"))
    arch, other = OWN.sample(2, 5)
    StoreWriter.open(copy).append(
        Readings.one(arch, "latency", [9, 9, 4.0, 5.0], device="her-gpu", workload=WORKLOAD)
    )
    bench = Benchmark(OWN, store=copy)
    assert "her-gpu" not in bench.devices  # which lists artefacts
    assert bench.query(arch)["her-gpu"]["latency"].median == 4.5
    absent = bench.query(other, "her-gpu")["her-gpu"]["latency"]
    assert absent.supported is False
    # Nobody fitted anything in this space, apart from the closed forms.
    assert absent.reason is not None
    assert "Spaces with latency: s, m, l." in absent.reason


def test_sessions_follow_each_other(store: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(store, tmp_path / "store"))
    arch = OWN.sample(1, 5)[0]
    for session, values in ((1, [8, 8, 6.0]), (0, [9, 9, 4.0, 5.0])):
        StoreWriter.open(copy).append(
            Readings.one(
                arch,
                "latency",
                values,
                device="her-gpu",
                workload=WORKLOAD,
                session=session,
            )
        )
    bench = Benchmark(OWN, store=copy)
    raw = bench.recorded(arch, "her-gpu", "latency")
    assert raw is not None
    assert raw.tolist() == [9, 9, 4, 5, 8, 8, 6]
    assert bench.query(arch)["her-gpu"]["latency"].median == 5.0


def test_of_several_workloads_the_artefact_s_is_answered(
    store: Path, own_toml: Path, artifacts: Path, tmp_path: Path, known: Architecture
) -> None:
    """It was an error about a parameter that a query does not have."""
    copy = Path(shutil.copytree(store, tmp_path / "store"))
    other = Workload(batch_size=4, seq_len=512, method="another")
    for device in ("my-gpu", "her-gpu"):
        StoreWriter.open(copy).append(
            Readings.one(known, "latency", [1.0], device=device, workload=other, session=5),
        )
    StoreWriter.open(copy).append(
        Readings.one(known, "latency", [9, 9, 2.0], device="her-gpu", workload=WORKLOAD, session=5)
    )
    bench = Benchmark(own_toml, artifacts=artifacts, store=copy)
    answer = bench.query(known)
    assert answer["my-gpu"]["latency"].source == "measured"
    assert answer["my-gpu"]["latency"].workload == WORKLOAD
    # Neither of the two is the one that is meant.
    assert answer["her-gpu"]["latency"].supported is False
    with pytest.raises(InvalidValue, match=r"'workload' parameter .* has several"):
        bench.recorded(known, "her-gpu", "latency")
    for workload, raw in ((other, [1.0]), (WORKLOAD, [9.0, 9.0, 2.0])):
        found = bench.recorded(known, "her-gpu", "latency", workload)
        assert found is not None
        assert found.tolist() == raw


def test_nothing_but_warm_up_is_no_measurement(store: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(store, tmp_path / "store"))
    arch = OWN.sample(1, 5)[0]
    StoreWriter.open(copy).append(
        Readings.one(arch, "latency", [9, 9], device="her-gpu", workload=WORKLOAD)
    )
    bench = Benchmark(OWN, store=copy)
    assert bench.query(arch)["her-gpu"]["latency"].supported is False
    assert bench.recorded(arch, "her-gpu", "latency") is not None


def test_a_store_without_the_space_changes_nothing(store: Path) -> None:
    bench, arch = Benchmark("m", store=store), Benchmark("m").space.smallest
    assert bench.recorded(arch, "h100", "latency") is None
    assert bench.query(arch)["h100"]["latency"].source == "surrogate"
    assert bench.query_many([arch], "h100", "latency")["source"].tolist() == ["surrogate"]


@pytest.mark.recorded
def test_the_recorded_store_is_answered_as_measured(recorded_store: Path) -> None:
    store = Store.open(recorded_store)
    arch = store.architectures("s").table.architectures()[0]
    bench = Benchmark("s", store=recorded_store)
    raw = bench.recorded(arch, "h100", "latency")
    assert raw is not None
    assert len(raw) == 10
    p = bench.query(arch, "h100", "latency")["h100"]["latency"]
    assert p.source == "measured"
    assert p.median == np.median(raw[3:])
    assert p.workload == bench.card("h100", "latency").workload
    low, high = Benchmark("s").query(arch, "h100", "latency")["h100"]["latency"].interval(0.99)
    assert 0.9 * low < p.median < 1.1 * high
    assert bench.recorded(arch, "cpu_p100_host", "energy") is None


def test_recorded_without_a_store_is_refused(own: Benchmark) -> None:
    with pytest.raises(InvalidStore, match=r"need a record store: Benchmark\(\.\.\., store=PATH"):
        own.recorded(OWN.smallest, "my-gpu", "latency")


def test_recorded_refuses_what_it_cannot_ask(stored: Benchmark, known: Architecture) -> None:
    """A misspelt device once had no recorded values, and a list of architectures no space."""
    for device, metric, error, words in (
        ("my-gpo", "latency", UnknownName, "Did you mean 'my-gpu'?"),
        (None, "latency", InvalidValue, "'device' parameter of recorded must be one of"),
        ("my-gpu", "perplexity", InvalidValue, "must be None for perplexity"),
        (5, "latency", InvalidValue, "Got 5 instead"),
        ("my-gpu", "nope", UnknownName, "Unknown metric 'nope'"),
        ("my-gpu", None, InvalidValue, "'metric' parameter of recorded"),
    ):
        with pytest.raises(error) as caught:  # type: ignore[call-overload]
            stored.recorded(known, device, metric)  # type: ignore[arg-type]
        assert words in str(caught.value)
    for arch in ([known], None, str(known), Benchmark("s").space.smallest):
        with pytest.raises(InvalidArchitecture):
            stored.recorded(arch, "my-gpu", "latency")  # type: ignore[arg-type]
    strange = Workload(batch_size=3, seq_len=1, method="strange")
    with pytest.raises(InvalidValue, match="one of synthetic's workloads"):
        stored.recorded(known, "my-gpu", "latency", strange)
