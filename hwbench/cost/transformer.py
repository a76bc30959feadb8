"""`TransformerShape` and `Gemm`: the matrix products of one step of a transformer, each by name.

The decomposition is that of "The Case for Co-Designing Model Architectures with Hardware"
(arXiv 2401.14489), for one device of a tensor-parallel group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal, get_args

from hwbench.cost.closed_form import DTYPE_BYTES
from hwbench.errors import InvalidValue, invalid

Mlp = Literal["gelu", "swiglu"]
Attention = Literal["flash", "plain"]
StepPhase = Literal["train", "forward", "decode"]
ProductDtype = Literal["float16", "bfloat16", "float32"]

_WORDS = {
    "mlp": get_args(Mlp),
    "attention": get_args(Attention),
    "phase": get_args(StepPhase),
    "dtype": get_args(ProductDtype),
}
LARGEST = 2**31 - 1
"""The largest size of a shape."""

# Roles in which the scores are what the product makes, not what it takes.
_SCORES_MADE = (
    ("scores", "forward"),
    ("scores", "recomputed"),
    ("attention over values", "score gradient"),
)


@dataclass(frozen=True, slots=True)
class Gemm:
    """A matrix product C (m x n) = A (m x k) B (k x n), as often as a step runs it.

    Attributes:
        name: Its name in the block: QKV, scores, attention over values, projection, MLP up,
            MLP down, logits.
        role: "forward", or which gradient it is.
        m: Rows of C: tokens, in a forward.
        n: Columns of C.
        k: The length of the sums.
        batch: Products of this size in one kernel.
        count: Kernels of this kind in a step.
        fused: Whether it is one of the products inside a fused attention kernel, whose scores
            never reach the device memory.
    """

    name: str
    role: str
    m: int
    n: int
    k: int
    batch: int = 1
    count: int = 1
    fused: bool = False

    @property
    def flops(self) -> int:
        """FLOPs of one kernel, 2 a multiply-accumulate.

        >>> Gemm("MLP up", "forward", m=8192, n=6400, k=1600).flops
        167772160000
        """
        return 2 * self.m * self.n * self.k * self.batch

    @property
    def total_flops(self) -> int:
        """FLOPs of all kernels of this kind in a step."""
        return self.flops * self.count

    @property
    def elements(self) -> int:
        """Numbers that one kernel must move between the chip and its memory."""
        whole = self.m * self.k + self.k * self.n + self.m * self.n
        if self.fused:
            made = (self.name, self.role) in _SCORES_MADE
            whole -= self.m * (self.n if made else self.k)
        return whole * self.batch

    def bytes(self, dtype: str) -> int:
        """Bytes that one kernel must move where all operands are of that type."""
        return self.elements * DTYPE_BYTES[dtype]

    def intensity(self, dtype: str) -> float:
        """Arithmetic intensity: FLOPs a byte moved."""
        return self.flops / self.bytes(dtype)

    @property
    def strides(self) -> tuple[int, int]:
        """The lengths of the rows in memory, whose alignment decides how fast they load.

        A weight's gradient sums over tokens, so its rows are those of its two other dimensions.
        """
        return (self.m, self.n) if self.role == "weight gradient" else (self.n, self.k)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerShape:
    """The shape of a decoder-only transformer, and of the step that it is run for.

    Attributes:
        hidden: Width of the residual stream.
        heads: Query heads.
        layers: Blocks.
        vocab: Rows of the embedding.
        seq: Tokens a sequence; in the decode phase, tokens in the cache.
        microbatch: Sequences a step on one device.
        kv_heads: Key and value heads; None for as many as `heads`.
        head_size: Width of a head; None for hidden / heads.
        mlp: "gelu" (two matrices) or "swiglu" (three).
        mlp_width: The MLP's inner width; None for 4 x hidden, or 8/3 x hidden rounded down in
            "swiglu".
        attention: "flash" (one fused kernel) or "plain" (products with scores in memory).
        tensor_parallel: Devices that share every layer.
        pipeline: Stages that share the layers.
        phase: "train" (one step, backward included), "forward" (prefill) or "decode" (one token).
        parallel_layers: Whether attention and MLP read the same norm.
        dtype: Type of the products.
        tied: Whether the head shares the embedding's matrix.

    Raises:
        InvalidValue: A size is no int >= 1, a word is none of its choices, `heads` does not divide
            `hidden` (where no head size is given), `kv_heads` does not divide `heads`, or
            `tensor_parallel` divides not both of them.
    """

    hidden: int
    heads: int
    layers: int
    vocab: int
    seq: int
    microbatch: int
    kv_heads: int | None = None
    head_size: int | None = None
    mlp: Mlp = "gelu"
    mlp_width: int | None = None
    attention: Attention = "flash"
    tensor_parallel: int = 1
    pipeline: int = 1
    phase: StepPhase = "train"
    parallel_layers: bool = False
    dtype: ProductDtype = "bfloat16"
    tied: bool = False

    def __post_init__(self) -> None:
        """Check every field, and which must divide which."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _WORDS:
                if not isinstance(value, str) or value not in _WORDS[field.name]:
                    allowed = f"one of {', '.join(_WORDS[field.name])}"
                    raise invalid(field.name, "TransformerShape", allowed, value)
            elif field.name in ("parallel_layers", "tied"):
                if type(value) is not bool:
                    raise invalid(field.name, "TransformerShape", "True or False", value)
            elif value is None and field.default is None:
                continue
            elif type(value) is not int or not 1 <= value <= LARGEST:
                raise invalid(field.name, "TransformerShape", "an int from 1 to 2^31 - 1", value)
        if self.head_size is None and self.hidden % self.heads:
            raise invalid(
                "heads", "TransformerShape", f"a divisor of hidden={self.hidden}", self.heads
            )
        if self.heads % self.kv:
            raise invalid(
                "kv_heads", "TransformerShape", f"a divisor of heads={self.heads}", self.kv
            )
        for name in ("heads", "kv"):
            if getattr(self, name) % self.tensor_parallel:
                label = "kv_heads" if name == "kv" else name
                raise invalid(
                    "tensor_parallel",
                    "TransformerShape",
                    f"a divisor of {label}={getattr(self, name)}",
                    self.tensor_parallel,
                )
        if self.mlp_width is not None and self.mlp_width % self.tensor_parallel:
            raise InvalidValue(
                f"The 'tensor_parallel' parameter of TransformerShape must be a divisor of "
                f"mlp_width={self.mlp_width}. Got {self.tensor_parallel} instead."
            )

    @property
    def kv(self) -> int:
        """Key and value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads if self.head_size is None else self.head_size

    @property
    def width(self) -> int:
        """The MLP's inner width.

        >>> TransformerShape(
        ...     hidden=4096, heads=32, layers=1, vocab=1, seq=1, microbatch=1, mlp="swiglu"
        ... ).width
        10922
        """
        if self.mlp_width is not None:
            return self.mlp_width
        return 4 * self.hidden if self.mlp == "gelu" else 8 * self.hidden // 3

    @property
    def tokens(self) -> int:
        """Tokens a step on one device."""
        return self.microbatch * (1 if self.phase == "decode" else self.seq)

    @property
    def layer_parameters(self) -> int:
        """Weights of one layer's products, on all devices together, and its norms."""
        attention = self.hidden * self.head * (2 * self.heads + 2 * self.kv)
        matrices = 2 if self.mlp == "gelu" else 3
        return attention + matrices * self.hidden * self.width + 2 * self.hidden

    @property
    def parameters(self) -> int:
        """Weights of all products, norms and embeddings; biases and positions are left out.

        >>> TransformerShape(
        ...     hidden=2560, heads=32, layers=32, vocab=50257, seq=2048, microbatch=4, tied=True
        ... ).parameters
        2645406720
        """
        rows = self.vocab * (1 if self.tied else 2)
        return self.layers * self.layer_parameters + (rows + 1) * self.hidden


