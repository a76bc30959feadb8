"""Pickles as HW-GPT-Bench writes them, with values of our own."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwbench import Architecture, space
from hwbench.cost import count

Write = Callable[[str, Any], Path]


def sampled(arch: Architecture) -> dict[str, Any]:
    """The dict form of theirs; the lists are longer than the layers."""
    tail = max(arch.search_space.n_layer) - arch.n_layer
    return {
        "sample_embed_dim": arch.embed_dim,
        "sample_n_layer": arch.n_layer,
        "sample_layer_indices": list(range(arch.n_layer)),
        "sample_n_head": [*arch.n_head, *[arch.search_space.n_head[0]] * tail],
        "sample_mlp_ratio": [*arch.mlp_ratio, *[2] * tail],
        "sample_bias": arch.bias,
    }


class Entries:
    """Makes observations of the forms that stand in their files."""

    def archs(self, name: str, n: int, seed: int = 0) -> list[Architecture]:
        return space(name).sample(n, seed)

    def latency_gpu(self, arch: Architecture, /, **changes: Any) -> dict[str, Any]:
        counts = count(arch)
        return {
            **self._latency(arch),
            "gpu_lat": np.float64(20),
            "unit_gpu": ["ms"] * 10,
            "times_profiler_gpu": [20.0 + i / 8 for i in range(10)],
            "flops": 2 * counts.macs + 7,
            "macs": counts.macs,
            "mean_energy_gpu": np.float64(0.002),
            **changes,
        }

    def latency_cpu(self, arch: Architecture, /, **changes: Any) -> dict[str, Any]:
        return {
            **self._latency(arch),
            "cpu_lat": np.float64(2.2),
            "unit_cpu": ["s"] * 5 + ["ms"] * 5,
            "times_profiler_cpu": [2.71, 1.5, 1.25, 1.0, 1.0, *([999.5] * 5)],
            "flops": 0,
            "macs": 0,
            "mean_energy_cpu": np.float64(0.0350),
            **changes,
        }

    def _latency(self, arch: Architecture) -> dict[str, Any]:
        return {
            "arch": sampled(arch),
            "cpu_lat": None,
            "gpu_lat": None,
            "unit_cpu": [],
            "unit_gpu": [],
            "times_profiler_gpu": [],
            "times_profiler_cpu": [],
            "params": count(arch).params,
            "unit": "kgCO2",
            "mean_energy_cpu": None,
            "mean_energy_gpu": None,
            "unit_energy": "Wh",
        }

    def energy_gpu(self, arch: Architecture, /, **changes: Any) -> dict[str, Any]:
        return {
            "arch": sampled(arch),
            "mean_energy_gpu": np.float64(0.005),
            "unit_energy": "KWh",
            "unit": "W",
            "emissions_gpu": [170.0] * 50,
            "energy_gpu": [0.005 + i / 1e5 for i in range(50)],
            "energy_cpu": [],
            **changes,
        }

    def memory(self, arch: Architecture, /, **changes: Any) -> dict[str, Any]:
        return {"arch": sampled(arch), "mean_mem": 836.5, "std_mem": 0.0, **changes}

    def quality(self, arch: Architecture, /, **changes: Any) -> dict[str, Any]:
        return {"accuracy": 0.375, "perplexity": 25.5, "arch": sampled(arch), **changes}


@pytest.fixture
def entries() -> Entries:
    return Entries()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    return folder


@pytest.fixture
def write(source: Path) -> Write:
    """Pickles a value into a file of the checkout."""

    def dump(name: str, value: Any) -> Path:
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(value))
        return path

    return dump
