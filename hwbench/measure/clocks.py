"""Clocks: the time of one pass on the host, between CUDA events, or summed over its kernels.

Everything that is asynchronous is waited for before a reading. Times are milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

Pass = Callable[[], object]


class Clock(Protocol):
    """Times one pass.

    Attributes:
        method: How the time is read, in words, for a workload.
    """

    method: str

    def time_ms(self, run: Pass) -> float:
        """Run the pass once and return its time in milliseconds."""
        ...


class HostClock:
    """`perf_counter_ns` around a pass, which is waited for.

    Attributes:
        method: How the time is read.
    """

    method = "perf_counter_ns around a synchronised pass"

    def __init__(
        self,
        synchronise: Callable[[], object] | None = None,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """Use a function that waits for the device, where it works on its own."""
        self._synchronise = synchronise
        self._now_ns = now_ns

    def time_ms(self, run: Pass) -> float:
        """Run the pass once and return its time in milliseconds."""
        if self._synchronise is not None:
            self._synchronise()
        start = self._now_ns()
        run()
        if self._synchronise is not None:
            self._synchronise()
        return (self._now_ns() - start) / 1e6


class CudaClock:
    """Two CUDA events around a pass: the time that the device took, launches overlapped.

    Attributes:
        method: How the time is read.
    """

    method = "CUDA events around a pass"

    def __init__(self, device: Any) -> None:
        """Time passes on a CUDA device, a `torch.device`."""
        import torch

        self._device = device
        events: Any = torch.cuda
        self._start, self._end = (events.Event(enable_timing=True) for _ in range(2))

    def time_ms(self, run: Pass) -> float:
        """Run the pass once and return its time in milliseconds."""
        import torch

        with torch.cuda.device(self._device):
            torch.cuda.synchronize()
            self._start.record()
            run()
            self._end.record()
            self._end.synchronize()
        return float(self._start.elapsed_time(self._end))


class KernelClock:
    """The summed time of all kernels of a pass, as torch.profiler sees them.

    This is what HW-GPT-Bench recorded as latency on GPUs: gaps between kernels do not count.

    Attributes:
        method: How the time is read.
    """

    method = "torch.profiler device time total: summed kernel time"

    def time_ms(self, run: Pass) -> float:
        """Run the pass once and return its kernels' time in milliseconds."""
        import torch
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            run()
            torch.cuda.synchronize()
        return kernel_ms(profiler.key_averages())


def kernel_ms(averages: Iterable[Any]) -> float:
    """The device time of profiled events, which the profiler gives in microseconds.

    Only what ran on the device counts: an operator on the host carries the time of the kernels
    that it launched, which would count twice, and an annotation that of all it encloses.

    Args:
        averages: The profiler's `key_averages()`.

    Returns:
        Their time in milliseconds.
    """
    total_us = 0.0
    for event in averages:
        on_host = str(event.device_type).endswith("CPU")
        if on_host or getattr(event, "is_user_annotation", False):
            continue
        spent = getattr(event, "self_device_time_total", None)
        # Before torch 2.4 the same number had a name of CUDA's own.
        total_us += event.self_cuda_time_total if spent is None else spent
    return total_us / 1e3
