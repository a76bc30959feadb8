"""`Instruments`: the clocks and meters of one device, and what they read of one architecture."""

from __future__ import annotations

import gc
import re
from typing import Any

import torch

from hwbench.architectures import Architecture
from hwbench.errors import Unsupported
from hwbench.measure import memory, nvml
from hwbench.measure.clocks import Clock, CudaClock, HostClock, KernelClock
from hwbench.measure.energy import EnergyMeter, cpu_source, nvidia_source
from hwbench.measure.environment import cuda_uuid, environment_card, torch_card
from hwbench.measure.nvml import DeviceState, NvmlDevice
from hwbench.measure.passes import Pass, make_pass
from hwbench.measure.protocol import Protocol, repeat
from hwbench.measure.setup import Absent, Outcome, Reading, Setup, checked_device, failed, reason_of

KERNEL_REPEATS = Protocol(
    min_warmup=1, max_warmup=1, min_repeats=10, max_repeats=10, min_time_s=1e-6
)
_NO_METER = "no energy meter"


class Instruments:
    """The clocks and meters of one device, opened once a process.

    Attributes:
        setup: What is measured.
        meter: The energy meter, or None.
        no_energy: Why there is no energy meter; empty where there is one.
    """

    def __init__(self, setup: Setup) -> None:
        """Use `Instruments.open`."""
        self.setup = setup
        self.meter: EnergyMeter | None = None
        self.no_energy = ""
        self._device = torch.device(setup.device)
        self._nvidia: NvmlDevice | None = None

    @classmethod
    def open(cls, setup: Setup) -> Instruments:
        """Find the device and its meters, and read its idle power.

        Raises:
            InvalidValue: The device is not there.
        """
        made = cls(setup)
        made._device = checked_device(setup.device)
        if setup.threads is not None:
            torch.set_num_threads(setup.threads)
        if made._cuda:
            torch.zeros(1, device=made._device)  # the context draws power too, at rest
        try:
            made.meter = EnergyMeter(made._source(), setup.energy)
            made.meter.rest()
        except Unsupported as error:
            made.meter, made.no_energy = None, reason_of(error)
        return made

    @property
    def _cuda(self) -> bool:
        return self._device.type == "cuda"

    def _source(self) -> Any:
        if not self._cuda:
            return cpu_source()
        library = nvml.load()
        self._nvidia = NvmlDevice.find(library, self._device.index, cuda_uuid(self._device))
        return nvidia_source(self._nvidia)

    def card(self) -> dict[str, Any]:
        """The environment card of this process and device, ready for JSON."""
        return {
            **environment_card(),
            "torch": torch_card(self._device),
            "nvml": self._nvidia.card() if self._nvidia is not None else None,
            "energy": {
                "method": self.meter.source.method if self.meter is not None else None,
                "reason": self.no_energy,
                "idle_w": self.meter.idle_w if self.meter is not None else None,
            },
        }

    def measure(self, arch: Architecture) -> Outcome:
        """Build an architecture and read all metrics of it.

        Returns:
            The outcome; out of memory is one, after which this process must be replaced.
        """
        try:
            return self._measure(arch)
        except (torch.OutOfMemoryError, MemoryError) as error:
            return failed(_out_of_memory(error), self._method(self._clock()))
        except RuntimeError as error:
            if "can't allocate memory" not in str(error):  # the CPU's allocator has no own error
                raise
            return failed(_out_of_memory(error), self._method(self._clock()))
        finally:
            gc.collect()

    def _measure(self, arch: Architecture) -> Outcome:
        readings: dict[str, Reading | Absent] = {}
        before = self._state()
        resident = memory.resident_mb() if self._wants_resident else 0.0
        clock, run = self._clock(), make_pass(arch, self.setup)
        timed = repeat(lambda: clock.time_ms(run), self.setup.protocol)
        measured_s = timed.wall_s
        readings["latency_ms"] = Reading(
            values=timed.repeats_ms, warmup=timed.warmup_ms, method=self._method(clock)
        )
        if self._cuda:
            kernels = self._kernels(run)
            measured_s += sum((*kernels.values, *kernels.warmup)) / 1e3
            readings["latency_kernel_ms"] = kernels
            readings |= self._cuda_peaks(run)
        elif self._wants_resident:
            grown = memory.peak_resident_mb() - resident
            readings["memory_peak_resident_mb"] = Reading(
                values=(grown,), method=memory.RESIDENT_METHOD
            )
        readings |= self._energy(run)
        gross = readings["energy_j"]
        measured_s += (gross.window_s or 0.0) if isinstance(gross, Reading) else 0.0
        return Outcome(readings=readings, before=before, after=self._state(), measured_s=measured_s)

    @property
    def _wants_resident(self) -> bool:
        return self.setup.peak_memory and not self._cuda

    def _clock(self) -> Clock:
        return CudaClock(self._device) if self._cuda else HostClock()

    def _method(self, clock: Clock) -> str:
        mode = "autograd on" if self.setup.phase == "train" else "inference mode"
        return f"{clock.method}, {mode}"

    def _state(self) -> DeviceState:
        return self._nvidia.state() if self._nvidia is not None else DeviceState()

    def _wait(self) -> None:
        if self._cuda:
            torch.cuda.synchronize(self._device)

    def _kernels(self, run: Pass) -> Reading:
        clock = KernelClock()
        timed = repeat(lambda: clock.time_ms(run), KERNEL_REPEATS)
        return Reading(values=timed.repeats_ms, warmup=timed.warmup_ms, method=self._method(clock))

    def _cuda_peaks(self, run: Pass) -> dict[str, Reading | Absent]:
        allocated, reserved = memory.cuda_peaks_mb(run, self._device)
        return {
            "memory_peak_allocated_mb": Reading(
                values=(allocated,), method=memory.ALLOCATED_METHOD
            ),
            "memory_peak_reserved_mb": Reading(values=(reserved,), method=memory.RESERVED_METHOD),
        }

    def _energy(self, run: Pass) -> dict[str, Reading | Absent]:
        """Gross energy and energy above idle, both or neither, or the first alone."""
        if self.meter is None:
            return {"energy_j": Absent(status="skipped", reason=self.no_energy, method=_NO_METER)}
        method = self.meter.source.method

        def waited() -> None:
            run()
            self._wait()

        try:
            window = self.meter.window(waited)
        except Unsupported as error:
            reason = reason_of(error)
            return {"energy_j": Absent(status="failed", reason=reason, method=method)}
        how = {
            "window_s": window.window_s,
            "passes": window.passes,
            "counter": self.meter.source.name,
        }
        above: Reading | Absent = Absent(
            status="failed",
            reason="no energy above idle in the noise",
            method=f"{method}, above idle",
        )
        if window.above_idle_j > 0:
            above = Reading(
                values=(window.above_idle_j,),
                method=f"{method}, above idle",
                **how,  # type: ignore[arg-type]
            )
        gross = Reading(values=(window.energy_j,), method=method, **how)  # type: ignore[arg-type]
        return {"energy_j": gross, "energy_above_idle_j": above}


def _out_of_memory(error: BaseException) -> str:
    """In one line, with what was asked for where torch says it."""
    said = " ".join(str(error).split())
    asked = re.search(r"tried to allocate [\d.]+ \w+", said, re.IGNORECASE)
    told = f"t{asked.group()[1:]}" if asked else said.split(". ")[0][:160]
    return f"out of memory: {told}" if told else "out of memory"
