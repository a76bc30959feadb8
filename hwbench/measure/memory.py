"""Peaks of memory: what CUDA's allocator saw, and how far a process grew. 1 MB = 10^6 bytes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hwbench.errors import Unsupported

STATUS = Path("/proc/self/status")
ALLOCATED_METHOD = "torch.cuda.max_memory_allocated over a pass, weights included"
RESERVED_METHOD = "torch.cuda.max_memory_reserved over a pass, weights included"
RESIDENT_METHOD = "growth of the peak resident set over building a model and one pass"


def cuda_peaks_mb(run: Callable[[], object], device: Any) -> tuple[float, float]:
    """Run one pass; returns the peaks of what was allocated and what was reserved, in MB."""
    import torch

    gc.collect()
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    run()
    torch.cuda.synchronize(device)
    allocated = torch.cuda.max_memory_allocated(device)
    return allocated / 1e6, torch.cuda.max_memory_reserved(device) / 1e6


def resident_mb(status: Path = STATUS) -> float:
    """The memory of this process that is resident now, in MB.

    Raises:
        Unsupported: The system does not say.
    """
    return _status_mb("VmRSS", status)


def peak_resident_mb(status: Path = STATUS) -> float:
    """The most memory of this process that was ever resident, in MB.

    Raises:
        Unsupported: The system does not say.
    """
    return _status_mb("VmHWM", status)


def _status_mb(key: str, status: Path) -> float:
    try:
        lines = status.read_text("utf-8").splitlines()
    except OSError as error:
        raise Unsupported(f"memory: {status}: {error.strerror}") from None
    for line in lines:
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0]) * 1024 / 1e6
    raise Unsupported(f"memory: {status} has no {key}")
