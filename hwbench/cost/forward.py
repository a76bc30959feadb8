"""The predicted forward of an architecture of our spaces, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace
from hwbench.cost.blocks import BlockConfig, block_config
from hwbench.cost.closed_form import DTYPE_BYTES
from hwbench.cost.gpu import estimate
from hwbench.cost.kernels import EagerLayer, Kernel
from hwbench.cost.transformer import Gemm, TransformerShape, layer_gemms, logits_gemms
from hwbench.devices import Hardware
from hwbench.errors import invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How an architecture is run, as far as the model of the hardware is concerned.

    Attributes:
        block: "hwgpt" or "gpt2".
        batch_size: Sequences of a forward.
        seq_len: Tokens a sequence.
        dtype: Type of the products: float16, bfloat16 or float32.
        autocast: Whether weights are float32 and cast in every forward.
        quantised: False leaves tile, wave and alignment effects out.
        others: False leaves all kernels out that are no products.
    """

    block: str = "hwgpt"
    batch_size: int
    seq_len: int = 1024
    dtype: str = "bfloat16"
    autocast: bool = True
    quantised: bool = True
    others: bool = True


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Predicted time of one layer's parts, in microseconds.

    Attributes:
        attention_us: What depends on the heads.
        mlp_us: What depends on the MLP ratio.
        stream_us: What every layer has.
    """

    attention_us: float
    mlp_us: float
    stream_us: float

    @property
    def total_us(self) -> float:
        """Time of the layer."""
        return self.attention_us + self.mlp_us + self.stream_us


_ATTENTION = ("QKV", "scores", "attention over values", "projection")


def layer_shape(
    space: SearchSpace, embed_dim: int, heads: int, ratio: int, setting: Setting
) -> TransformerShape:
    """One layer of a space as a transformer's shape.

    A gated MLP counts as "swiglu", whatever its activation.
    """
    config = block_config(setting.block)
    return TransformerShape(
        hidden=embed_dim,
        heads=heads,
        head_size=space.head_size,
        layers=1,
        vocab=config.vocabulary,
        seq=setting.seq_len,
        microbatch=setting.batch_size,
        mlp="swiglu" if config.mlp_up == 2 else "gelu",
        mlp_width=ratio * embed_dim,
        phase="forward",
        dtype=setting.dtype,  # type: ignore[arg-type]
        tied=config.tied,
    )


def architecture_gemms(arch: Architecture, setting: Setting) -> tuple[Gemm, ...]:
    """The products of one forward, those of equal layers together, the logits last.

    Args:
        arch: The architecture.
        setting: How it is run.

    Returns:
        The products; their FLOPs sum to `count(arch, ...).total_flops`.

    >>> from hwbench.architectures import space
    >>> from hwbench.cost.closed_form import count
    >>> a = space("s").largest
    >>> products = architecture_gemms(a, Setting(batch_size=8))
    >>> sum(g.total_flops for g in products) == count(a).total_flops
    True
    """
    kinds: dict[tuple[int, int], int] = {}
    for kind in zip(arch.n_head, arch.mlp_ratio, strict=True):
        kinds[kind] = kinds.get(kind, 0) + 1
    found: dict[Gemm, int] = {}
    shape = None
    for (heads, ratio), layers in kinds.items():
        shape = layer_shape(arch.search_space, arch.embed_dim, heads, ratio, setting)
        for gemm in layer_gemms(shape):
            found[gemm] = found.get(gemm, 0) + layers
    if shape is None:
        raise invalid("arch", "architecture_gemms", "an architecture with layers", arch)
    return (
        *(replace(gemm, count=gemm.count * layers) for gemm, layers in found.items()),
        *logits_gemms(shape),
    )


def layer_time(
    space: SearchSpace,
    embed_dim: int,
    heads: int,
    ratio: int,
    hardware: Hardware,
    setting: Setting,
    bias: bool = True,
) -> LayerTime:
    """The predicted time of one layer, by what it depends on.

    Args:
        space: The space, for the size of a head.
        embed_dim: Width of the residual stream.
        heads: The layer's heads.
        ratio: The layer's MLP ratio.
        hardware: The device's figures.
        setting: How it is run.
        bias: Whether linear layers have biases.
    """
    shape = layer_shape(space, embed_dim, heads, ratio, setting)
    attention = mlp = 0.0
    for gemm in layer_gemms(shape):
        time_us = estimate(gemm, hardware, setting.dtype, setting.quantised).total_us
        if gemm.name in _ATTENTION:
            attention += time_us
        else:
            mlp += time_us
    if not setting.others:
        return LayerTime(attention, mlp, 0.0)
    layer = _eager(block_config(setting.block), shape, setting, bias)
    return LayerTime(
        attention + _sum(layer.attention(), hardware),
        mlp + _sum(layer.mlp(), hardware),
        _sum(layer.stream(), hardware),
    )


def head_us(space: SearchSpace, embed_dim: int, hardware: Hardware, setting: Setting) -> float:
    """The predicted time of what is there once: embedding, last norm, logits."""
    shape = layer_shape(space, embed_dim, 1, 1, setting)
    products = sum(
        estimate(g, hardware, setting.dtype, setting.quantised).total_us
        for g in logits_gemms(shape)
    )
    return products + (_sum(_ends(shape, setting), hardware) if setting.others else 0.0)


def forward_ms(
    table: ArchitectureTable, hardware: Hardware, setting: Setting
) -> NDArray[np.float64]:
    """The predicted time of one forward: all kernels, one after the other.

    Args:
        table: The architectures.
        hardware: The device's figures.
        setting: How they are run.

    Returns:
        Milliseconds, shape (n,).

    >>> from hwbench.architectures import space
    >>> from hwbench.devices import hardware
    >>> table = ArchitectureTable.of([space("s").smallest, space("s").largest])
    >>> times = forward_ms(table, hardware("a100"), Setting(batch_size=8))
    >>> bool(times[1] > 3 * times[0])
    True
    """
    space = table.search_space
    result = np.zeros(len(table))
    for embed_dim in np.unique(table.embed_dim).tolist():
        for bias in (False, True):
            rows = (table.embed_dim == embed_dim) & (table.bias == bias)
            if rows.any():
                result[rows] = _rows_us(table.take(rows), space, embed_dim, bias, hardware, setting)
    return result / 1e3


def _rows_us(
    table: ArchitectureTable,
    space: SearchSpace,
    embed_dim: int,
    bias: bool,
    hardware: Hardware,
    setting: Setting,
) -> NDArray[np.float64]:
    """Times of architectures of one width: a sum over layers, as attention and MLP do not mix."""

    def time(heads: int, ratio: int) -> LayerTime:
        return layer_time(space, embed_dim, heads, ratio, hardware, setting, bias)

    first = time(space.n_head[0], space.mlp_ratio[0])
    total = head_us(space, embed_dim, hardware, setting) + first.stream_us * table.n_layer
    for heads in space.n_head:
        total = total + time(heads, space.mlp_ratio[0]).attention_us * (table.n_head == heads).sum(
            1
        )
    for ratio in space.mlp_ratio:
        total = total + time(space.n_head[0], ratio).mlp_us * (table.mlp_ratio == ratio).sum(1)
    return np.asarray(total, np.float64)


def _eager(
    config: BlockConfig, shape: TransformerShape, setting: Setting, bias: bool
) -> EagerLayer:
    return EagerLayer(
        tokens=shape.tokens,
        embed_dim=shape.hidden,
        attention_width=shape.heads * shape.head,
        mlp_width=shape.width,
        gated=shape.mlp == "swiglu",
        rotary=config.positions == 0,
        bias=bias,
        size=DTYPE_BYTES[setting.dtype],
        autocast=setting.autocast,
    )


def _ends(shape: TransformerShape, setting: Setting) -> Iterator[Kernel]:
    numbers, size = shape.tokens * shape.hidden, DTYPE_BYTES[setting.dtype]
    wide = 4 if setting.autocast else size
    yield Kernel("embedding", 2 * wide * numbers)
    yield Kernel("norm", 2 * wide * numbers)
    if setting.autocast:
        yield Kernel("cast of activations", (wide + size) * numbers)
        yield Kernel("cast of the head", (wide + size) * shape.vocab * shape.hidden)


def _sum(kernels: Iterable[Kernel], hardware: Hardware) -> float:
    return sum(kernel.total_us(hardware) for kernel in kernels)
