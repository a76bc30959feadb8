"""The model of the hardware: the paper's figures, bounds that hold for any product, limits."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwbench.cost.gpu import (
    KERNEL_US,
    TILES,
    alignment_share,
    blocks_of,
    estimate,
    wave_efficiency,
    waves_of,
)
from hwbench.cost.transformer import Gemm
from hwbench.devices import catalogue, hardware
from hwbench.errors import UnknownName

DEVICES = sorted(d.name for d in catalogue().values() if d.hardware is not None)
SIZE = st.integers(1, 20_000)


def product(m: int, n: int, k: int, batch: int = 1) -> Gemm:
    return Gemm("MLP up", "forward", m, n, k, batch)


def test_one_block_more_than_multiprocessors_is_a_second_wave() -> None:
    a100 = hardware("a100")
    assert waves_of(108, a100.multiprocessors) == 1
    assert waves_of(109, a100.multiprocessors) == 2
    assert wave_efficiency(109, 108) == 109 / 216


@pytest.mark.parametrize("device, waves, share", [("a100", 15, 98.8), ("h100", 13, 93.2)])
def test_gpt2_xls_up_projection(device: str, waves: int, share: float) -> None:
    """b x s = 8192 and tiles of 256 x 128: 1,600 blocks."""
    blocks = blocks_of(8192, 4 * 1600, (256, 128))
    places = hardware(device).multiprocessors
    assert blocks == 1600
    assert waves_of(blocks, places) == waves
    assert round(100 * wave_efficiency(blocks, places), 1) == share


@pytest.mark.parametrize("device", ["h100", "a100"])
def test_swiglu_of_10922_loses_to_its_aligned_neighbours(device: str) -> None:
    """Measured on an H100 at h 4096: 272.7 TFLOP/s at 10922, 398.4 at 10944, 395.0 at 11008."""

    def tflops(width: int) -> float:
        sizes = (product(8192, width, 4096), product(8192, width, 4096), product(8192, 4096, width))
        times = [estimate(g, hardware(device)) for g in sizes]
        return sum(g.flops for g in sizes) / sum(e.time_us for e in times) / 1e6

    assert tflops(11008) > tflops(10922)
    assert tflops(10944) > tflops(10922)
    assert tflops(10922) / tflops(10944) == pytest.approx(272.7 / 398.4, rel=0.05)
    assert tflops(11008) / tflops(10944) == pytest.approx(395.0 / 398.4, rel=0.05)


@given(SIZE, SIZE, SIZE, st.integers(1, 64), st.sampled_from(DEVICES), st.booleans())
def test_no_product_beats_the_peak_or_the_bandwidth(
    m: int, n: int, k: int, batch: int, device: str, quantised: bool
) -> None:
    figures, gemm = hardware(device), product(m, n, k, batch)
    for dtype in ("bfloat16", "float32"):
        made = estimate(gemm, figures, dtype, quantised)
        assert made.time_us >= made.ideal_us + KERNEL_US
        assert made.time_us >= gemm.bytes(dtype) / figures.bandwidth_gb_s / 1e3
        assert 0 < made.efficiency < 1
        assert made.ideal_us + sum(made.lost_us.values()) == pytest.approx(made.time_us)
        assert all(loss >= -1e-9 * made.time_us for loss in made.lost_us.values())
        assert made.waves == waves_of(made.blocks, figures.multiprocessors)
        assert made.tile in TILES


@given(SIZE, SIZE, SIZE, st.sampled_from(DEVICES))
def test_quantisation_only_costs(m: int, n: int, k: int, device: str) -> None:
    with_terms = estimate(product(m, n, k), hardware(device))
    without = estimate(product(m, n, k), hardware(device), quantised=False)
    assert with_terms.time_us >= without.time_us - 1e-9


@given(SIZE, SIZE, st.integers(1, 2000), st.sampled_from(DEVICES))
def test_a_longer_sum_takes_no_less(m: int, n: int, k: int, device: str) -> None:
    """Both lengths are aligned, or the longer one may be the faster."""
    short, long = (estimate(product(64 * m, 64 * n, 64 * i), hardware(device)) for i in (k, k + 1))
    assert long.time_us >= short.time_us * (1 - 1e-9)


def test_a_second_wave_of_one_block_costs_more_than_its_work() -> None:
    """109 tiles of 256 x 128 in place of 108, which smaller tiles can soften and not undo."""
    a100 = hardware("a100")
    full = estimate(product(256, 108 * 128, 8192), a100)
    over = estimate(product(256, 109 * 128, 8192), a100)
    assert (full.tile, full.waves, full.lost_us["wave"]) == ((256, 128), 1, 0)
    assert over.time_us > 1.1 * full.time_us


@pytest.mark.parametrize(
    "length, dtype, device, share",
    [
        (50257, "bfloat16", "a100", 0.45),
        (50254, "bfloat16", "a100", 0.684),
        (50252, "float16", "v100", 0.85),
        (50256, "float16", "v100", 1.0),
        (50256, "float16", "a100", 0.97),
        (50304, "bfloat16", "h100", 1.0),
        (50257, "float32", "a100", 0.684),
        (50256, "float32", "v100", 1.0),
    ],
)
def test_alignment_by_generation_and_type(
    length: int, dtype: str, device: str, share: float
) -> None:
    assert alignment_share(length, dtype, hardware(device)) == share


def test_decoding_is_bound_by_memory_and_a_tiny_product_by_its_launch() -> None:
    h100 = hardware("h100")
    assert estimate(product(4, 12288, 12288), h100).bound == "memory"
    assert estimate(product(8192, 12288, 12288), h100).bound == "compute"
    assert estimate(product(16, 16, 16), h100).bound == "launch"


def test_few_tiles_are_split_along_the_sum() -> None:
    made = estimate(product(256, 256, 65536), hardware("a100"))
    assert made.split > 1
    assert made.blocks > 16


def test_fused_attention_prefers_heads_of_full_width() -> None:
    """Heads of 80 run in a kernel for 96."""

    def us(head: int) -> float:
        gemm = Gemm("scores", "forward", 2048, 2048, head, 2560 // head * 4, fused=True)
        return estimate(gemm, hardware("a100")).time_us

    assert us(128) < us(64) < us(80)


def test_a_type_without_a_model_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"dtype of products 'int8'.*float16, bfloat16, float32"):
        estimate(product(64, 64, 64), hardware("a100"), "int8")


def test_estimates_are_frozen() -> None:
    made = estimate(product(64, 64, 64), hardware("a100"))
    with pytest.raises(TypeError):
        made.lost_us["wave"] = 0.0  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.time_us = 0.0  # type: ignore[misc]
