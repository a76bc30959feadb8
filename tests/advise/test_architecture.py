"""Advice on architectures: the worst layers, neighbours of the size, lines for a query."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hwbench import Architecture, count, space
from hwbench.advise import advise_architecture, explain
from hwbench.advise.architecture import recorded_setting
from hwbench.architectures import ArchitectureTable
from hwbench.cost.forward import forward_ms
from hwbench.cost.transformer import Gemm
from hwbench.devices import hardware
from hwbench.errors import InvalidArchitecture, InvalidValue, UnknownName, Unsupported

ARCH = Architecture("s", 10, 768, (4, 8, 12, 12, 4, 8, 8, 8, 4, 4), (2, 3, 4) * 3 + (4,), True)


def test_the_worst_layer_comes_first() -> None:
    made = advise_architecture(ARCH, "h100")
    wasted = [row.wasted_us for row in made.layers]
    assert wasted == sorted(wasted, reverse=True)
    assert (made.layers[0].heads, made.layers[0].mlp_ratio) == (12, 4)
    assert [row.layer for row in made.layers if row.heads == 12] == [2, 3]


def test_layers_sum_to_the_forward() -> None:
    made = advise_architecture(ARCH, "h100")
    layers = sum(row.time_us for row in made.layers) / 1e3
    alone = replace(ARCH, n_layer=11, n_head=(*ARCH.n_head, 4), mlp_ratio=(*ARCH.mlp_ratio, 4))
    more = forward_ms(ArchitectureTable.of([alone]), made.hardware, made.setting)[0]
    last = next(r for r in made.layers if (r.heads, r.mlp_ratio) == (4, 4))
    assert more - made.forward_ms == pytest.approx(last.time_us / 1e3)
    assert layers < made.forward_ms


def test_the_setting_is_the_recorded_one() -> None:
    assert recorded_setting(ARCH, hardware("v100")).dtype == "float16"
    setting = recorded_setting(ARCH, hardware("a40"))
    assert (setting.batch_size, setting.seq_len, setting.dtype) == (8, 1024, "bfloat16")


def test_neighbours_are_of_the_size_and_ranked() -> None:
    made = advise_architecture(ARCH, "a100", tolerance=0.01)
    assert made.neighbours
    gains = [n.gain for n in made.neighbours]
    assert gains == sorted(gains, reverse=True)
    base = count(ARCH).params
    for n in made.neighbours:
        assert abs(count(n.arch).params / base - 1) <= 0.01
        assert space("s").contains(n.arch)
        assert n.change != "nothing"
    times = forward_ms(
        ArchitectureTable.of([ARCH, *(n.arch for n in made.neighbours)]),
        made.hardware,
        made.setting,
    )
    np.testing.assert_allclose(gains, times[0] / times[1:] - 1)


def test_advice_is_json() -> None:
    made = json.loads(json.dumps(advise_architecture(ARCH, "rtx2080").to_dict(5)))
    assert made["architecture"] == str(ARCH)
    assert len(made["proposals"]) == 5
    assert len(made["layers"]) == 10
    assert sum(g["gflop"] for g in made["gemms"]) == pytest.approx(
        count(ARCH).total_flops / 1e9, rel=1e-6
    )


def test_measured_products_are_shown() -> None:
    def measured(gemm: Gemm) -> float | None:
        return 77.0 if gemm.name == "logits" else None

    made = advise_architecture(ARCH, "a100", measured=measured)
    assert {r.gemm.name for r in made.rows if r.measured_us} == {"logits"}


def test_lines_explain_the_worst_layers() -> None:
    lines = explain(ARCH, "h100")
    assert len(lines) == 3
    assert lines[0].startswith("layer 2 (12 heads, ratio 4): ")
    assert "of the peak; MLP up 8192 x 3072 x 768 loses most, to" in lines[0]
    kinds = set(zip(ARCH.n_head, ARCH.mlp_ratio, strict=True))
    assert len(explain(ARCH, "h100", lines=100)) == len(kinds)
    assert explain(ARCH, "h100", lines=0) == []


def test_layers_that_are_alike_share_a_line() -> None:
    first = explain(space("s").largest, hardware("h100"))
    assert len(first) == 1
    assert first[0].startswith("layers 0-11 (12 heads, ratio 4): ")


@pytest.mark.parametrize(
    "device, error",
    [("h1000", UnknownName), ("cpu_amd_7502", Unsupported), (7, InvalidValue)],
)
def test_a_device_without_figures_is_refused(device: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        explain(ARCH, device)


def test_what_is_no_architecture_is_refused() -> None:
    with pytest.raises(InvalidArchitecture, match="must be an Architecture"):
        advise_architecture(str(ARCH), "h100")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="tolerance"):
        advise_architecture(ARCH, "h100", tolerance=2)
