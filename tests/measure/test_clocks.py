"""Clocks: every unit becomes milliseconds once, and nothing counts twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hwbench.measure.clocks import HostClock, kernel_ms
from tests.measure.fakes import Clock


def event(kind: str, us: float, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(device_type=f"DeviceType.{kind}", self_device_time_total=us, **more)


def test_900_us_and_1_1_ms_average_to_1_ms() -> None:
    clock = Clock()
    host = HostClock(now_ns=clock.ns)
    times = [host.time_ms(lambda s=s: clock.pass_time(s)) for s in (900e-6, 1.1e-3)]
    assert sum(times) / 2 == pytest.approx(1.0)
    kernels = [kernel_ms([event("CUDA", us)]) for us in (900.0, 1100.0)]
    assert sum(kernels) / 2 == pytest.approx(1.0)


def test_the_host_clock_waits_before_and_after() -> None:
    clock, order = Clock(), []

    def wait() -> None:
        order.append("wait")
        clock.pass_time(0.5)

    found = HostClock(wait, clock.ns).time_ms(lambda: order.append("run"))
    assert order == ["wait", "run", "wait"]
    assert found == pytest.approx(500.0)


def test_kernels_count_once() -> None:
    seen = [
        event("CUDA", 1500.0),
        event("CUDA", 500.0, is_user_annotation=False),
        event("CUDA", 9999.0, is_user_annotation=True),  # a range around kernels
        event("CPU", 2000.0),  # an operator, with the time of the kernels it launched
        SimpleNamespace(device_type="DeviceType.CUDA", self_cuda_time_total=250.0),  # older torch
    ]
    assert kernel_ms(seen) == pytest.approx(2.25)
