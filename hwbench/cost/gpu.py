"""The model of the hardware: how long one matrix product takes on a GPU, and what it loses where.

A product is cut into tiles, one thread block each; the multiprocessors work through them in waves.
Four effects make it slower than the peak allows, next to the memory's bandwidth:

    alignment   rows whose length in bytes is no multiple of what the loads are wide
    tile        the last tiles stick out of the matrix, and each block fills and drains a pipeline
    wave        the last wave leaves multiprocessors idle: waves = ceil(blocks / multiprocessors)
    rate        a small tile reuses less of what it loads, and no library reaches the peak

The library chooses among its usual tiles, and here the fastest is taken. The terms are those of
NVIDIA's "Matrix Multiplication Background User's Guide" (DU-09799) and of arXiv 2401.14489. The
constants are the same for every device; docs/advise.md says where each is from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from hwbench.cost.closed_form import DTYPE_BYTES
from hwbench.cost.transformer import Gemm
from hwbench.devices import Hardware
from hwbench.errors import unknown

TILES = (
    *((256, 128), (128, 256), (128, 128), (256, 64), (64, 256)),
    *((128, 64), (64, 128), (64, 64), (128, 32), (32, 128)),
)
"""The usual tiles of cuBLAS and CUTLASS, rows x columns of the result, the largest first."""

SUSTAINED = 0.85
"""Share of the peak that large products sustain, clocks under load included."""

TILE_REUSE = 0.1
"""A tile of m x n does m n / (m + n) FLOPs a byte of 16-bit operands; it reaches half the sustained
rate where that is this share of the device's peak FLOPs a byte of memory bandwidth (the second
level cache is some ten times as fast as the memory)."""

PIPELINE_DEPTH = 64
"""Steps of k that a block spends on filling its pipeline and writing its tile."""

BANDWIDTH_SHARE = 0.8
"""Share of the peak bandwidth that kernels over contiguous memory reach."""

KERNEL_US = 3.0
"""What a kernel takes on the device beside its work, in microseconds, under a profiler."""

FUSED_SHARE = 0.3
"""Share of the peak that fused attention reaches with heads of 64, causal halves skipped."""

SPLITS = (1, 2, 4, 8, 16)
"""Into how many parts k may be cut where a result has too few tiles to fill the device."""

_STEP_OF_K = 32
_HEAD = 64
# Widest load that rows allow, in bytes, and the share of the rate that it leaves. The 4-byte share
# is 272.7 / 398.4, two widths of one SwiGLU on an H100 in arXiv 2401.14489.
_ALIGNED = ((16, 1.0), (8, 0.85), (4, 0.684), (2, 0.45), (1, 0.45))
# From these generations on, rows should be multiples of 128 bytes to be at their best.
_WIDE = ("ampere", "hopper")
_NARROW_SHARE = 0.97


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the model of the hardware says of one product.

    The `lost` parts and `ideal_us` sum to `time_us`.

    Attributes:
        gemm: The product.
        time_us: Time of one kernel, in microseconds.
        ideal_us: Its FLOPs at the device's peak.
        bound: What decides: "compute", "memory" or "launch".
        tile: Rows and columns of the fastest tile; None for fused attention.
        split: Into how many parts k is cut.
        blocks: Thread blocks; 0 for fused attention.
        waves: ceil(blocks / multiprocessors).
        lost_us: Microseconds lost to each effect: rate, tile, wave, alignment, memory, launch.
    """

    gemm: Gemm
    time_us: float
    ideal_us: float
    bound: str
    tile: tuple[int, int] | None
    split: int
    blocks: int
    waves: int
    lost_us: Mapping[str, float]

    @property
    def total_us(self) -> float:
        """Time of all kernels of this kind in a step."""
        return self.time_us * self.gemm.count

    @property
    def efficiency(self) -> float:
        """Share of the device's peak that is reached."""
        return self.ideal_us / self.time_us

    @property
    def tflops(self) -> float:
        """FLOPs a second, in 1e12."""
        return self.gemm.flops / self.time_us / 1e6

    @property
    def largest_loss(self) -> str:
        """The effect that costs most."""
        return max(self.lost_us, key=lambda effect: self.lost_us[effect])


