"""What HW-GPT-Bench ran and how it read the numbers, as far as its code and data tell.

Its latencies were taken at the space's batch size, its GPU energies and memory at batch 8 in every
space. The GPUs computed in half precision by autocasting float32 weights, the CPUs in float32.
"""

from __future__ import annotations

from hwbench.architectures import SearchSpace
from hwbench.devices import Device
from hwbench.workload import Workload

_BFLOAT16 = ("a100", "a40", "a6000", "h100")
_MEMORY_BATCH = _GPU_ENERGY_BATCH = 8
_SEQ_LEN = 1024

WARMUP = {1: 0, 10: 3, 50: 12}
"""Leading repeats that are warm-up, by the number of repeats; other numbers are not known."""

GPU_LATENCY = "torch.profiler device time total: summed kernel time, autograd on"
CPU_LATENCY = "torch.profiler CPU time total, autograd on, cut to 10 ms from 1 s up"
GPU_ENERGY = "NVML power polled during one forward, integrated"
CPU_ENERGY = "CodeCarbon, mean of ten forwards, first included"
MEMORY = "torch.cuda.memory_allocated after the forward, mean of two"


def workload(device: Device, space: SearchSpace, field: str, repeats: int) -> Workload:
    """The workload behind a reading.

    Args:
        device: The device.
        space: The space.
        field: "latency_ms", "energy_j" or "memory_mb".
        repeats: How many repeats were taken, a key of `WARMUP`.

    Returns:
        The workload.
    """
    gpu = device.kind == "gpu"
    batch_size, method = {
        "latency_ms": (space.batch_size, GPU_LATENCY if gpu else CPU_LATENCY),
        "energy_j": ((_GPU_ENERGY_BATCH, GPU_ENERGY) if gpu else (space.batch_size, CPU_ENERGY)),
        "memory_mb": (_MEMORY_BATCH, MEMORY),
    }[field]
    half = "bfloat16" if device.name in _BFLOAT16 else "float16"
    return Workload(
        batch_size=batch_size,
        seq_len=_SEQ_LEN,
        compute_dtype=half if gpu else "float32",
        autocast=gpu,
        method=method,
        warmup_repeats=WARMUP[repeats],
    )
