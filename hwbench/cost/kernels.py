"""The kernels of a step that are no matrix products: bound by memory, or by being launched at all.

Each takes `KERNEL_US` and its bytes at a share of the peak bandwidth. The lists follow PyTorch's
eager mode, one kernel an operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hwbench.cost.closed_form import DTYPE_BYTES
from hwbench.cost.gpu import BANDWIDTH_SHARE, KERNEL_US
from hwbench.cost.transformer import TransformerShape
from hwbench.devices import Hardware

STRIDED_SHARE = 0.3
"""Share of the peak bandwidth of kernels over slices of a few dozen bytes, as rotary embeddings
are: they load whole lines of memory for them, a number at a time."""

ROTARY_SHARE = 4
"""One in so many of a head's dimensions is rotated in the block "hwgpt"."""

BACKWARD = 2
"""Kernels of a backward, as multiples of the forward's."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that is no matrix product.

    Attributes:
        name: What it does.
        bytes: What it moves between the chip and its memory.
        count: How often a step runs it.
        strided: Whether its operands are slices of a few dozen bytes.
    """

    name: str
    bytes: int
    count: int = 1
    strided: bool = False

    def time_us(self, hardware: Hardware) -> float:
        """Time of one run, in microseconds."""
        share = STRIDED_SHARE if self.strided else BANDWIDTH_SHARE
        return KERNEL_US + self.bytes / (hardware.bandwidth_gb_s * 1e3 * share)

    def total_us(self, hardware: Hardware) -> float:
        """Time of all runs in a step, in microseconds."""
        return self.time_us(hardware) * self.count


def kernels(shape: TransformerShape) -> tuple[Kernel, ...]:
    """The kernels of one step on one device that are no products, weights held in one type.

    In the train phase each is run once forward and, in kind, twice backward; the optimiser is left
    out.
    """
    size, t = DTYPE_BYTES[shape.dtype], shape.tensor_parallel
    stream = shape.tokens * shape.hidden * size
    inner = shape.tokens * shape.width // t * size
    queries = 1 if shape.phase == "decode" else shape.seq
    scores = shape.microbatch * shape.heads // t * queries * shape.seq * size
    runs = shape.layers * (1 + BACKWARD if shape.phase == "train" else 1)
    once = runs // shape.layers
    norms = 1 if shape.parallel_layers else 2
    found = [
        Kernel("embedding", 2 * stream, once),
        Kernel("norm", 2 * stream, norms * runs + once),
        Kernel("residual", 3 * stream, 2 * runs),
        Kernel("activation", (2 if shape.mlp == "gelu" else 5) * inner, runs),
    ]
    if shape.attention == "plain":
        found.append(Kernel("mask and softmax", 2 * scores, 2 * runs))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerLayer:
    """A layer of the recorded block or of GPT-2's as PyTorch runs it, for its kernels.

    Attributes:
        tokens: Tokens of the forward.
        embed_dim: Width of the residual stream.
        attention_width: Heads x their size.
        mlp_width: The MLP's inner width.
        gated: Whether the MLP has three matrices.
        rotary: Whether queries and keys are rotated.
        bias: Whether linear layers have biases.
        size: Bytes of a number in the products.
        autocast: Whether float32 weights and activations are cast for each product.
    """

    tokens: int
    embed_dim: int
    attention_width: int
    mlp_width: int
    gated: bool
    rotary: bool
    bias: bool
    size: int
    autocast: bool

    def attention(self) -> Iterator[Kernel]:
        """What grows with the heads: casts of weights, rotations."""
        yield from self._casts("attention", 4 * self.embed_dim * self.attention_width, 2)
        if not self.rotary:
            return
        whole = self.tokens * self.attention_width
        turned = whole // ROTARY_SHARE
        half, full = self.size, 4 if self.autocast else self.size
        for bytes_ in (
            turned // 2 * 2 * half,  # the negated half
            turned * 2 * half,  # joined to the other half
            turned * (half + full),  # times the cosine, which is float32
            turned * (half + full),  # times the sine
            turned * 3 * full,  # their sum
            turned * (full + half),  # back to the type of the products
            whole * 2 * half,  # joined to what is not turned
        ):
            yield Kernel("rotation", bytes_, 2, strided=True)

    def mlp(self) -> Iterator[Kernel]:
        """What grows with the MLP ratio: casts of weights, the activation and the gate."""
        matrices = 3 if self.gated else 2
        weights = matrices * self.embed_dim * self.mlp_width
        yield from self._casts("MLP", weights, matrices)
        inner = self.tokens * self.mlp_width * self.size
        yield Kernel("activation", 2 * inner)
        if self.gated:
            yield Kernel("gate", 3 * inner)

    def stream(self) -> Iterator[Kernel]:
        """What every layer has: norms, residuals, casts of activations, the rotary table."""
        numbers = self.tokens * self.embed_dim
        wide = 4 if self.autocast else self.size
        yield Kernel("norm", 2 * wide * numbers, 2)
        if self.autocast:
            casts = 3 if self.gated else 2
            yield Kernel("cast of activations", (wide + self.size) * numbers, casts)
        yield Kernel("residual", (2 * self.size + self.size) * numbers)
        yield Kernel("residual", (self.size + 2 * wide) * numbers)
        if self.rotary:
            yield Kernel("rotary table", 0, 10)

    def _casts(self, what: str, weights: int, matrices: int) -> Iterator[Kernel]:
        if not self.autocast:
            return
        yield Kernel(f"cast of {what} weights", weights * (4 + self.size) // matrices, matrices)
        if self.bias:
            yield Kernel(f"cast of {what} biases", 0, matrices)
