"""The public contract, name by name: what programs outside this project are written against."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hwbench

MINIATURE = Path(__file__).parent.parent / "data/miniature"
SPACES = ["s", "m", "l", "xl", "s-wide", "m-wide", "l-wide", "xl-wide"]
PUBLISHED = {
    *("a100", "a40", "h100", "rtx2080", "rtx3080", "a6000", "v100", "p100"),
    *("cpu_xeon_silver", "cpu_xeon_gold", "cpu_amd_7502", "cpu_amd_7513", "cpu_amd_7452"),
}
METRICS = ["latency", "energy", "memory", "perplexity", "accuracy", "params", "macs", "flops"]
UNITS = {"latency": "ms", "energy": "J", "memory": "MB", "accuracy": "fraction"}
COLUMNS = [
    *("arch", "device", "metric", "unit", "median", "mean", "std", "q05", "q95"),
    *("source", "supported"),
]
NO_DEFAULT = inspect.Parameter.empty


def parameters(function: Any) -> dict[str, Any]:
    """The parameters of a function with their defaults, `self` left out."""
    found = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in found if p.name != "self"}


def check_frame(frame: pd.DataFrame, texts: list[str]) -> None:
    """A frame of the answers to architectures about all devices and metrics."""
    assert list(frame.columns) == COLUMNS
    assert set(frame["arch"]) == set(texts)
    bare = frame["metric"].isin(["perplexity", "accuracy", "params", "macs", "flops"])
    assert {type(d) for d in frame["device"][bare]} == {type(None)}
    assert {type(d) for d in frame["device"][~bare]} == {str}
    assert set(frame["metric"]) == set(METRICS)
    assert frame["supported"].dtype == bool
    for column in ("median", "mean", "std", "q05", "q95"):
        assert frame[column].dtype == np.float64
        assert (frame[column].notna() == frame["supported"]).all()
    assert set(frame["source"][frame["supported"]]) == {"surrogate", "analytic"}
    assert {type(s) for s in frame["source"][~frame["supported"]]} == {type(None)}


def test_the_contract() -> None:
    assert isinstance(hwbench.__version__, str)
    assert set(hwbench.__all__) <= set(dir(hwbench))
    assert all(hasattr(hwbench, name) for name in hwbench.__all__)

    # Spaces and architectures.
    assert hwbench.spaces() == SPACES
    space = hwbench.space("s")
    assert type(space.size) is int
    assert space.size == 6 * sum(9**n for n in (10, 11, 12))
    assert parameters(space.sample) == {"n": NO_DEFAULT, "seed": NO_DEFAULT}
    archs = space.sample(5, 0)
    assert isinstance(archs, list)
    assert all(space.contains(a) for a in (*archs, space.smallest, space.largest))
    assert all(space.contains(a) for a in space.neighbours(archs[0]))
    arch = hwbench.Architecture("s", 10, 192, (4,) * 10, (2,) * 10, False)
    assert hwbench.Architecture.parse(str(arch)) == arch == space.smallest
    assert str(arch) == "gpt-s-10-192" + "-2" * 10 + "-4" * 10 + "-False"
    assert hwbench.Architecture.from_dict(arch.to_dict()) == arch
    sampled = {
        "sample_n_layer": 10,
        "sample_embed_dim": 192,
        "sample_n_head": [4] * 12,
        "sample_mlp_ratio": [2] * 12,
        "sample_bias": False,
    }
    assert hwbench.Architecture.from_dict(sampled, space="s") == arch

    # Counts.
    assert parameters(hwbench.count) == {"arch": NO_DEFAULT, "tokens": None, "block": "hwgpt"}
    for name, tokens in zip(SPACES, [8192, 4096, 1024, 1024] * 2, strict=True):
        counted = hwbench.count(hwbench.space(name).smallest)
        assert counted == hwbench.count(hwbench.space(name).smallest, tokens=tokens)
    counted = hwbench.count(arch)
    for name in ("params", "macs", "flops", "attention_flops"):
        assert type(getattr(counted, name)) is int
    assert counted.flops == 2 * counted.macs

    # The benchmark.
    constructor = parameters(hwbench.Benchmark)
    assert constructor == {"space": NO_DEFAULT, "artifacts": None, "store": None}
    bench = hwbench.Benchmark("s")
    assert set(bench.published) == PUBLISHED
    assert len(bench.published) == 13
    assert set(bench.devices) == PUBLISHED | {"cpu_p100_host"}
    assert bench.metrics == METRICS

    # Quantiles of many.
    assert parameters(bench.predict) == {
        "archs": NO_DEFAULT,
        "device": None,
        "metric": "latency",
        "quantiles": (0.05, 0.5, 0.95),
    }
    found = bench.predict(archs, device="h100", metric="latency", quantiles=(0.05, 0.5, 0.95))
    assert found.dtype == np.float64
    assert found.shape == (5, 3)
    assert (np.diff(found, axis=1) >= 0).all()
    assert bench.predict(archs, device=None, metric="perplexity").shape == (5, 3)
    exact = bench.predict(archs, metric="params", quantiles=(0.1, 0.9))
    assert exact.dtype == np.float64
    assert exact.tolist() == [[hwbench.count(a).params] * 2 for a in archs]
    with pytest.raises(ValueError, match="device"):
        bench.predict(archs, metric="latency")

    # Recorded values.
    assert list(parameters(bench.recorded))[:3] == ["arch", "device", "metric"]
    stored = hwbench.Benchmark("s", store=MINIATURE)
    known = space.sample(1, 20240524)[0]
    repeats = stored.recorded(known, "h100", "latency")
    assert isinstance(repeats, np.ndarray)
    assert repeats.shape == (10,)
    assert stored.recorded(arch, "h100", "latency") is None
    assert stored.query(known)["h100"]["latency"].source == "measured"

    # One answer.
    assert parameters(bench.query) == {"arch": NO_DEFAULT, "devices": None, "metrics": None}
    answer = bench.query(arch)
    for device in bench.devices:
        assert set(answer[device]) == {"latency", "energy", "memory"}
    for metric, device in (("latency", "h100"), ("memory", "a100"), ("perplexity", None)):
        one = answer[metric] if device is None else answer[device][metric]
        assert isinstance(one, hwbench.Prediction)
        assert one.supported is True
        assert one.reason is None
        assert one.source == "surrogate"
        assert one.unit == UNITS.get(metric, "")
        assert isinstance(one.artifact, str)
        assert (one.workload is None) == (device is None)
        assert {type(v) for v in (one.median, one.mean, one.std, one.quantile(0.1))} == {float}
        assert one.std > 0
        low, high = one.interval(0.9)
        assert low <= one.median <= high
        assert one.sample(4, seed=0).shape == (4,)
        parts = one.components
        assert parts.model >= 0
        assert parts.drift >= 0
        assert parts.repeat is None or parts.repeat >= 0
        assert dict(parts) == {
            "repeat": parts.repeat,
            "drift": parts.drift,
            "model": parts.model,
        }
    assert answer["params"].source == "analytic"
    assert answer["params"].median == hwbench.count(arch).params
    assert answer["h100"]["memory"].supported is False
    assert isinstance(answer["h100"]["memory"].reason, str)

    # Several devices and metrics, by one name, several or None; and frames.
    for devices, metrics, keys in (
        ("h100", "latency", ["h100"]),
        (["h100", "a100"], ("latency", "energy"), ["h100", "a100"]),
        ("h100", ["latency", "params"], ["h100", "params"]),
    ):
        assert list(bench.query(arch, devices=devices, metrics=metrics)) == keys
    check_frame(answer.to_frame(), [str(arch)])
    assert parameters(bench.query_many) == {"archs": NO_DEFAULT, "devices": None, "metrics": None}
    check_frame(bench.query_many(archs), [str(a) for a in archs])
    assert len(bench.query_many(archs, devices="h100", metrics="latency")) == 5
