"""Other shapes of the same size, ranked by the throughput that is predicted of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hwbench.cost.step import Step, Timer, step
from hwbench.cost.transformer import LARGEST, TransformerShape
from hwbench.devices import Hardware
from hwbench.errors import HwbenchError, invalid

TOLERANCE = 0.01
"""How far a proposal's parameters may be from the model's, as a share of them."""

FIELDS = ("hidden", "heads", "kv_heads", "layers", "vocab", "mlp_width")
"""The sizes that a proposal may change."""

# Heads of these sizes suit every kernel; others are kept only where the model has them.
_HEAD_SIZES = (64, 96, 128, 256)
# A width this much larger or smaller makes another model of it: depth would have to make up for it.
_WIDTH_REACH = 0.15
_WIDTHS_EACH_SIDE = 12
_MLP_REACH = 0.02


@dataclass(frozen=True, slots=True)
class Proposal:
    """A shape that could be taken in place of another.

    Attributes:
        shape: The shape.
        step: What is predicted of it.
        changes: The sizes that differ, each with its new value.
        gain: Predicted tokens a second over those of the model, less 1.
        parameters_change: Its parameters over those of the model, less 1.
    """

    shape: TransformerShape
    step: Step
    changes: dict[str, int]
    gain: float
    parameters_change: float


def proposals(
    shape: TransformerShape,
    hardware: Hardware,
    *,
    tolerance: float = TOLERANCE,
    measured: Timer | None = None,
) -> list[Proposal]:
    """All shapes of about as many parameters, the one of highest predicted throughput first.

    Tried are head sizes of 64, 96, 128 and 256, padded vocabularies, widths of the MLP, and widths
    of the model with the depth that makes up for them; microbatch, sequence and parallelism stay.

    Args:
        shape: The model and the step.
        hardware: The device's figures.
        tolerance: Largest relative difference of parameters, in [0, 0.5].
        measured: Looks up measured products.

    Returns:
        Proposals ranked by their gain, which is negative where a shape should be slower; of equal
        ones the one with fewer changes first.

    Raises:
        InvalidValue: The tolerance is not in its range.

    >>> from hwbench.devices import hardware
    >>> gpt3 = TransformerShape(
    ...     hidden=2560, heads=32, layers=32, vocab=50257, seq=2048, microbatch=4
    ... )
    >>> best = proposals(gpt3, hardware("a100"))[0]
    >>> best.gain > 0, best.shape.head % 64
    (True, 0)
    """
    number: object = tolerance
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 0.5:
        raise invalid("tolerance", "proposals", "a number in [0, 0.5]", tolerance)
    base = step(shape, hardware, measured)
    found = []
    # A width that is named and one that follows from hidden are the same shape.
    candidates = {
        (c.width, *(getattr(c, name) for name in FIELDS[:-1])): c
        for c in _candidates(shape, tolerance)
    }
    for other in candidates.values():
        changes = _changes(shape, other)
        size = other.parameters / shape.parameters - 1
        if not changes or abs(size) > tolerance:
            continue
        predicted = step(other, hardware, measured)
        gain = predicted.tokens_per_s / base.tokens_per_s - 1
        found.append(Proposal(other, predicted, changes, gain, size))
    return sorted(found, key=lambda p: (-p.gain, len(p.changes), tuple(p.changes.items())))


def _candidates(shape: TransformerShape, tolerance: float) -> Iterator[TransformerShape]:
    for hidden in _widths(shape):
        for width in _mlp_widths(shape, hidden):
            # A layer's weights do not depend on how attention's width is cut into heads.
            layer = replace(shape, **_one_head(shape, hidden), hidden=hidden, mlp_width=width)
            for vocab in _vocabularies(shape):
                for layers in _depths(shape, layer, vocab, tolerance):
                    for heads, kv in _heads(shape, hidden):
                        other = _replaced(shape, vocab, hidden, width, layers, heads, kv)
                        if other is not None:
                            yield other


def _one_head(shape: TransformerShape, hidden: int) -> dict[str, Any]:
    """Heads with which a layer of any width has the weights that it has with the shape's share."""
    if shape.head_size is not None or shape.kv_heads is not None:
        size = shape.head if shape.head_size is not None else hidden / shape.heads
        return {"head_size": max(1, round(size)), "tensor_parallel": 1}
    return {"heads": 1, "tensor_parallel": 1}


