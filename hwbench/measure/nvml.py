"""One NVIDIA device through NVML: matched by UUID, its energy, power, clocks and throttling.

`nvidia-ml-py` imports on a machine without a driver; whatever cannot be read there is an
`Unsupported` with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hwbench.errors import Unsupported

# NVML's bits of nvmlClocksThrottleReasons that slow a device down, by the names it gives them.
_THROTTLE = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """What a device says of itself at one moment; None where it does not say.

    Attributes:
        clock_sm_mhz: Clock of the cores.
        clock_memory_mhz: Clock of the memory.
        temperature_c: Temperature of the chip.
        throttle: Reasons for throttling joined by "+"; empty where there are none.
    """

    clock_sm_mhz: float | None = None
    clock_memory_mhz: float | None = None
    temperature_c: float | None = None
    throttle: str | None = None


def load() -> Any:
    """The NVML library, initialised.

    Raises:
        Unsupported: `nvidia-ml-py` is not installed, or there is no driver.
    """
    try:
        import pynvml
    except ImportError:
        raise Unsupported(
            "nvml: nvidia-ml-py is not installed; pip install 'hwbench[profile]'"
        ) from None
    return initialised(pynvml)


def initialised(library: Any) -> Any:
    """The library after its initialisation.

    Raises:
        Unsupported: There is no driver.
    """
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise Unsupported(f"nvml: {error}") from None
    return library


class NvmlDevice:
    """One device of NVML.

    Attributes:
        uuid: Its UUID.
        mig: Whether it is an instance of a partitioned card (MIG).
    """

    def __init__(self, library: Any, handle: Any, uuid: str, *, mig: bool) -> None:
        """Use `NvmlDevice.find`."""
        self._library = library
        self._handle = handle
        self.uuid = uuid
        self.mig = mig

    @classmethod
    def find(
        cls,
        library: Any,
        index: int,
        cuda_uuid: str | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> NvmlDevice:
        """The NVML device behind a CUDA device, which counts visible devices only.

        Args:
            library: From `load`.
            index: The CUDA device's index.
            cuda_uuid: The UUID that CUDA gives the device, if it gives one.
            environ: The environment, whose CUDA_VISIBLE_DEVICES may hold indices, UUIDs, unique
                beginnings of UUIDs, or MIG forms.

        Raises:
            Unsupported: No device fits, or which one does cannot be told.
        """
        known = dict(_devices(library))
        entries = [e.strip() for e in environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
        entry = entries[index] if entries != [""] and index < len(entries) else None
        if entry is not None and entry.upper().startswith("MIG-"):
            return known[_one(known, _mig_uuid(library, entry), entry)]
        if cuda_uuid is not None:
            return known[_one(known, cuda_uuid, cuda_uuid)]
        if entry is not None and not entry.isdigit():
            return known[_one(known, entry, entry)]
        whole = [device for device in known.values() if not device.mig]
        place = int(entry) if entry is not None else index
        if len(whole) > 1 and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            raise Unsupported(
                "nvml: CUDA gives no UUID and may order devices in its own way; "
                "set CUDA_DEVICE_ORDER=PCI_BUS_ID"
            )
        if place >= len(whole):
            raise Unsupported(f"nvml: there is no device {place}, only {len(whole)}")
        return whole[place]

    def energy_j(self) -> float:
        """What the device has used since its driver was loaded, from its own counter.

        Raises:
            Unsupported: The device has no such counter.
        """
        if self.mig:
            raise Unsupported("nvml: the energy counter is of the whole card, not of a MIG part")
        return float(self._ask("nvmlDeviceGetTotalEnergyConsumption")) / 1e3

    def power_w(self) -> float:
        """What the device draws now, at this moment where it says so.

        Raises:
            Unsupported: The device does not say.
        """
        if self.mig:
            raise Unsupported("nvml: the power reading is of the whole card, not of a MIG part")
        instant = self._instant_mw()
        return (instant if instant is not None else self._ask("nvmlDeviceGetPowerUsage")) / 1e3

    def _instant_mw(self) -> int | None:
        """Power at this moment: from Ampere on, the plain reading is an average over a second."""
        library = self._library
        try:
            (field,) = library.nvmlDeviceGetFieldValues(
                self._handle, [library.NVML_FI_DEV_POWER_INSTANT]
            )
        except (library.NVMLError, AttributeError):
            return None
        return int(field.value.uiVal) if field.nvmlReturn == 0 else None

    def state(self) -> DeviceState:
        """Clocks, temperature and throttling; None for what the device does not say."""
        reasons = self._or_none("nvmlDeviceGetCurrentClocksThrottleReasons")
        throttle = None
        if reasons is not None:
            throttle = "+".join(name for bit, name in _THROTTLE.items() if int(reasons) & bit)
        return DeviceState(
            clock_sm_mhz=self._or_none("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
            clock_memory_mhz=self._or_none("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
            temperature_c=self._or_none("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
            throttle=throttle,
        )

    def card(self) -> dict[str, str | float | None]:
        """What identifies the device: name, UUID, driver, power limit."""
        limit = self._or_none("nvmlDeviceGetEnforcedPowerLimit")
        return {
            "name": _text(self._library.nvmlDeviceGetName(self._handle)),
            "uuid": self.uuid,
            "driver": _text(self._library.nvmlSystemGetDriverVersion()),
            "power_limit_w": None if limit is None else limit / 1e3,
        }

    def _ask(self, function: str, *constants: str) -> Any:
        try:
            ask = getattr(self._library, function)
            return ask(self._handle, *(getattr(self._library, name) for name in constants))
        except (self._library.NVMLError, AttributeError) as error:
            raise Unsupported(f"nvml: {function}: {error}") from None

    def _or_none(self, function: str, *constants: str) -> float | None:
        try:
            return float(self._ask(function, *constants))
        except Unsupported:
            return None


def _devices(library: Any) -> Iterator[tuple[str, NvmlDevice]]:
    """All devices by UUID: the cards, and the parts of partitioned ones."""
    for index in range(library.nvmlDeviceGetCount()):
        handle = library.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(library.nvmlDeviceGetUUID(handle))
        yield uuid, NvmlDevice(library, handle, uuid, mig=False)
        try:
            current, _ = library.nvmlDeviceGetMigMode(handle)
            parts = library.nvmlDeviceGetMaxMigDeviceCount(handle) if current else 0
        except library.NVMLError:
            continue
        for part in range(parts):
            try:
                child = library.nvmlDeviceGetMigDeviceHandleByIndex(handle, part)
            except library.NVMLError:
                continue  # an instance that was not made
            uuid = _text(library.nvmlDeviceGetUUID(child))
            yield uuid, NvmlDevice(library, child, uuid, mig=True)


def _mig_uuid(library: Any, entry: str) -> str:
    """The UUID of a MIG form: itself, or what NVML makes of "MIG-GPU-<uuid>/<gi>/<ci>"."""
    if "/" not in entry:
        return entry
    try:
        handle = library.nvmlDeviceGetHandleByUUID(entry.encode())
        return _text(library.nvmlDeviceGetUUID(handle))
    except library.NVMLError as error:
        raise Unsupported(f"nvml: {entry}: {error}") from None


def _one(known: Mapping[str, NvmlDevice], wanted: str, shown: str) -> str:
    """The one UUID that starts as wanted; CUDA writes them without "GPU-" in front."""
    short = _bare(wanted)
    found = [uuid for uuid in known if _bare(uuid).startswith(short)]
    if len(found) != 1:
        said = "no device" if not found else f"{len(found)} devices"
        raise Unsupported(f"nvml: {said} with the UUID {shown}")
    return found[0]


def _bare(uuid: str) -> str:
    return uuid.lower().removeprefix("mig-").removeprefix("gpu-")


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