def blocks_of(m: int, n: int, tile: tuple[int, int], batch: int = 1) -> int:
    """Thread blocks of a product: tiles that cover its result.

    GPT-2 XL's MLP up-projection over 8,192 tokens with tiles of 256 x 128:

    >>> blocks_of(8192, 6400, (256, 128))
    1600
    """
    return -(-m // tile[0]) * -(-n // tile[1]) * batch


def waves_of(blocks: int, multiprocessors: int) -> int:
    """Waves in which the multiprocessors work through the blocks.

    >>> waves_of(108, 108), waves_of(109, 108)
    (1, 2)
    """
    return -(-blocks // multiprocessors)


def wave_efficiency(blocks: int, multiprocessors: int) -> float:
    """Share of the waves' places that blocks fill.

    >>> round(wave_efficiency(1600, 108), 3), round(wave_efficiency(1600, 132), 3)
    (0.988, 0.932)
    """
    return blocks / (waves_of(blocks, multiprocessors) * multiprocessors)


def alignment_share(length: int, dtype: str, hardware: Hardware) -> float:
    """Share of the rate that rows of this length leave.

    >>> from hwbench.devices import hardware
    >>> [alignment_share(n, "bfloat16", hardware("h100")) for n in (10922, 10928, 11008)]
    [0.684, 0.97, 1.0]
    """
    width = length * DTYPE_BYTES[dtype]
    share = next(share for bytes_, share in _ALIGNED if width % bytes_ == 0)
    wide = width % 128 == 0 or hardware.generation not in _WIDE
    return share if wide or share < 1 else _NARROW_SHARE


def peak_flops(hardware: Hardware, dtype: str) -> float:
    """The device's peak for products of that type, in FLOP/s.

    Raises:
        UnknownName: Products of that type are not modelled.
    """
    known = {
        "float16": hardware.half_tflops,
        "bfloat16": hardware.half_tflops,
        "float32": hardware.float32_tflops,
    }
    if dtype not in known:
        raise unknown("dtype of products", dtype, known)
    return known[dtype] * 1e12


@lru_cache(maxsize=2**16)
def estimate(
    gemm: Gemm, hardware: Hardware, dtype: str = "bfloat16", quantised: bool = True
) -> Estimate:
    """How long a product takes, and what it loses where.

    Args:
        gemm: The product.
        hardware: The device's figures.
        dtype: Type of the operands.
        quantised: False leaves tile, wave and alignment effects out.

    Returns:
        The estimate, of one kernel.

    Raises:
        UnknownName: Products of that type are not modelled.

    >>> from hwbench.devices import hardware
    >>> up = Gemm("MLP up", "forward", m=8192, n=6400, k=1600)
    >>> made = estimate(up, hardware("a100"))
    >>> made.waves, made.blocks, made.tile, made.bound
    (15, 1600, (256, 128), 'compute')
    """
    peak = peak_flops(hardware, dtype)
    memory_us = gemm.bytes(dtype) / (hardware.bandwidth_gb_s * 1e9 * BANDWIDTH_SHARE) * 1e6
    ideal_us = gemm.flops / peak * 1e6
    if gemm.fused:
        work, tile, split, lost = _fused(gemm, ideal_us)
    elif quantised:
        work, tile, split, lost = _fastest(gemm, hardware, dtype, ideal_us)
    else:
        rate_us = ideal_us / (SUSTAINED * _reuse((256, 128), hardware, dtype))
        work, tile, split, lost = rate_us, (256, 128), 1, {"rate": rate_us - ideal_us}
    blocks = 0 if gemm.fused else blocks_of(gemm.m, gemm.n, tile, gemm.batch) * split
    lost["memory"] = max(0.0, memory_us - work)
    lost["launch"] = KERNEL_US
    slowest = max((work, "compute"), (memory_us, "memory"), (KERNEL_US, "launch"))
    return Estimate(
        gemm,
        max(work, memory_us) + KERNEL_US,
        ideal_us,
        slowest[1],
        None if gemm.fused else tile,
        split,
        blocks,
        waves_of(blocks, hardware.multiprocessors),
        MappingProxyType(lost),
    )


def _reuse(tile: tuple[int, int], hardware: Hardware, dtype: str) -> float:
    """Share of the sustained rate that a tile's reuse of what it loads allows."""
    flops_a_byte = 2 * tile[0] * tile[1] / (tile[0] + tile[1]) / DTYPE_BYTES[dtype]
    balance = peak_flops(hardware, dtype) / (hardware.bandwidth_gb_s * 1e9)
    return flops_a_byte / (flops_a_byte + TILE_REUSE * balance)


_Work = tuple[float, tuple[int, int], int, dict[str, float]]


class _Choice(NamedTuple):
    """One way to cut a product, and its time before alignment, in microseconds."""

    time_us: float
    tile: tuple[int, int]
    split: int
    even_us: float  # had every multiprocessor as many blocks
    sums_us: float  # writing and reading partial sums


def _fastest(gemm: Gemm, hardware: Hardware, dtype: str, ideal_us: float) -> _Work:
    """The fastest way to cut a product, its time in microseconds and what each effect adds."""
    best = min(_choices(gemm, hardware, dtype), key=lambda c: c.time_us)
    share = min(alignment_share(length, dtype, hardware) for length in gemm.strides)
    rate_us = ideal_us / (SUSTAINED * _reuse(best.tile, hardware, dtype))
    lost = {
        "rate": rate_us - ideal_us,
        "tile": best.even_us + best.sums_us - rate_us,
        "wave": best.time_us - best.sums_us - best.even_us,
        "alignment": best.time_us / share - best.time_us,
    }
    return best.time_us / share, best.tile, best.split, lost


def _choices(gemm: Gemm, hardware: Hardware, dtype: str) -> Iterator[_Choice]:
    places = hardware.multiprocessors
    bandwidth = hardware.bandwidth_gb_s * BANDWIDTH_SHARE * 1e3  # bytes a microsecond
    for tile, step_us in _steps_us(hardware, dtype):
        tiles = blocks_of(gemm.m, gemm.n, tile, gemm.batch)
        for split in SPLITS if tiles < places else (1,):
            depth = -(-gemm.k // (split * _STEP_OF_K)) * _STEP_OF_K + PIPELINE_DEPTH
            block_us, blocks = step_us * depth, tiles * split
            # Partial sums are written and read once each, in float32.
            sums_us = 0.0 if split == 1 else 8 * split * gemm.m * gemm.n * gemm.batch / bandwidth
            time_us = waves_of(blocks, places) * block_us + sums_us
            yield _Choice(time_us, tile, split, blocks / places * block_us, sums_us)


def _steps_us(hardware: Hardware, dtype: str) -> list[tuple[tuple[int, int], float]]:
    """Each tile with the time of one block for one step of k, in microseconds."""
    rate = peak_flops(hardware, dtype) * SUSTAINED / hardware.multiprocessors / 1e6
    return [(tile, 2 * tile[0] * tile[1] / rate / _reuse(tile, hardware, dtype)) for tile in TILES]


def _fused(gemm: Gemm, ideal_us: float) -> _Work:
    """One product's part of a fused attention kernel.

    Such kernels are built for heads of multiples of 32; with a longer head more of the work is
    products and less of it exponentials (FlashAttention-2, arXiv 2307.08691, section 3.1). Blocks
    above the diagonal are skipped.
    """
    head = min(gemm.n, gemm.k)
    padded = -(-head // 32) * 32
    causal = 0.5 if gemm.m == max(gemm.n, gemm.k) else 1.0
    share = FUSED_SHARE * (padded / (padded + _HEAD / 4)) / (_HEAD / (_HEAD + _HEAD / 4))
    rate_us = ideal_us * causal / share
    work = rate_us * padded / head
    return work, (0, 0), 1, {"rate": rate_us - ideal_us, "tile": work - rate_us}
