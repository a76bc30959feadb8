"""Stand-ins for what a test machine lacks: NVML, a powercap tree, a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def ns(self) -> int:
        return round(self.now_s * 1e9)

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds


class FakeError(Exception):
    """NVML's error."""


class FakeGpu:
    """One card, or one part of a card: what it draws, and a counter that moves in steps."""

    def __init__(
        self,
        uuid: str,
        clock: Clock,
        *,
        power_w: Callable[[float], float] = lambda _: 200.0,
        step_s: float = 0.1,
        counter: bool = True,
        power: bool = True,
        instant: bool = False,
        parts: tuple[FakeGpu, ...] = (),
        throttle: int = 0,
    ) -> None:
        self.uuid = uuid
        self.clock = clock
        self.power_w = power_w
        self.step_s = step_s
        self.counter = counter
        self.power = power
        self.instant = instant
        self.parts = parts
        self.throttle = throttle
        self.reset_at_s: float | None = None

    def energy_mj(self) -> int:
        """The counter: what was used up to its last step, from its last reset on."""
        now, since = self.clock.now_s, 0.0
        if self.reset_at_s is not None and now >= self.reset_at_s:
            since = self.reset_at_s
        steps = int(now / self.step_s + 1e-9)
        edges = [i * self.step_s for i in range(steps + 1) if i * self.step_s >= since - 1e-9]
        used = sum(self.power_w(edge - self.step_s / 2) * self.step_s for edge in edges[1:])
        base = 0.0 if since else 5000.0
        return round((base + used) * 1e3)


class FakeNvml:
    """The functions of `pynvml` that hwbench calls."""

    NVMLError = FakeError
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_TEMPERATURE_GPU = 0
    NVML_FI_DEV_POWER_INSTANT = 186

    def __init__(self, *gpus: FakeGpu, driver: bool = True) -> None:
        self.gpus = gpus
        self.driver = driver

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise FakeError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:  # noqa: N802
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes) -> FakeGpu:  # noqa: N802
        legacy = {
            f"MIG-{gpu.uuid}/{i + 1}/0": part
            for gpu in self.gpus
            for i, part in enumerate(gpu.parts)
        }
        if uuid.decode() not in legacy:
            raise FakeError("Not Found")
        return legacy[uuid.decode()]

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> bytes:  # noqa: N802
        return gpu.uuid.encode()

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> bytes:  # noqa: N802
        return b"Fake GPU"

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "999.1"

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> tuple[int, int]:  # noqa: N802
        if gpu.uuid.startswith("GPU-old"):
            raise FakeError("Not Supported")
        return bool(gpu.parts), bool(gpu.parts)

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: FakeGpu) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, part: int) -> FakeGpu:  # noqa: N802
        if part >= len(gpu.parts):
            raise FakeError("Not Found")
        return gpu.parts[part]

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: FakeGpu) -> int:  # noqa: N802
        if not gpu.counter:
            raise FakeError("Not Supported")
        return gpu.energy_mj()

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> int:  # noqa: N802
        if not gpu.power:
            raise FakeError("Not Supported")
        now = gpu.clock.now_s  # an average over the last second
        return round(sum(gpu.power_w(now - i / 50) for i in range(50)) / 50 * 1e3)

    def nvmlDeviceGetFieldValues(  # noqa: N802
        self, gpu: FakeGpu, fields: list[int]
    ) -> list[SimpleNamespace]:
        assert fields == [self.NVML_FI_DEV_POWER_INSTANT]
        if not gpu.instant:
            return [SimpleNamespace(nvmlReturn=3, value=SimpleNamespace(uiVal=0))]
        power_mw = round(gpu.power_w(gpu.clock.now_s) * 1e3)
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=power_mw))]

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu) -> int:  # noqa: N802
        return 350_000

    def nvmlDeviceGetClockInfo(self, gpu: FakeGpu, kind: int) -> int:  # noqa: N802
        return {1: 1410, 2: 1215}[kind]

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, sensor: int) -> int:  # noqa: N802
        return 61

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: FakeGpu) -> int:  # noqa: N802
        return gpu.throttle


class ReplayedSource:
    """A counter that gives recorded values, one after another, whatever the time."""

    name = "replayed"
    method = "replayed"
    period_s = 0.01

    def __init__(self, joules: list[float]) -> None:
        self.joules = list(joules)

    def read_j(self) -> float:
        return self.joules.pop(0) if len(self.joules) > 1 else self.joules[0]


def powercap(root: Path, zones: dict[str, tuple[str, int, int]]) -> Path:
    """A powercap tree: folder to (name, energy_uj, max_energy_range_uj)."""
    for folder, (name, energy_uj, range_uj) in zones.items():
        (root / folder).mkdir(parents=True)
        (root / folder / "name").write_text(f"{name}\n")
        (root / folder / "energy_uj").write_text(f"{energy_uj}\n")
        (root / folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
    return root


def set_uj(root: Path, folder: str, value: int) -> None:
    (root / folder / "energy_uj").write_text(f"{value}\n")


def sleeping(clock: Clock) -> Callable[[float], Any]:
    return clock.pass_time
