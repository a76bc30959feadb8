"""Measuring products on this CPU: every kind once, on tiny sizes, and what is refused."""

from __future__ import annotations

import math

import pytest

from hwbench.cost.transformer import Gemm, TransformerShape, gemms
from hwbench.devices import catalogue
from hwbench.errors import InvalidValue
from hwbench.measure.gemm import figures_of, measure, new_record

SHAPE = TransformerShape(
    hidden=32, heads=4, layers=2, vocab=50, seq=16, microbatch=2, dtype="float32"
)

pytest.importorskip("torch")


@pytest.mark.parametrize("attention", ["flash", "plain"])
def test_every_product_of_a_step_is_measured(attention: str) -> None:
    from dataclasses import replace

    shape = replace(SHAPE, attention=attention)  # type: ignore[arg-type]
    record = new_record("cpu", "float32")
    wanted = record.missing(gemms(shape))
    record = record.with_measured(measure(wanted, "cpu", "float32", repeats=3))
    assert [m.gemm for m in record.measured] == wanted
    assert record.missing(gemms(shape)) == []
    for one in record.measured:
        assert len(one.times_us) == 3
        assert all(math.isfinite(t) and t > 0 for t in one.times_us)
        assert record.time_us(one.gemm) == one.median_us


def test_a_larger_product_takes_longer() -> None:
    sizes = [Gemm("product", "forward", n, n, n) for n in (16, 512)]
    small, large = measure(sizes, "cpu", "float32", repeats=5)
    assert large.median_us > 5 * small.median_us


def test_a_record_says_what_ran() -> None:
    import torch

    record = new_record("cpu", "bfloat16")
    assert (record.device, record.dtype, record.measured) == ("cpu", "bfloat16", ())
    assert record.versions["torch"] == torch.__version__
    assert "threads" in record.method


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "", "cuda:-1", None, 0, "cpu:0"])
def test_a_device_that_is_none_is_refused(device: object) -> None:
    with pytest.raises(InvalidValue, match="'device' parameter of gemm must be cpu, cuda or"):
        new_record(device, "float32")  # type: ignore[arg-type]


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"cpu or one of \d+ CUDA devices. Got 'cuda:99'"):
        new_record("cuda:99", "float32")


@pytest.mark.parametrize("repeats", [0, -1, 1.5, True])
def test_repeats_are_checked(repeats: object) -> None:
    with pytest.raises(InvalidValue, match=r"'repeats' .* an int >= 1"):
        list(measure([], "cpu", "float32", repeats))  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [2**22, 2**31 - 1])
def test_a_product_that_does_not_fit_is_named(size: int) -> None:
    huge = Gemm("logits", "forward", size, size, size)
    with pytest.raises(InvalidValue, match=r"The product logits .* does not fit in memory"):
        list(measure([huge], "cpu", "float32"))


def test_names_of_cards_lead_to_their_figures() -> None:
    named = {
        "NVIDIA A100-SXM4-40GB": "a100",
        "NVIDIA A40": "a40",
        "NVIDIA H100 80GB HBM3": "h100",
        "NVIDIA H200": "h200",
        "NVIDIA GeForce RTX 2080 Ti": "rtx2080",
        "NVIDIA GeForce RTX 3080": "rtx3080",
        "NVIDIA RTX A6000": "a6000",
        "Tesla V100-SXM2-16GB": "v100",
        "Tesla P100-SXM2-16GB": "p100",
    }
    assert {n: figures.name for n in named if (figures := figures_of(n))} == named
    assert set(named.values()) == {d.name for d in catalogue().values() if d.hardware}
    assert figures_of("NVIDIA A4000") is None
    assert figures_of("cpu") is None


@pytest.mark.gpu
def test_a_gpus_products_are_measured_and_near_the_model() -> None:
    from hwbench.cost.gpu import estimate

    record = new_record("cuda:0", "bfloat16")
    (one,) = measure([Gemm("product", "forward", 4096, 4096, 4096)], "cuda:0", "bfloat16")
    figures = figures_of(record.device)
    if figures is not None:
        assert 0.3 < estimate(one.gemm, figures).time_us / one.median_us < 3
