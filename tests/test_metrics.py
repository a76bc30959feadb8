"""The registry of metrics: what the public contract says, and names found by alias."""

from __future__ import annotations

import dataclasses

import pytest

from hwbench.errors import InvalidValue, UnknownName
from hwbench.metrics import METRICS, metric


def test_the_metrics_of_the_contract_with_their_units() -> None:
    assert {m.name: (m.unit, m.needs_device, m.better) for m in METRICS.values()} == {
        "latency": ("ms", True, "lower"),
        "energy": ("J", True, "lower"),
        "memory": ("MB", True, "lower"),
        "perplexity": ("", False, "lower"),
        "accuracy": ("fraction", False, "higher"),
        "params": ("parameters", False, "lower"),
        "macs": ("MAC", False, "lower"),
        "flops": ("FLOP", False, "lower"),
    }
    assert [m.name for m in METRICS.values() if m.source == "analytic"] == [
        "params",
        "macs",
        "flops",
    ]


@pytest.mark.parametrize(
    "alias, name",
    [
        ("latencies", "latency"),
        ("energies", "energy"),
        ("float16_memory", "memory"),
        ("bfloat16_memory", "memory"),
        ("latency_ms", "latency"),
        ("energy_j", "energy"),
        ("memory_mb", "memory"),
    ],
)
def test_aliases(alias: str, name: str) -> None:
    assert metric(alias) is METRICS[name]


def test_names_aliases_and_fields_never_clash() -> None:
    words = [w for m in METRICS.values() for w in {m.name, m.field, *m.aliases}]
    assert len(words) == len(set(words))
    assert all(metric(w) is m for m in METRICS.values() for w in {m.name, m.field, *m.aliases})


@pytest.mark.parametrize("name", ["latencie", "Latency", "memory_peak_allocated_mb", ""])
def test_unknown_metric(name: str) -> None:
    with pytest.raises(UnknownName, match=r"^Unknown metric .* Known: latency, energy, memory"):
        metric(name)


@pytest.mark.parametrize("name", [None, 1, ["latency"], b"latency"])
def test_metric_must_be_text(name: object) -> None:
    with pytest.raises(InvalidValue, match=r"^The 'metric' parameter of metric must be a str\."):
        metric(name)  # type: ignore[arg-type]


def test_the_registry_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        metric("latency").unit = "s"  # type: ignore[misc]
    with pytest.raises(TypeError):
        METRICS["new"] = metric("latency")  # type: ignore[index]
