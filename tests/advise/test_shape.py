"""Advice on a shape: the verdict's numbers are the step's, and JSON has the flags' names."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hwbench.advise import advise
from hwbench.cost.transformer import Gemm, TransformerShape
from hwbench.devices import hardware

GPT3 = TransformerShape(hidden=2560, heads=32, layers=32, vocab=50257, seq=2048, microbatch=4)


def test_the_verdict_says_speed_losses_rules_and_the_best_change() -> None:
    made = advise(GPT3, hardware("a100"))
    text = "\n".join(made.verdict)
    assert f"{made.step.tokens_per_s:,.0f} tokens a second" in text
    assert "2 of 9 rules broken: vocab-64, head-size-64." in text
    assert "It does not fit" in text
    assert "Best single change: vocab 50304" in text


def test_products_are_worst_first() -> None:
    wasted = [row.wasted_us for row in advise(GPT3, hardware("a100")).rows]
    assert wasted == sorted(wasted, reverse=True)


def test_json_has_the_flags_names_and_sums_that_hold() -> None:
    made = json.loads(json.dumps(advise(GPT3, hardware("a100")).to_dict(200)))
    flags = {"hidden", "heads", "kv_heads", "layers", "vocab", "seq", "microbatch", "mlp_width"}
    assert flags <= set(made["shape"])
    assert len(made["proposals"]) == 200
    assert {"hidden", "heads", "layers", "vocab", "mlp_width", "gain"} <= set(made["proposals"][0])
    products = sum(row["time_ms"] for row in made["gemms"])
    assert products == pytest.approx(made["products_ms"], rel=1e-3)
    assert made["products_ms"] + made["other_kernels_ms"] == pytest.approx(
        made["step_ms"], rel=1e-3
    )
    states = {rule["rule"]: rule["state"] for rule in made["rules"]}
    assert states["vocab-64"] == "broken"
    assert states["attention-batch"] == "not here"


def test_a_shape_that_cannot_be_bettered_says_so() -> None:
    best = replace(GPT3, heads=10, vocab=50304)
    made = advise(best, hardware("a100"), tolerance=0.0)
    assert made.proposals
    assert "No shape of about this size should be faster." in made.verdict


def test_evidence_is_named() -> None:
    def measured(gemm: Gemm) -> float | None:
        return 500.0 if gemm.role == "forward" else None

    made = advise(GPT3, hardware("a100"), measured=measured)
    assert "of the products' time measured" in made.verdict[0]
    sources = {row["role"]: row["source"] for row in made.to_dict()["gemms"]}  # type: ignore[attr-defined]
    assert sources["forward"] == "measured"
    assert sources["weight gradient"] == "predicted"


@pytest.mark.parametrize("phase", ["train", "forward", "decode"])
@pytest.mark.parametrize("attention", ["flash", "plain"])
def test_every_phase_and_attention_has_advice(phase: str, attention: str) -> None:
    shape = replace(GPT3, phase=phase, attention=attention)  # type: ignore[arg-type]
    made = advise(shape, hardware("h200"))
    assert made.verdict
    assert json.dumps(made.to_dict(3))


@pytest.mark.parametrize(
    "sizes",
    [
        {"hidden": 2**31 - 1, "heads": 1},
        {"hidden": 2**30, "heads": 2**30},
        {"microbatch": 2**31 - 1, "seq": 2**31 - 1},
        {"mlp_width": 2**31 - 1},
        {"hidden": 2**30, "heads": 2**30, "tensor_parallel": 2**30},
        {"hidden": 1, "heads": 1, "layers": 1, "vocab": 1, "seq": 1, "microbatch": 1},
    ],
)
def test_sizes_at_the_limits_have_advice(sizes: dict[str, int]) -> None:
    """Nothing is tried one by one up to a size."""
    assert advise(replace(GPT3, **sizes), hardware("a100")).verdict  # type: ignore[arg-type]


def test_a_reader_sees_each_shape_once_with_its_best_width() -> None:
    made = advise(GPT3, hardware("a100"))
    shown = made.distinct(10)
    assert len(shown) == 10
    assert {64, 128} <= {p.shape.head for p in shown}
    assert {2560 // p.shape.heads for p in shown if p.shape.hidden == 2560} >= {128}
    keys = [(p.shape.hidden, p.shape.heads, p.shape.layers, p.shape.vocab) for p in shown]
    assert len(set(keys)) == 10
    assert shown == sorted(shown, key=lambda p: -p.gain)
    assert all(p.gain > 0 for p in made.distinct(1000))
