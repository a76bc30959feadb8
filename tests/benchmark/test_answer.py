"""`query` and `Answer`: everything about one architecture, and what cannot be answered."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

import hwbench
from hwbench import Answer, Benchmark, Prediction
from hwbench.benchmark import Predictions
from hwbench.errors import InvalidValue, UnknownName, Unsupported

READS = (
    lambda p: p.median,
    lambda p: p.mean,
    lambda p: p.std,
    lambda p: p.quantile(0.5),
    lambda p: p.interval(0.9),
    lambda p: p.sample(3, 0),
    lambda p: p.components,
)


@pytest.fixture(scope="module")
def answer(bench: Benchmark) -> Answer:
    return bench.query(bench.space.sample(1, 4)[0])


def test_an_answer_is_a_mapping_by_device_then_by_metric(answer: Answer, bench: Benchmark) -> None:
    assert isinstance(answer, Mapping)
    assert list(answer)[: len(bench.devices)] == bench.devices
    assert list(answer)[len(bench.devices) :] == ["perplexity", "accuracy", *bench.metrics[-3:]]
    assert len(answer) == len(list(answer))
    assert dict(answer).keys() == set(answer)
    assert list(answer["h100"]) == ["latency", "energy", "memory"]
    assert len(answer.predictions()) == 14 * 3 + 5
    assert f"<Answer to {answer.architecture}: a100, " in repr(answer)
    assert "<latency on h100: " in repr(answer["h100"])


def test_aliases_find_what_they_stand_for(answer: Answer) -> None:
    assert answer["P100"] is answer["p100"]
    assert answer["h100"]["latencies"] is answer["h100"]["latency"]
    assert answer["ppl"] is answer["perplexity"]
    assert "P100" in answer
    assert "energies" in answer["h100"]
    assert answer.get("P100") is answer["p100"]


@pytest.mark.parametrize("key", ["h200", "latency", "", "nope"])
def test_a_key_that_is_not_there(answer: Answer, key: str) -> None:
    """`in` and `get` once raised, for they wait for a KeyError."""
    assert key not in answer
    assert answer.get(key) is None
    assert answer.get(key, 3) == 3
    with pytest.raises(UnknownName, match=f"Unknown key of the answer '{key}'.*Known: a100, a40"):
        answer[key]


def test_a_metric_that_is_not_there_says_which_are(answer: Answer) -> None:
    """It was a bare KeyError."""
    on = answer["h100"]
    assert isinstance(on, Predictions)
    assert "perplexity" not in on
    assert on.get("nope") is None
    with pytest.raises(
        UnknownName, match=r"Did you mean 'latency'\? Known: latency, energy, memory"
    ):
        on["latenc"]
    for key in (5, None):
        assert key not in answer
        assert answer.get(key) is None  # type: ignore[arg-type]
        for mapping in (answer, on):
            with pytest.raises(InvalidValue, match="'key' parameter"):
                mapping[key]  # type: ignore[index]


def test_a_prediction_is_what_predict_gives(answer: Answer, bench: Benchmark) -> None:
    for p in answer.predictions():
        if not p.supported:
            continue
        found = bench.predict(answer.architecture, p.device, p.metric.name, (0.05, 0.5, 0.95))
        assert found.tolist() == [[p.quantile(0.05), p.median, p.quantile(0.95)]]


def test_origin_unit_and_workload_stand_with_every_number(bench: Benchmark, answer: Answer) -> None:
    p = answer["h100"]["latency"]
    card = bench.card("h100", "latency")
    assert (p.unit, p.device, p.metric.name, p.source) == ("ms", "h100", "latency", "surrogate")
    assert (p.artifact, p.workload, p.evidence) == (card.id, card.workload, "full")
    assert p.workload is not None
    assert (p.workload.block, p.workload.batch_size) == ("hwgpt", 8)
    assert answer["perplexity"].workload is None
    assert [answer[m].unit for m in ("params", "macs", "flops")] == ["parameters", "MAC", "FLOP"]
    low = Benchmark("l").query(hwbench.space("l").smallest, metrics=["perplexity", "accuracy"])
    assert {p.evidence for p in low.values()} == {"low"}


@pytest.mark.parametrize(
    "space, device, metric, reason",
    [
        ("s", "h100", "memory", "on h100 in space s. Devices with memory there: a100, rtx2080."),
        ("s", "cpu_p100_host", "energy", "on cpu_p100_host in space s. Devices with energy there:"),
        ("s", "h200", "latency", "on h200 in space s. Devices with latency there: a100, a40,"),
        ("xl", "h100", "latency", "in space xl. Spaces with latency: s, m, l."),
        ("m-wide", None, "perplexity", "in space m-wide. Spaces with perplexity: s, m, l."),
    ],
)
def test_what_cannot_be_answered(space: str, device: str | None, metric: str, reason: str) -> None:
    """In a query it is there with its reason; asked for by name it is an error that says so."""
    bench, arch = Benchmark(space), hwbench.space(space).smallest
    answer = bench.query(arch, *(() if device != "h200" else ("h200",)))
    p = answer[metric] if device is None else answer[device][metric]
    assert isinstance(p, Prediction)
    assert p.supported is False
    assert p.reason is not None
    assert reason in p.reason
    assert (p.source, p.workload, p.artifact, p.evidence) == (None, None, None, None)
    assert p.unit == bench.query(arch, metrics=metric).predictions()[0].unit
    for read in READS:
        with pytest.raises(Unsupported) as caught:
            read(p)
        assert str(caught.value) == p.reason
    assert "not supported, There is no artefact" in repr(p)
    for ask in (lambda: bench.predict(arch, device, metric), lambda: bench.card(device, metric)):
        with pytest.raises(Unsupported) as caught:
            ask()
        assert str(caught.value) == p.reason


def test_a_space_without_artefacts_has_its_closed_forms() -> None:
    bench = Benchmark("xl-wide")
    assert bench.devices == []
    assert bench.metrics == ["params", "macs", "flops"]
    frame = bench.query(bench.space.smallest).to_frame()
    assert set(frame["metric"][frame["supported"]]) == {"params", "macs", "flops"}
    assert len(frame) == 14 * 3 + 5


def test_devices_and_metrics_may_be_chosen(bench: Benchmark) -> None:
    arch = bench.space.smallest
    for devices, metrics, keys in (
        (None, "latency", bench.devices),
        ("P100", None, ["p100", "perplexity", "accuracy", "params", "macs", "flops"]),
        (["a40", "h100", "a40"], ["energies", "energy"], ["a40", "h100"]),
        (iter(["a40"]), ("ppl", "latency"), ["a40", "perplexity"]),
        (bench.published, {"latency": 1}, bench.published),
        ("h100", "params", ["params"]),
    ):
        answer = bench.query(arch, devices, metrics)  # type: ignore[arg-type]
        assert list(answer) == keys
    on = bench.query(arch, "h100", ["memory", "latency"])["h100"]
    assert list(on) == ["memory", "latency"]


def test_frames_of_one_and_of_many_agree(bench: Benchmark) -> None:
    archs = bench.space.sample(70, 8)  # more than XGBoost is called for
    many = bench.query_many(archs)
    one = pd.concat([bench.query(a).to_frame() for a in archs[:3]])
    keys = ["arch", "device", "metric"]
    chosen = many[many["arch"].isin([str(a) for a in archs[:3]])]
    left, right = (f.sort_values(keys, kind="stable").reset_index(drop=True) for f in (chosen, one))
    pd.testing.assert_frame_equal(left, right, check_exact=True)
    latency = many[(many["metric"] == "latency") & (many["device"] == "h100")]
    assert latency["arch"].tolist() == [str(a) for a in archs]
    wanted = bench.predict(archs, "h100", "latency", (0.5, 0.05, 0.95))
    assert np.array_equal(latency[["median", "q05", "q95"]].to_numpy(), wanted)


def test_a_frame_of_only_what_is_absent(bench: Benchmark) -> None:
    frame = bench.query_many(bench.space.sample(2, 0), "h100", "memory")
    assert frame["supported"].tolist() == [False, False]
    assert frame["source"].tolist() == [None, None]
    assert frame["median"].isna().all()
    assert frame["device"].tolist() == ["h100", "h100"]
    frame = bench.query(bench.space.smallest, metrics="params").to_frame()
    assert frame["device"].tolist() == [None]


def test_answers_travel_between_processes(bench: Benchmark, answer: Answer) -> None:
    """The functions of a transform once could not be pickled."""
    there = pickle.loads(pickle.dumps(answer))  # noqa: S301
    for sent, received in zip(answer.predictions(), there.predictions(), strict=True):
        assert repr(sent) == repr(received)
    again = pickle.loads(pickle.dumps(bench))  # noqa: S301
    archs = bench.space.sample(3, 0)
    assert np.array_equal(again.predict(archs, "h100"), bench.predict(archs, "h100"))
