"""`Readings` and `Condition`: what is appended to a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture, ArchitectureTable
from hwbench.devices import canonical
from hwbench.errors import InvalidValue, invalid
from hwbench.records.observations import Repeats
from hwbench.records.schema import QUALITY_FIELDS, STATUSES, UNITS, field_name
from hwbench.workload import Workload


@dataclass(frozen=True, eq=False, kw_only=True)
class Readings:
    """Readings of one metric on one device in one space, under one workload, ready to be appended.

    Attributes:
        device: The device; None for perplexity and accuracy.
        metric: The metric's API or field name; kept as the field name.
        workload: What was run and how it was read; None for perplexity and accuracy.
        architectures: The architecture of every reading, n rows of one space.
        session: One uninterrupted run on one machine, shape (n,).
        position: The order within the session, shape (n,).
        repeats: All raw repeats of each, in the metric's unit and the order they were taken.

    Raises:
        InvalidValue: A field does not fit the others, or a value is not finite and positive.
        UnknownName: No such metric.
    """

    device: str | None
    metric: str
    workload: Workload | None
    architectures: ArchitectureTable
    session: NDArray[np.int64]
    position: NDArray[np.int64]
    repeats: Repeats

    def __post_init__(self) -> None:
        """Check that the fields fit each other, and every value."""
        put = object.__setattr__
        put(self, "metric", field_name(self.metric))
        if self.metric not in UNITS:
            raise invalid("metric", "Readings", f"one of {', '.join(UNITS)}", self.metric)
        if self.device is not None:
            put(self, "device", canonical(self.device))
        bare = self.metric in QUALITY_FIELDS
        if bare != (self.device is None) or bare != (self.workload is None):
            needs = "no device and no workload" if bare else "a device and a workload"
            raise InvalidValue(f"Readings of {self.metric} must have {needs}.")
        n = len(self.architectures)
        for name in ("session", "position", "repeats"):
            if len(getattr(self, name)) != n:
                raise invalid(name, "Readings", f"of length {n}", len(getattr(self, name)))
        for name, most in (("session", 2**15), ("position", 2**31)):
            column = np.asarray(getattr(self, name), np.int64)
            put(self, name, column)
            if n and not 0 <= column.min() <= column.max() < most:
                raise invalid(name, "Readings", f"in [0, {most})", column.tolist())
        wrong = unacceptable(self.metric, self.repeats.flat)
        if wrong.any():
            got = self.repeats.flat[wrong][0]
            raise invalid("repeats", "Readings", f"finite and positive in {self.metric}", got)
        if n and self.repeats.lengths.min() == 0:
            raise invalid("repeats", "Readings", "one value or more a reading", [])

    @classmethod
    def one(
        cls,
        architecture: Architecture,
        metric: str,
        values: Sequence[float] | NDArray[np.floating],
        *,
        device: str | None = None,
        workload: Workload | None = None,
        session: int = 0,
        position: int = 0,
    ) -> Readings:
        """The readings of one architecture.

        Args:
            architecture: The architecture.
            metric: The metric's API or field name.
            values: All raw repeats, in the metric's unit and the order they were taken.
            device: The device, where the metric has one.
            workload: What was run, where the metric has a device.
            session: One uninterrupted run on one machine.
            position: The order within it.
        """
        flat = np.asarray(values, np.float64).reshape(-1)
        return cls(
            device=device,
            metric=metric,
            workload=workload,
            architectures=ArchitectureTable.of([architecture]),
            session=np.array([session]),
            position=np.array([position]),
            repeats=Repeats(flat, np.array([0, len(flat)])),
        )


def unacceptable(field: str, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values a metric cannot have: not finite or not positive.

    An accuracy may be 0 and at most 1.

    >>> unacceptable("latency_ms", np.array([1.0, 0.0, np.nan])).tolist()
    [False, True, True]
    """
    with np.errstate(invalid="ignore"):
        fits = (values >= 0) & (values <= 1) if field == "accuracy" else values > 0
    return np.asarray(~(np.isfinite(values) & fits), np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Under which conditions a profile took the readings of one architecture.

    A row is written for what was skipped or failed too, with the reason.

    Attributes:
        device: The device.
        architecture: The architecture.
        workload: What was run.
        session: One uninterrupted run on one machine.
        position: The order within it.
        status: "ok", "skipped" (not attempted) or "failed" (attempted in vain).
        reason: Why it was skipped or failed; empty where it was not.
        warmup_values: What the passes before the first repeat read, in the metric's unit.
        clock_sm_mhz: Clock of the cores, after the readings.
        clock_memory_mhz: Clock of the memory, likewise.
        temperature_c: Temperature of the chip, likewise.
        clock_sm_before_mhz: Clock of the cores, before the readings.
        clock_memory_before_mhz: Clock of the memory, likewise.
        temperature_before_c: Temperature of the chip, likewise.
        throttle: Reasons for throttling as the driver names them, before or after; empty where
            there were none.
        energy_window_s: How long energy was read over.
        energy_passes: How many passes it was read over.
        energy_counter: What energy was read off, such as "nvml" or "rapl".

    Raises:
        InvalidValue: The status is none, or a reason is missing.
    """

    device: str
    architecture: Architecture
    workload: Workload
    session: int
    position: int
    status: str = "ok"
    reason: str = ""
    warmup_values: tuple[float, ...] = field(default=())
    clock_sm_mhz: float | None = None
    clock_memory_mhz: float | None = None
    temperature_c: float | None = None
    clock_sm_before_mhz: float | None = None
    clock_memory_before_mhz: float | None = None
    temperature_before_c: float | None = None
    throttle: str | None = None
    energy_window_s: float | None = None
    energy_passes: int | None = None
    energy_counter: str | None = None

    def __post_init__(self) -> None:
        """Check the status."""
        if self.status not in STATUSES:
            raise invalid("status", "Condition", f"one of {', '.join(STATUSES)}", self.status)
        if (self.status == "ok") != (not self.reason):
            raise invalid(
                "reason", "Condition", "given where status is not 'ok', and only there", self.reason
            )
