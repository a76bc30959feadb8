"""The rules of shape: the paper's cases, each rule kept and broken, and its regime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwbench.cost.rules import RULES, Finding, check
from hwbench.cost.transformer import TransformerShape
from hwbench.devices import hardware
from hwbench.errors import HwbenchError

GPT3 = TransformerShape(hidden=2560, heads=32, layers=32, vocab=50257, seq=2048, microbatch=4)
LLAMA = TransformerShape(
    hidden=4096, heads=32, layers=32, vocab=32000, seq=2048, microbatch=4, mlp="swiglu"
)


def found(rule: str, shape: TransformerShape = GPT3, device: str = "a100") -> Finding:
    return {f.rule.id: f for f in check(shape, hardware(device))}[rule]


def test_gpt3_of_2_7_billion_breaks_its_heads_and_its_vocabulary() -> None:
    broken = [f.rule.id for f in check(GPT3, hardware("a100")) if f.state == "broken"]
    assert broken == ["vocab-64", "head-size-64"]
    assert found("vocab-64").nearest == (50304,)
    sizes = [2560 // heads for heads in found("head-size-64").nearest]
    assert {64, 128} <= set(sizes)


def test_swiglus_width_is_searched_not_rounded() -> None:
    blind = found("mlp-width-64", LLAMA, "h100")
    assert (blind.state, blind.got) == ("broken", 10922)
    assert all(width % 64 == 0 for width in blind.nearest)
    assert 11008 in blind.nearest
    assert found("mlp-width-64", replace(LLAMA, mlp_width=11008), "h100").state == "kept"


KEPT_AND_BROKEN = [
    ("vocab-64", {"vocab": 50304}, {"vocab": 50256}, "vocab"),
    (
        "vocab-64",
        {"vocab": 51200, "tensor_parallel": 2},
        {"vocab": 51264, "tensor_parallel": 2},
        "vocab",
    ),
    ("head-size-64", {"heads": 40}, {"heads": 32}, "heads"),
    ("tokens-64", {"microbatch": 64, "seq": 99}, {"microbatch": 63, "seq": 99}, "microbatch"),
    ("hidden-64", {"hidden": 2560}, {"hidden": 2528, "heads": 32}, "hidden"),
    ("small-t", {"tensor_parallel": 1}, {"hidden": 512, "tensor_parallel": 4}, "tensor_parallel"),
    ("mlp-width-64", {"mlp_width": 10240}, {"mlp_width": 10241}, "mlp_width"),
    ("pipeline", {"pipeline": 4}, {"pipeline": 5}, "layers"),
    ("wave", {}, {"hidden": 1152, "heads": 18, "microbatch": 1, "seq": 1024}, "microbatch"),
]


@pytest.mark.parametrize("rule, good, bad, field", KEPT_AND_BROKEN)
def test_a_rule_is_kept_or_broken_and_names_values_that_keep_it(
    rule: str, good: dict[str, Any], bad: dict[str, Any], field: str
) -> None:
    assert found(rule, replace(GPT3, **good)).state == "kept"
    assert found(rule, replace(GPT3, **good)).nearest == ()
    shape = replace(GPT3, **bad)
    finding = found(rule, shape)
    assert (finding.state, finding.field) == ("broken", field)
    assert finding.nearest
    if rule != "wave":  # where some waves are better, perhaps none are good
        mended = replace(shape, **{field: finding.nearest[0]})
        assert found(rule, mended).state == "kept"


def test_heads_that_cannot_be_better_break_nothing() -> None:
    """A hidden size of 2 x 7 x 13 allows no head divisible by more than 2."""
    shape = replace(GPT3, hidden=182, heads=7)
    assert found("head-size-64", shape).state == "kept"


def test_parallel_layers_are_an_option_and_no_rule_to_break() -> None:
    assert found("parallel-layers").state == "option"
    assert found("parallel-layers", replace(GPT3, parallel_layers=True)).state == "kept"


def test_rules_say_where_they_hold() -> None:
    decode = {f.rule.id: f.state for f in check(replace(GPT3, phase="decode"), hardware("a100"))}
    assert decode["wave"] == decode["tokens-64"] == decode["head-size-64"] == "not here"
    assert decode["vocab-64"] == "broken"
    assert found("attention-batch").state == "not here"
    assert found("attention-batch", replace(GPT3, attention="plain")).state == "kept"


def test_a_model_that_fits_nowhere_smaller_may_be_shared() -> None:
    big = replace(GPT3, hidden=12288, heads=96, layers=96, tensor_parallel=8)
    assert found("small-t", big).state == "kept"
    assert "GB" in found("small-t", big).detail


def test_every_rule_has_an_id_a_reason_and_a_source() -> None:
    rules = [rule for rule, _ in RULES]
    assert len({r.id for r in rules}) == len(rules)
    for rule in rules:
        assert rule.says
        assert rule.reason
        assert rule.source.startswith(("arXiv", "NVIDIA"))
        assert set(rule.phases) <= {"train", "forward", "decode"}
        assert set(rule.attentions) <= {"flash", "plain"}


@given(
    st.integers(1, 64),
    st.integers(1, 200),
    st.integers(1, 70_000),
    st.integers(1, 3000),
    st.integers(1, 9),
    st.sampled_from(["gelu", "swiglu"]),
    st.sampled_from(["train", "forward", "decode"]),
    st.sampled_from(["flash", "plain"]),
    st.sampled_from([1, 2]),
)
def test_any_shape_can_be_checked(
    heads: int, head: int, vocab: int, seq: int, b: int, mlp: Any, phase: Any, kind: Any, t: int
) -> None:
    try:
        shape = TransformerShape(
            hidden=heads * head,
            heads=heads,
            layers=3,
            vocab=vocab,
            seq=seq,
            microbatch=b,
            mlp=mlp,
            phase=phase,
            attention=kind,
            tensor_parallel=t,
        )
    except HwbenchError:
        return
    findings = check(shape, hardware("v100"))
    assert [f.rule.id for f in findings] == [rule.id for rule, _ in RULES]
    for finding in findings:
        assert all(value >= 1 for value in finding.nearest)
