"""The predicted step: sums, throughput, and measured times in place of predicted ones."""

from __future__ import annotations

import dataclasses

import pytest

from hwbench.cost.step import memory_gb, step
from hwbench.cost.transformer import Gemm, TransformerShape
from hwbench.devices import hardware

GPT3 = TransformerShape(hidden=2560, heads=32, layers=32, vocab=50257, seq=2048, microbatch=4)


def test_a_step_is_its_products_and_its_other_kernels() -> None:
    made = step(GPT3, hardware("a100"))
    assert made.time_us == pytest.approx(made.products_us + made.others_us)
    assert made.tokens_per_s == pytest.approx(4 * 2048 / made.time_us * 1e6)
    assert made.measured_share == 0
    ideal = made.time_us * made.efficiency
    assert sum(r.wasted_us for r in made.rows) == pytest.approx(made.products_us - ideal)


def test_measured_times_go_first() -> None:
    def measured(gemm: Gemm) -> float | None:
        return 1234.5 if gemm.name == "logits" else None

    predicted, mixed = step(GPT3, hardware("a100")), step(GPT3, hardware("a100"), measured)
    assert [r.time_us for r in mixed.rows if r.gemm.name == "logits"] == [1234.5] * 3
    assert 0 < mixed.measured_share < 1
    for a, b in zip(predicted.rows, mixed.rows, strict=True):
        assert a.estimate == b.estimate
        assert b.measured_us == measured(b.gemm)


def test_tensor_parallelism_shares_memory_and_adds_throughput() -> None:
    half = dataclasses.replace(GPT3, tensor_parallel=2)
    assert memory_gb(half) == pytest.approx(memory_gb(GPT3) / 2)
    assert memory_gb(dataclasses.replace(GPT3, pipeline=4)) == pytest.approx(memory_gb(GPT3) / 4)
    one, two = (step(s, hardware("a100")).tokens_per_s for s in (GPT3, half))
    assert one < two < 2 * one


def test_inference_holds_the_weights_alone() -> None:
    forward = dataclasses.replace(GPT3, phase="forward")
    assert memory_gb(forward) == pytest.approx(2 * GPT3.parameters / 1e9)
    wide = dataclasses.replace(forward, dtype="float32")
    assert memory_gb(wide) == pytest.approx(4 * GPT3.parameters / 1e9)


def test_parallel_layers_are_faster() -> None:
    parallel = dataclasses.replace(GPT3, parallel_layers=True)
    assert step(parallel, hardware("a100")).time_us < step(GPT3, hardware("a100")).time_us
