"""The rules of shape: what the hardware likes, why, where it holds, and the nearest values.

They are the guidelines of "The Case for Co-Designing Model Architectures with Hardware"
(arXiv 2401.14489) and of NVIDIA's "Matrix Multiplication Background User's Guide" (DU-09799).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from hwbench.cost.gpu import estimate
from hwbench.cost.step import memory_gb
from hwbench.cost.transformer import LARGEST, TransformerShape, gemms
from hwbench.devices import Hardware
from hwbench.errors import HwbenchError

State = Literal["kept", "broken", "option", "not here"]

_PAPER = "arXiv 2401.14489"
_GUIDE = "NVIDIA DU-09799"
_STEP = 64
# Waves that cost more than this share of the products' time break a rule.
_WAVE_SHARE = 0.03
# How far from its own value a width may be for its nearest values to be named, how many multiples
# to each side are looked at, and how many microbatches.
_WIDTH_REACH = 0.02
_AROUND = 8
_MICROBATCHES = 32


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of shape.

    Attributes:
        id: Its name.
        says: What should hold.
        reason: Why.
        source: Where it is from.
        phases: In which phases it holds.
        attentions: With which kinds of attention it holds.
    """

    id: str
    says: str
    reason: str
    source: str
    phases: tuple[str, ...] = ("train", "forward")
    attentions: tuple[str, ...] = ("flash", "plain")

    def holds_for(self, shape: TransformerShape) -> bool:
        """Whether the shape's phase and attention are in the rule's regime."""
        return shape.phase in self.phases and shape.attention in self.attentions


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says of one shape.

    Attributes:
        rule: The rule.
        state: "kept", "broken", "option" (allowed, and something better may be) or "not here"
            (outside the rule's regime).
        field: The size that the nearest values are of.
        got: Its value.
        nearest: The nearest values that satisfy the rule, the best first; none where it is kept.
        detail: What was found, for a reader.
    """

    rule: Rule
    state: State
    field: str
    got: int
    nearest: tuple[int, ...]
    detail: str


# State, field, its value, the nearest values and the detail of a finding.
_Found = tuple[State, str, int, tuple[int, ...], str]
_Check = Callable[[TransformerShape, Hardware], _Found]


def _vocab(shape: TransformerShape, hardware: Hardware) -> _Found:
    step = _STEP * shape.tensor_parallel
    v = shape.vocab
    detail = f"{v} = {step} x {v // step}" + (f" + {v % step}" if v % step else "")
    padded = sorted({_up(v, step), _up(v, 2 * step)})
    return _state(v % step == 0), "vocab", v, tuple(padded), detail


def _head_size(shape: TransformerShape, hardware: Hardware) -> _Found:
    possible = {a: shape.hidden // a for a in _head_choices(shape)}
    best = max(_power_of_two(d) for d in possible.values())
    good = [a for a, d in possible.items() if _power_of_two(d) == best]
    near = sorted(good, key=lambda a: (abs(a - shape.heads), a))[:3]
    detail = f"heads of {shape.head}, divisible by {_power_of_two(shape.head, cap=2**30)}"
    return _state(_power_of_two(shape.head) >= best), "heads", shape.heads, tuple(near), detail


def _tokens(shape: TransformerShape, hardware: Hardware) -> _Found:
    b, s = shape.microbatch, shape.seq
    step = _STEP // math.gcd(_STEP, s)
    near = sorted({max(step, b // step * step), _up(b, step)}, key=lambda c: (abs(c - b), c))
    detail = f"{b} x {s} = {b * s} tokens"
    return _state(b * s % _STEP == 0), "microbatch", b, tuple(near), detail


def _hidden(shape: TransformerShape, hardware: Hardware) -> _Found:
    h, t = shape.hidden, shape.tensor_parallel
    step = _STEP * t
    near = [c for c in (h // step * step, _up(h, step)) if c > 0]
    near = sorted(set(near), key=lambda c: (abs(c - h), c))
    share = f"{h / t:g} a device" if t > 1 else f"{h}"
    return _state(h % step == 0), "hidden", h, tuple(near), share


def _attention_batch(shape: TransformerShape, hardware: Hardware) -> _Found:
    b, a, t = shape.microbatch, shape.heads, shape.tensor_parallel
    detail = f"{b} x {a} / {t} = {b * a / t:g} products of scores"
    return _state(b * a % t == 0), "microbatch", b, (b,), detail


def _small_t(shape: TransformerShape, hardware: Hardware) -> _Found:
    t = shape.tensor_parallel
    fits = [
        smaller
        for smaller in _divisors(t)
        if memory_gb(replace(shape, tensor_parallel=smaller)) <= hardware.memory_gb
    ]
    least = fits[0] if fits else t
    needs = memory_gb(shape)
    detail = f"{needs:.1f} GB of {hardware.memory_gb:g} GB a device, activations not counted"
    return _state(t == least), "tensor_parallel", t, (least,), detail


def _mlp_width(shape: TransformerShape, hardware: Hardware) -> _Found:
    step, w = _STEP * shape.tensor_parallel, shape.width
    reach = max(step, int(w * _WIDTH_REACH))
    around = (c * step for c in range(w // step - _AROUND, w // step + _AROUND + 2))
    choices = [c for c in around if 0 < c <= LARGEST and abs(c - w) <= reach]
    choices.sort(key=lambda c: _mlp_us_a_flop(replace(shape, mlp_width=c), hardware))
    detail = f"width {w}" + (f", {w / shape.hidden:.3f} x hidden" if shape.mlp == "swiglu" else "")
    return _state(w % step == 0), "mlp_width", w, tuple(choices[:3]), detail


def _pipeline(shape: TransformerShape, hardware: Hardware) -> _Found:
    layers, stages = shape.layers, shape.pipeline
    near = sorted({max(stages, layers // stages * stages), _up(layers, stages)})
    detail = f"{layers} layers over {stages} stages"
    return _state(layers % stages == 0), "layers", layers, tuple(near), detail


def _parallel(shape: TransformerShape, hardware: Hardware) -> _Found:
    on = int(shape.parallel_layers)
    detail = (
        "one norm serves both" if on else "attention waits for its own norm, the MLP for another"
    )
    return "kept" if on else "option", "parallel_layers", on, (1,), detail


def _wave(shape: TransformerShape, hardware: Hardware) -> _Found:
    share, worst = _wave_loss(shape, hardware)
    b = shape.microbatch
    most = min(max(2 * b, b + 4), LARGEST)
    near = islice((c for c in range(max(1, b // 2), most + 1) if c != b), _MICROBATCHES)
    better = [
        (found, c)
        for c in near
        if (found := _wave_loss(replace(shape, microbatch=c), hardware)[0]) < share
    ]
    values = tuple(c for _, c in sorted(better)[:2])
    detail = f"{share:.1%} of the products' time; {worst}"
    return _state(share <= _WAVE_SHARE), "microbatch", b, values, detail


RULES: tuple[tuple[Rule, _Check], ...] = (
    (
        Rule(
            "vocab-64",
            "the vocabulary is divisible by 64 on each device",
            "rows of the logits load in whole 128-byte lines, and no tile sticks out",
            _PAPER,
            phases=("train", "forward", "decode"),
        ),
        _vocab,
    ),
    (
        Rule(
            "head-size-64",
            "hidden / heads is divisible by 64, or by the largest power of two that it can be",
            "it is the inner length of the scores and the width of their product with the values; "
            "fused attention pads it to a multiple of 32",
            _PAPER,
        ),
        _head_size,
    ),
    (
        Rule(
            "tokens-64",
            "microbatch x seq is divisible by 64",
            "it is a dimension of every product with a weight",
            _PAPER,
        ),
        _tokens,
    ),
    (
        Rule(
            "hidden-64",
            "hidden / tensor_parallel is divisible by 64",
            "it is a dimension of every product with a weight",
            _PAPER,
            phases=("train", "forward", "decode"),
        ),
        _hidden,
    ),
    (
        Rule(
            "attention-batch",
            "microbatch x heads / tensor_parallel is an integer",
            "it is the number of products of scores on each device",
            _PAPER,
            attentions=("plain",),
        ),
        _attention_batch,
    ),
    (
        Rule(
            "small-t",
            "tensor_parallel is as small as fits in memory",
            "it makes every product smaller and adds communication",
            _PAPER,
            phases=("train", "forward"),
        ),
        _small_t,
    ),
    (
        Rule(
            "mlp-width-64",
            "the MLP's width is divisible by 64 on each device; in SwiGLU it is searched near "
            "8/3 x hidden, not rounded",
            "it is the row length of the MLP's inner activations",
            _PAPER,
            phases=("train", "forward", "decode"),
        ),
        _mlp_width,
    ),
    (
        Rule(
            "pipeline",
            "layers are divisible by pipeline stages",
            "the stage with one layer more sets the pace",
            _PAPER,
            phases=("train", "forward", "decode"),
        ),
        _pipeline,
    ),
    (
        Rule(
            "parallel-layers",
            "attention and MLP run in parallel where the block allows it",
            "it saves a norm and, fused, makes larger products; it is another model",
            _PAPER,
        ),
        _parallel,
    ),
    (
        Rule(
            "wave",
            "waves that are not full cost at most 3% of the products' time",
            "the last wave takes as long as a full one, with most multiprocessors idle",
            _GUIDE,
        ),
        _wave,
    ),
)
"""All rules with their checks, in the order in which they are shown."""


def check(shape: TransformerShape, hardware: Hardware) -> tuple[Finding, ...]:
    """Hold a shape against every rule.

    Args:
        shape: The model and the step.
        hardware: The device's figures.

    Returns:
        One finding a rule, in their order.

    >>> from hwbench.devices import hardware
    >>> gpt3 = TransformerShape(
    ...     hidden=2560, heads=32, layers=32, vocab=50257, seq=2048, microbatch=4
    ... )
    >>> found = {f.rule.id: f for f in check(gpt3, hardware("a100"))}
    >>> found["head-size-64"].state, found["head-size-64"].nearest
    ('broken', (40, 20, 10))
    >>> found["vocab-64"].nearest
    (50304,)
    """
    findings = []
    for rule, function in RULES:
        state, field, got, nearest, detail = function(shape, hardware)
        if not rule.holds_for(shape):
            state = "not here"
        wanted = nearest if state in ("broken", "option") else ()
        findings.append(Finding(rule, state, field, got, wanted, detail))
    return tuple(findings)


def _state(kept: bool) -> State:
    return "kept" if kept else "broken"


def _up(value: int, step: int) -> int:
    """The next multiple of a step, the value itself where it is one."""
    return -(-value // step) * step


def _power_of_two(value: int, cap: int = _STEP) -> int:
    """The largest power of two that divides a value, at most `cap`."""
    return min(value & -value, cap)


def _divisors(value: int) -> list[int]:
    """All divisors in order."""
    small = [d for d in range(1, math.isqrt(value) + 1) if value % d == 0]
    return sorted({*small, *(value // d for d in small)})


def _head_choices(shape: TransformerShape) -> Iterator[int]:
    """Numbers of heads that the model could have, its own first."""
    yield shape.heads
    if shape.head_size is not None:
        return
    for heads in _divisors(shape.hidden):
        if shape.heads <= 4 * heads <= 8 * shape.heads and heads != shape.heads:
            try:
                kv = None if shape.kv_heads is None else heads * shape.kv // shape.heads
                replace(shape, heads=heads, kv_heads=kv)
            except HwbenchError:
                continue
            yield heads


def _mlp_us_a_flop(shape: TransformerShape, hardware: Hardware) -> float:
    products = [g for g in gemms(replace(shape, layers=1)) if g.name.startswith("MLP")]
    time = sum(estimate(g, hardware, shape.dtype).total_us for g in products)
    return time / sum(g.total_flops for g in products)


def _wave_loss(shape: TransformerShape, hardware: Hardware) -> tuple[float, str]:
    """Share of the products' time that waves cost, and the product that loses most to them."""
    made = [estimate(g, hardware, shape.dtype) for g in gemms(shape)]
    lost = [(e.lost_us.get("wave", 0.0) * e.gemm.count, e) for e in made if e.bound == "compute"]
    if not lost:
        return 0.0, "no product is bound by compute"
    worst = max(lost, key=lambda pair: pair[0])[1]
    waves = f"{worst.blocks / hardware.multiprocessors:.2f}"
    where = f"{worst.gemm.name} ({worst.gemm.role}) fills {waves} of {worst.waves} waves"
    return sum(us for us, _ in lost) / sum(e.total_us for e in made), where
