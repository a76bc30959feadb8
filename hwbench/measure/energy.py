"""Energy of a pass: read over a window long enough for the counter, gross and above idle.

Counters move in steps, NVML's every 20 to 100 ms, so a reading over one pass is mostly rounding. A
pass is therefore repeated until the window is long enough and the counter has moved often enough,
and power is taken between the first and the last step seen in the window, which the window's ends
then do not blur.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hwbench.errors import Unsupported
from hwbench.measure.nvml import NvmlDevice
from hwbench.measure.rapl import POWERCAP, Rapl

Now = Callable[[], float]


class EnergySource(Protocol):
    """A counter of energy.

    Attributes:
        name: What a condition calls it.
        method: How energy is read, in words, for a workload.
        period_s: How often it should be read.
    """

    name: str
    method: str
    period_s: float

    def read_j(self) -> float:
        """Joules since some moment in the past, never falling."""
        ...


class NvmlCounter:
    """NVML's own total of energy (Volta and newer).

    Attributes:
        name: What a condition calls it.
        method: How energy is read.
        period_s: How often it should be read: more often than it moves.
    """

    name = "nvml"
    method = "NVML total energy counter over a window of repeated passes"
    period_s = 0.005

    def __init__(self, device: NvmlDevice) -> None:
        """Read once, so that a device without the counter is found out at once."""
        self._device = device
        self._last = device.energy_j()

    def read_j(self) -> float:
        """Joules since the driver was loaded.

        Raises:
            Unsupported: The counter went back, as it does when the driver is reloaded.
        """
        now = self._device.energy_j()
        if now < self._last:
            raise Unsupported("nvml: the energy counter went back; the driver was reloaded")
        self._last = now
        return now


class NvmlPower:
    """NVML's power readings, integrated by trapezoids: for devices without the counter.

    Attributes:
        name: What a condition calls it.
        method: How energy is read.
        period_s: How often it should be read.
    """

    name = "nvml-power"
    method = "NVML power polled over a window of repeated passes, integrated"
    period_s = 0.01

    def __init__(self, device: NvmlDevice, now: Now = time.perf_counter) -> None:
        """Start at 0 joules."""
        self._device = device
        self._now = now
        self._last = now(), device.power_w()
        self._total_j = 0.0

    def read_j(self) -> float:
        """Joules since it was opened."""
        at, power_w = self._now(), self._device.power_w()
        before, power_before_w = self._last
        self._total_j += (at - before) * (power_w + power_before_w) / 2
        self._last = at, power_w
        return self._total_j


def nvidia_source(device: NvmlDevice, now: Now = time.perf_counter) -> EnergySource:
    """The device's counter, or its integrated power where it has no counter.

    Raises:
        Unsupported: The device tells neither.
    """
    try:
        return NvmlCounter(device)
    except Unsupported as lacking:
        try:
            return NvmlPower(device, now)
        except Unsupported:
            raise lacking from None


def cpu_source(root: Path = POWERCAP) -> EnergySource:
    """The CPU's RAPL counters.

    Raises:
        Unsupported: There are none, or they cannot be read.
    """
    return Rapl.open(root)


@dataclass(slots=True)
class Trace:
    """The steps of a counter: when it was first seen at each value.

    Attributes:
        times_s: When.
        joules: The values.
    """

    times_s: list[float] = field(default_factory=list)
    joules: list[float] = field(default_factory=list)

    def note(self, at_s: float, joules: float) -> None:
        """Take a reading into account."""
        if not self.joules or joules != self.joules[-1]:
            self.times_s.append(at_s)
            self.joules.append(joules)

    def steps(self, start_s: float, end_s: float) -> list[tuple[float, float]]:
        """The steps inside a window. The first reading of all is no step: it was there before."""
        seen = list(zip(self.times_s[1:], self.joules[1:], strict=True))
        return [(at, joules) for at, joules in seen if start_s <= at <= end_s]

    def mean_power_w(self, start_s: float, end_s: float) -> float:
        """Mean power between the first and the last step of a window.

        Raises:
            Unsupported: There are fewer than two steps.
        """
        inside = self.steps(start_s, end_s)
        if len(inside) < 2:
            raise Unsupported(
                f"the energy counter moved {len(inside)} times in {end_s - start_s:.3g} s"
            )
        (first_s, first_j), (last_s, last_j) = inside[0], inside[-1]
        return (last_j - first_j) / (last_s - first_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyWindow:
    """What a window of repeated passes gave.

    Attributes:
        energy_j: Energy of one pass.
        above_idle_j: The same with the idle power taken off; may be 0 or less in the noise.
        power_w: Mean power.
        window_s: Length of the window.
        passes: Passes in it.
        steps: How often the counter moved in it.
    """

    energy_j: float
    above_idle_j: float
    power_w: float
    window_s: float
    passes: int
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyProtocol:
    """How long a window is.

    Attributes:
        min_window_s: Least length.
        min_steps: How often the counter must move at least.
        max_window_s: Length after which no further pass is begun.
        idle_s: How long the idle power is read.
    """

    min_window_s: float = 1.0
    min_steps: int = 20
    max_window_s: float = 60.0
    idle_s: float = 3.0


class EnergyMeter:
    """Reads the energy of passes off a source.

    Attributes:
        source: The counter.
        idle_w: Power of the device at rest.
    """

    def __init__(
        self,
        source: EnergySource,
        protocol: EnergyProtocol,
        now: Now = time.perf_counter,
        *,
        threaded: bool = True,
    ) -> None:
        """Use a source.

        Args:
            source: The counter.
            protocol: How long windows are.
            now: Seconds of a clock that never goes back.
            threaded: Read the counter in a thread of its own while passes run; otherwise only
                between passes.
        """
        self.source = source
        self.idle_w = 0.0
        self._protocol = protocol
        self._now = now
        self._threaded = threaded

    def rest(self, sleep: Callable[[float], object] = time.sleep) -> float:
        """Read the idle power, in watts; nothing may run meanwhile.

        Raises:
            Unsupported: The counter cannot be read, or does not move.
        """
        trace, start = Trace(), self._now()
        while self._now() - start < self._protocol.idle_s:
            trace.note(self._now(), self.source.read_j())
            sleep(self.source.period_s)
        self.idle_w = trace.mean_power_w(start, self._now())
        return self.idle_w

    def window(self, run: Callable[[], object]) -> EnergyWindow:
        """Repeat a pass, which waits for the device, until the window is long enough.

        Raises:
            Unsupported: The counter cannot be read, or hardly moved.
        """
        limits, trace, passes = self._protocol, Trace(), 0
        with self._reading(trace) as look:
            look()
            start = end = self._now()
            while end - start < limits.max_window_s:
                run()
                passes += 1
                look()
                end = self._now()
                enough = len(trace.steps(start, end)) >= limits.min_steps
                if enough and end - start >= limits.min_window_s:
                    break
        power_w = trace.mean_power_w(start, end)
        if power_w <= 0:
            raise Unsupported("the energy counter shows no energy")
        pass_s = (end - start) / passes
        return EnergyWindow(
            energy_j=power_w * pass_s,
            above_idle_j=(power_w - self.idle_w) * pass_s,
            power_w=power_w,
            window_s=end - start,
            passes=passes,
            steps=len(trace.steps(start, end)),
        )

    @contextmanager
    def _reading(self, trace: Trace) -> Iterator[Callable[[], None]]:
        """Read the counter in the background; yields a function that reads it here and now."""
        lock, ended = threading.Lock(), threading.Event()
        failed: list[Unsupported] = []

        def look() -> None:
            with lock:
                if failed:
                    raise failed[0]
                trace.note(self._now(), self.source.read_j())

        def keep_looking() -> None:
            while not ended.wait(self.source.period_s):
                try:
                    look()
                except Unsupported as error:
                    failed.append(error)
                    return

        if not self._threaded:
            yield look
            return
        thread = threading.Thread(target=keep_looking, daemon=True)
        thread.start()
        try:
            yield look
        finally:
            ended.set()
            thread.join()