def _vocabularies(shape: TransformerShape) -> Iterator[int]:
    yield shape.vocab
    for step_ in (64 * shape.tensor_parallel, 128 * shape.tensor_parallel):
        if shape.vocab % step_:
            yield -(-shape.vocab // step_) * step_


def _widths(shape: TransformerShape) -> Iterator[int]:
    yield shape.hidden
    if shape.head_size is not None:
        return
    least, reach = 64 * shape.tensor_parallel, int(shape.hidden * _WIDTH_REACH)
    step_ = max(1, reach // _WIDTHS_EACH_SIDE // least) * least
    first = -(-max(1, shape.hidden - reach) // step_) * step_
    last = min(shape.hidden + reach, LARGEST)
    yield from (w for w in range(first, last + 1, step_) if w != shape.hidden)


def _mlp_widths(shape: TransformerShape, hidden: int) -> Iterator[int | None]:
    """The MLP's own width in proportion to the model's, and multiples of 64 and 256 near it."""
    if shape.mlp_width is None and shape.mlp == "gelu":
        yield None
    if hidden == shape.hidden:
        yield shape.mlp_width
    width = round(shape.width * hidden / shape.hidden)
    for multiple in (64, 256):
        step_ = multiple * shape.tensor_parallel
        reach = max(step_, int(width * _MLP_REACH))
        near = [(width // step_ + i) * step_ for i in range(-2, 4)]
        near = [w for w in near if 0 < w <= LARGEST and abs(w - width) <= reach]
        yield from sorted(near, key=lambda w: abs(w - width))[:3]


def _depths(
    shape: TransformerShape, layer: TransformerShape, vocab: int, tolerance: float
) -> list[int]:
    """The depths that come close enough in parameters, whole stages of a pipeline each."""
    each = layer.layer_parameters
    ends = layer.parameters - layer.layers * each
    ends += (vocab - layer.vocab) * layer.hidden * (1 if layer.tied else 2)
    stages = shape.pipeline if shape.layers % shape.pipeline == 0 else 1
    below = int((shape.parameters - ends) / each // stages) * stages
    most = tolerance * shape.parameters
    return [
        depth
        for depth in sorted({shape.layers, below, below + stages})
        if depth > 0 and abs(ends + depth * each - shape.parameters) <= most
    ]


def _heads(shape: TransformerShape, hidden: int) -> Iterator[tuple[int, int | None]]:
    """Numbers of heads and of key heads; grouped ones keep their share."""
    if shape.head_size is not None:
        yield shape.heads, shape.kv_heads
        return
    for size in {shape.head, *_HEAD_SIZES}:
        if hidden % size == 0:
            heads = hidden // size
            if shape.kv_heads is None:
                yield heads, None
            elif heads * shape.kv % shape.heads == 0:
                yield heads, heads * shape.kv // shape.heads


def _replaced(
    shape: TransformerShape,
    vocab: int,
    hidden: int,
    width: int | None,
    layers: int,
    heads: int,
    kv: int | None,
) -> TransformerShape | None:
    changes: dict[str, Any] = {
        "vocab": vocab,
        "hidden": hidden,
        "mlp_width": width,
        "layers": layers,
        "heads": heads,
        "kv_heads": kv,
    }
    try:
        return replace(shape, **changes)
    except HwbenchError:  # tensor parallelism that this number of heads does not allow
        return None


def _changes(shape: TransformerShape, other: TransformerShape) -> dict[str, int]:
    """The sizes that differ; a width that follows from hidden is no change of its own."""
    found = {
        name: getattr(other, name)
        for name in FIELDS[:-1]
        if getattr(other, name) != getattr(shape, name)
    }
    follows = other.width == replace(other, mlp_width=None).width and shape.mlp_width is None
    if other.width != shape.width and not follows:
        found["mlp_width"] = other.width
    return found
