"""The predicted forward of an architecture: a sum over layers, the same in a table and alone."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from hwbench import Architecture, space
from hwbench.architectures import ArchitectureTable
from hwbench.cost.forward import Setting, forward_ms, head_us, layer_time
from hwbench.devices import hardware
from hwbench.errors import HwbenchError

SETTING = Setting(batch_size=8)


def alone(arch: Architecture, device: str, setting: Setting) -> float:
    figures, owner = hardware(device), arch.search_space
    layers = sum(
        layer_time(owner, arch.embed_dim, h, r, figures, setting, arch.bias).total_us
        for h, r in zip(arch.n_head, arch.mlp_ratio, strict=True)
    )
    return (layers + head_us(owner, arch.embed_dim, figures, setting)) / 1e3


@pytest.mark.parametrize("device", ["h100", "p100"])
@pytest.mark.parametrize("name", ["s", "l", "m-wide"])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"block": "gpt2", "autocast": False, "dtype": "float32"},
        {"quantised": False, "others": False},
    ],
)
def test_a_table_gives_what_layers_sum_to(device: str, name: str, change: dict[str, Any]) -> None:
    setting = dataclasses.replace(SETTING, **change)
    archs = space(name).sample(20, seed=3)
    times = forward_ms(ArchitectureTable.of(archs), hardware(device), setting)
    assert times.shape == (20,)
    np.testing.assert_allclose(times, [alone(a, device, setting) for a in archs], rtol=1e-9)


def test_each_term_only_adds() -> None:
    table = ArchitectureTable.of(space("s").sample(50, seed=0))
    whole = forward_ms(table, hardware("a100"), SETTING)
    for change in ({"others": False}, {"quantised": False}, {"autocast": False}):
        less = forward_ms(table, hardware("a100"), dataclasses.replace(SETTING, **change))
        assert (less < whole).all()


def test_a_faster_device_is_faster() -> None:
    table = ArchitectureTable.of(space("m").sample(20, seed=0))
    times = [forward_ms(table, hardware(d), SETTING) for d in ("h200", "h100", "a100", "p100")]
    assert all((a < b).all() for a, b in pairwise(times))


def test_an_unknown_block_or_type_is_refused() -> None:
    table = ArchitectureTable.of(space("s").sample(1, seed=0))
    for change in ({"block": "bert"}, {"dtype": "int8"}, {"batch_size": 0}):
        with pytest.raises(HwbenchError):
            forward_ms(table, hardware("a100"), dataclasses.replace(SETTING, **change))
