"""Proposals: the paper's cases, size within the tolerance, an order that says what it ranks by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwbench.advise import proposals
from hwbench.cost.step import step
from hwbench.cost.transformer import Gemm, TransformerShape
from hwbench.devices import hardware
from hwbench.errors import InvalidValue

GPT3 = TransformerShape(hidden=2560, heads=32, layers=32, vocab=50257, seq=2048, microbatch=4)
LLAMA = TransformerShape(
    hidden=4096, heads=32, layers=32, vocab=32000, seq=2048, microbatch=4, mlp="swiglu"
)
GROUPED = replace(LLAMA, kv_heads=8, mlp_width=14336, vocab=128256, tensor_parallel=4)


@pytest.mark.parametrize("device", ["a100", "h100", "v100"])
def test_gpt3_of_2_7_billion_should_have_heads_of_64_or_128(device: str) -> None:
    found = proposals(GPT3, hardware(device))
    sizes = {p.shape.head for p in found if p.gain > 0}
    assert {64, 128} <= sizes
    alone = {p.changes["heads"]: p.gain for p in found if set(p.changes) == {"heads"}}
    assert alone[40] > 0
    assert alone[20] > alone[40]


def test_the_vocabulary_is_padded() -> None:
    alone = [p for p in proposals(GPT3, hardware("a100")) if set(p.changes) == {"vocab"}]
    assert [p.changes["vocab"] for p in alone] == [50304]
    assert alone[0].gain > 0


def test_swiglus_aligned_widths_are_faster_than_10922() -> None:
    found = proposals(LLAMA, hardware("h100"))
    gains = {p.shape.width: p.gain for p in found if set(p.changes) == {"mlp_width"}}
    assert gains[11008] > 0.1
    assert gains[10944] > 0.1


@pytest.mark.parametrize("shape", [GPT3, LLAMA, GROUPED, replace(GPT3, pipeline=8)])
@pytest.mark.parametrize("tolerance", [0.0, 0.01, 0.05])
def test_proposals_stay_within_the_tolerance_and_are_ranked(
    shape: TransformerShape, tolerance: float
) -> None:
    found = proposals(shape, hardware("h100"), tolerance=tolerance)
    base = step(shape, hardware("h100")).tokens_per_s
    assert [p.gain for p in found] == sorted((p.gain for p in found), reverse=True)
    for p in found:
        assert abs(p.shape.parameters / shape.parameters - 1) <= tolerance
        assert p.gain == pytest.approx(p.step.tokens_per_s / base - 1)
        assert p.shape.layers % shape.pipeline == 0
        kept = ("seq", "microbatch", "tensor_parallel", "mlp", "attention", "phase", "dtype")
        assert all(getattr(p.shape, name) == getattr(shape, name) for name in kept)
        for name, value in p.changes.items():
            assert getattr(p.shape, "width" if name == "mlp_width" else name) == value
    assert len({p.shape for p in found}) == len(found)


def test_no_tolerance_leaves_what_changes_no_weight() -> None:
    found = proposals(replace(GPT3, vocab=50304), hardware("a100"), tolerance=0.0)
    assert found
    assert all(set(p.changes) == {"heads"} for p in found)


def test_grouped_heads_keep_their_share() -> None:
    for p in proposals(GROUPED, hardware("h100")):
        assert p.shape.heads == 4 * p.shape.kv
        assert p.shape.kv % 4 == 0


def test_the_same_shape_gives_the_same_proposals() -> None:
    a, b = (proposals(GPT3, hardware("a100")) for _ in range(2))
    assert [p.shape for p in a] == [p.shape for p in b]


def test_200_proposals_are_there_to_rank() -> None:
    assert len(proposals(GPT3, hardware("a100"))) >= 200


def test_measured_products_go_first() -> None:
    def slow_logits(gemm: Gemm) -> float | None:
        return 1e6 if gemm.name == "logits" and gemm.n == 50257 else None

    best = proposals(GPT3, hardware("a100"), measured=slow_logits)[0]
    assert best.shape.vocab == 50304
    assert best.gain > 1


@pytest.mark.parametrize("tolerance", [-0.1, 0.6, float("nan"), True, "1%", None])
def test_the_tolerance_is_checked(tolerance: Any) -> None:
    with pytest.raises(InvalidValue, match=r"'tolerance' .* a number in \[0, 0.5\]"):
        proposals(GPT3, hardware("a100"), tolerance=tolerance)
