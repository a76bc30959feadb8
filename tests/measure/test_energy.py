"""Energy over a window: true on counters that move in steps, and absent with a reason elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hwbench.errors import Unsupported
from hwbench.measure.energy import (
    EnergyMeter,
    EnergyProtocol,
    NvmlCounter,
    NvmlPower,
    Trace,
    cpu_source,
    nvidia_source,
)
from hwbench.measure.nvml import NvmlDevice
from tests.measure.fakes import Clock, FakeGpu, FakeNvml, ReplayedSource, powercap, set_uj


def device(clock: Clock, **gpu: object) -> NvmlDevice:
    made = FakeGpu("GPU-1", clock, **gpu)  # type: ignore[arg-type]
    return NvmlDevice.find(FakeNvml(made), 0, None, {})


def meter(clock: Clock, of: NvmlDevice, **limits: float) -> EnergyMeter:
    protocol = EnergyProtocol(**limits)  # type: ignore[arg-type]
    return EnergyMeter(nvidia_source(of, clock), protocol, clock, threaded=False)


def taking(clock: Clock, seconds: float) -> Callable[[], None]:
    return lambda: clock.pass_time(seconds)


@pytest.mark.parametrize("step_s", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("pass_s", [0.0013, 0.011, 0.34])
def test_a_counter_that_moves_in_steps(step_s: float, pass_s: float) -> None:
    clock = Clock()
    clock.pass_time(0.037)
    found = meter(clock, device(clock, step_s=step_s)).window(taking(clock, pass_s))
    assert found.energy_j == pytest.approx(200.0 * pass_s, rel=max(0.005, pass_s / 2))
    assert found.window_s >= 1.0
    assert found.steps >= 20
    assert found.passes == pytest.approx(found.window_s / pass_s)


def test_idle_power_is_taken_off() -> None:
    clock = Clock()
    gpu = device(clock, power_w=lambda at: 60.0 if at < 3.0 else 260.0)
    made = meter(clock, gpu, idle_s=2.9)
    assert made.rest(clock.pass_time) == pytest.approx(60.0)
    clock.pass_time(1.0)
    found = made.window(taking(clock, 0.01))
    assert found.energy_j == pytest.approx(2.6, rel=0.01)
    assert found.above_idle_j == pytest.approx(2.0, rel=0.01)


def test_power_is_integrated_where_there_is_no_counter() -> None:
    clock = Clock()
    gpu = device(
        clock, counter=False, instant=True, power_w=lambda at: 100.0 + 50.0 * (at % 0.4 < 0.2)
    )
    source = nvidia_source(gpu, clock)
    assert isinstance(source, NvmlPower)
    found = EnergyMeter(source, EnergyProtocol(min_window_s=4), clock, threaded=False).window(
        taking(clock, 0.01)
    )
    assert found.power_w == pytest.approx(125.0, rel=0.02)
    assert isinstance(nvidia_source(device(clock), clock), NvmlCounter)


def test_neither_counter_nor_power_is_a_reason() -> None:
    clock = Clock()
    with pytest.raises(Unsupported, match="TotalEnergyConsumption: Not Supported"):
        nvidia_source(device(clock, counter=False, power=False), clock)


def test_a_counter_that_was_reset_is_no_energy() -> None:
    clock = Clock()
    library = FakeNvml(FakeGpu("GPU-1", clock))
    library.gpus[0].reset_at_s = 0.5
    made = meter(clock, NvmlDevice.find(library, 0, None, {}))
    with pytest.raises(Unsupported, match="driver was reloaded"):
        made.window(taking(clock, 0.01))


def test_a_counter_that_stands_still_is_no_energy() -> None:
    clock = Clock()
    gpu = device(clock, power_w=lambda at: 0.0)
    with pytest.raises(Unsupported, match="moved 0 times"):
        meter(clock, gpu, max_window_s=3.0).window(taking(clock, 0.05))


def test_a_replayed_meter() -> None:
    clock = Clock()
    source = ReplayedSource([5.0 + 3.0 * i for i in range(60)])
    found = EnergyMeter(source, EnergyProtocol(), clock, threaded=False).window(taking(clock, 0.1))
    assert found.energy_j == pytest.approx(3.0)
    assert (found.passes, found.steps) == (20, 20)


def test_the_reading_thread_sees_steps_while_a_long_pass_runs() -> None:
    ticks: list[float] = []

    class Ticking(ReplayedSource):
        period_s = 0.001

        def read_j(self) -> float:
            ticks.append(1.0)
            return float(len(ticks))

    import time

    short = EnergyProtocol(min_window_s=0.02, min_steps=3)
    found = EnergyMeter(Ticking([]), short).window(lambda: time.sleep(0.03))
    assert found.passes == 1
    assert found.steps > 3


def test_a_failure_in_the_reading_thread_is_told() -> None:
    class Broken(ReplayedSource):
        period_s = 0.001

        def read_j(self) -> float:
            self.reads = getattr(self, "reads", 0) + 1
            if self.reads > 2:
                raise Unsupported("gone")
            return 1.0

    import time

    with pytest.raises(Unsupported, match="gone"):
        EnergyMeter(Broken([]), EnergyProtocol()).window(lambda: time.sleep(0.02))


def test_rapl_turns_over_three_times_in_one_window(tmp_path: Path) -> None:
    clock, range_uj = Clock(), 65_000_000
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 60_000_000, range_uj)})

    def run() -> None:  # 150 W for 0.1 s a pass
        clock.pass_time(0.1)
        used = round(60_000_000 + clock.now_s * 150e6)
        set_uj(root, "intel-rapl:0", used % (range_uj + 1))

    protocol = EnergyProtocol(min_window_s=1.5)
    found = EnergyMeter(cpu_source(root), protocol, clock, threaded=False).window(run)
    assert found.energy_j == pytest.approx(15.0, rel=1e-3)
    assert found.window_s * 150 > 3 * 65


def test_the_first_reading_is_no_step() -> None:
    trace = Trace()
    for at, joules in ((0.0, 1.0), (0.5, 1.0), (1.0, 2.0), (1.5, 2.0), (2.0, 4.0)):
        trace.note(at, joules)
    assert trace.steps(0.0, 2.0) == [(1.0, 2.0), (2.0, 4.0)]
    assert trace.mean_power_w(0.0, 2.0) == 2.0
