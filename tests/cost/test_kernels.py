"""The kernels that are no products: bytes by hand, and what grows with what."""

from __future__ import annotations

import dataclasses

import pytest

from hwbench.cost.gpu import BANDWIDTH_SHARE, KERNEL_US
from hwbench.cost.kernels import STRIDED_SHARE, EagerLayer, Kernel, kernels
from hwbench.cost.transformer import TransformerShape
from hwbench.devices import hardware

SHAPE = TransformerShape(
    hidden=64, heads=4, layers=2, vocab=100, seq=16, microbatch=3, phase="forward"
)
LAYER = EagerLayer(
    tokens=100,
    embed_dim=64,
    attention_width=128,
    mlp_width=256,
    gated=True,
    rotary=True,
    bias=False,
    size=2,
    autocast=True,
)


def moved(found: tuple[Kernel, ...], name: str) -> int:
    return sum(k.bytes * k.count for k in found if k.name == name)


def test_a_kernel_takes_its_bytes_and_its_launch() -> None:
    a100 = hardware("a100")
    assert Kernel("copy", 0).time_us(a100) == KERNEL_US
    busy = Kernel("copy", 1555 * 10**6, count=3)
    assert busy.time_us(a100) == pytest.approx(KERNEL_US + 1e3 / BANDWIDTH_SHARE)
    assert busy.total_us(a100) == 3 * busy.time_us(a100)
    strided = dataclasses.replace(busy, strided=True)
    assert strided.time_us(a100) == pytest.approx(KERNEL_US + 1e3 / STRIDED_SHARE)


def test_bytes_of_a_forward_by_hand() -> None:
    found = kernels(SHAPE)
    stream = 48 * 64 * 2
    assert moved(found, "norm") == 2 * stream * (2 * 2 + 1)
    assert moved(found, "residual") == 3 * stream * 2 * 2
    assert moved(found, "activation") == 2 * 48 * 256 * 2 * 2
    assert moved(found, "mask and softmax") == 0


def test_plain_attention_moves_its_scores() -> None:
    found = kernels(dataclasses.replace(SHAPE, attention="plain"))
    assert moved(found, "mask and softmax") == 2 * 2 * 2 * (3 * 4 * 16 * 16 * 2)


def test_training_and_swiglu_move_more_and_parallel_layers_less() -> None:
    def total(shape: TransformerShape) -> int:
        return sum(k.bytes * k.count for k in kernels(shape))

    assert total(dataclasses.replace(SHAPE, phase="train")) == 3 * total(SHAPE)
    assert total(dataclasses.replace(SHAPE, mlp="swiglu", mlp_width=256)) > total(SHAPE)
    assert total(dataclasses.replace(SHAPE, parallel_layers=True)) < total(SHAPE)


def test_an_eager_layer_casts_every_weight_once() -> None:
    casts = [k for k in (*LAYER.attention(), *LAYER.mlp()) if "weights" in k.name]
    weights = 4 * 64 * 128 + 3 * 64 * 256
    assert sum(k.bytes * k.count for k in casts) == weights * (4 + 2)
    plain = dataclasses.replace(LAYER, autocast=False)
    assert not [k for k in (*plain.attention(), *plain.mlp(), *plain.stream()) if "cast" in k.name]


def test_biases_and_rotations_are_kernels_of_their_own() -> None:
    biased = dataclasses.replace(LAYER, bias=True)
    assert sum(k.count for k in biased.mlp()) - sum(k.count for k in LAYER.mlp()) == 3
    still = dataclasses.replace(LAYER, rotary=False)
    assert not [k for k in still.attention() if k.strided]
    assert len([k for k in LAYER.attention() if k.strided]) == 7