def gemms(shape: TransformerShape) -> tuple[Gemm, ...]:
    """All matrix products of one step on one device, the logits last.

    Args:
        shape: The model and the step.

    Returns:
        One entry a kind; in the train phase a product's gradients follow it.

    >>> tiny = TransformerShape(
    ...     hidden=64, heads=2, layers=3, vocab=100, seq=8, microbatch=2, phase="forward"
    ... )
    >>> [(g.name, g.m, g.n, g.k, g.batch, g.count) for g in gemms(tiny)][:2]
    [('QKV', 16, 192, 64, 1, 3), ('scores', 8, 8, 32, 4, 3)]
    """
    return (*layer_gemms(shape), *logits_gemms(shape))


def layer_gemms(shape: TransformerShape) -> tuple[Gemm, ...]:
    """The products of the layers, all of one shape."""
    return tuple(_layers(shape))


def logits_gemms(shape: TransformerShape) -> tuple[Gemm, ...]:
    """The products of the head over the vocabulary, of which each device holds its share."""
    share = -(-shape.vocab // shape.tensor_parallel)
    return tuple(_linear(shape, "logits", share, shape.hidden, 1))


def _layers(shape: TransformerShape) -> Iterator[Gemm]:
    t, h, width = shape.tensor_parallel, shape.hidden, -(-shape.width // shape.tensor_parallel)
    every, up = shape.layers, shape.layers * (1 if shape.mlp == "gelu" else 2)
    yield from _linear(shape, "QKV", (shape.heads + 2 * shape.kv) * shape.head // t, h, every)
    yield from _attention(shape)
    yield from _linear(shape, "projection", h, shape.heads * shape.head // t, every)
    yield from _linear(shape, "MLP up", width, h, up)
    yield from _linear(shape, "MLP down", h, width, every)


def _linear(shape: TransformerShape, name: str, n: int, k: int, count: int) -> Iterator[Gemm]:
    """A product with a weight of n x k, and its two gradients in training."""
    m = shape.tokens
    yield Gemm(name, "forward", m, n, k, count=count)
    if shape.phase == "train":
        yield Gemm(name, "input gradient", m, k, n, count=count)
        yield Gemm(name, "weight gradient", n, k, m, count=count)


def _attention(shape: TransformerShape) -> Iterator[Gemm]:
    """The products of queries with keys and of weights with values.

    Decoding, the queries that share a key head are the rows of one product. The backward of a
    fused kernel computes the scores once more (FlashAttention, arXiv 2205.14135, section 3.1).
    """
    s, d, fused = shape.seq, shape.head, shape.attention == "flash"
    groups = shape.kv if shape.phase == "decode" else shape.heads
    batch = shape.microbatch * groups // shape.tensor_parallel
    q = shape.heads // shape.kv if shape.phase == "decode" else s

    def product(name: str, role: str, m: int, n: int, k: int) -> Gemm:
        return Gemm(name, role, m, n, k, batch, shape.layers, fused)

    yield product("scores", "forward", q, s, d)
    if shape.phase == "train":
        if fused:
            yield product("scores", "recomputed", s, s, d)
        yield product("scores", "query gradient", s, d, s)
        yield product("scores", "key gradient", s, d, s)
    yield product("attention over values", "forward", q, d, s)
    if shape.phase == "train":
        yield product("attention over values", "score gradient", s, s, d)
        yield product("attention over values", "value gradient", s, d, s)
