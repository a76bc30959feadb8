"""Make `data/miniature`: a record store of three architectures with synthetic values, for tests.

Nothing in it was measured. The values are smooth functions of an architecture's closed-form counts
with a little seeded noise, so that they look like readings: a slow first repeat, an energy that
ramps, powers that a device can draw.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from hwbench.architectures import Architecture, ArchitectureTable, space
from hwbench.cost import count, count_table
from hwbench.records import Readings, StoreWriter
from hwbench.workload import Workload

ROOT = Path(__file__).parent.parent
SEED = 20240524
SPACE = "s"

GPU, CPU = "h100", "cpu_xeon_gold"
GPU_MACS_A_MS, CPU_MACS_A_MS = 6e10, 5e8
GPU_W, CPU_W = 300.0, 120.0
BYTES_A_PARAMETER = 5.8

FORWARD = {"batch_size": 8, "seq_len": 1024}
AUTOCAST = {**FORWARD, "compute_dtype": "bfloat16", "autocast": True}
GPU_LATENCY = Workload(**AUTOCAST, method="synthetic latency", warmup_repeats=3)
GPU_ENERGY = Workload(**AUTOCAST, method="synthetic energy", warmup_repeats=12)
GPU_MEMORY = Workload(**AUTOCAST, method="synthetic memory")
CPU_LATENCY = Workload(**FORWARD, method="synthetic latency", warmup_repeats=3)
CPU_ENERGY = Workload(**FORWARD, method="synthetic mean energy")


def make(path: Path) -> None:
    """Write the store into a new folder."""
    writer = StoreWriter.create(
        path,
        name="miniature",
        source="synthetic: made by scripts/make_miniature.py, measured on nothing",
        licence="Apache-2.0",
    )
    rng = np.random.default_rng(SEED)
    archs = space(SPACE).sample(3, SEED)
    table = ArchitectureTable.of(archs)
    counts = count_table(table)
    writer.add_architectures(table, counts.params, counts.macs)
    for position, arch in enumerate(archs):
        writer.append(*readings(arch, position, rng))


def readings(arch: Architecture, position: int, rng: np.random.Generator) -> list[Readings]:
    """All readings of one architecture."""
    counts = count(arch)
    gpu_ms, cpu_ms = counts.macs / GPU_MACS_A_MS, counts.macs / CPU_MACS_A_MS
    slow_start = np.r_[1.2, 1.05, np.ones(8)]
    ramp = 1 - 0.6 * np.exp(-np.arange(50) / 4)

    def noise(n: int, spread: float) -> np.ndarray:
        return np.exp(spread * rng.standard_normal(n))

    def on(device: str, metric: str, workload: Workload, values: np.ndarray) -> Readings:
        return Readings.one(
            arch, metric, values, device=device, workload=workload, position=position
        )

    def of(metric: str, value: float) -> Readings:
        return Readings.one(arch, metric, [value], position=position)

    return [
        on(GPU, "latency", GPU_LATENCY, gpu_ms * slow_start * noise(10, 0.002)),
        on(GPU, "energy", GPU_ENERGY, gpu_ms / 1000 * GPU_W * ramp * noise(50, 0.05)),
        on(GPU, "memory", GPU_MEMORY, np.array([counts.params * BYTES_A_PARAMETER / 1e6])),
        on(CPU, "latency", CPU_LATENCY, cpu_ms * slow_start * noise(10, 0.03)),
        on(CPU, "energy", CPU_ENERGY, cpu_ms / 1000 * CPU_W * noise(1, 0.05)),
        of("perplexity", 60 * (counts.params / 1e7) ** -0.2),
        of("accuracy", 0.25 * (counts.params / 1e7) ** 0.1),
    ]


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "data/miniature")
