"""Running a campaign: measure what the plan says and is not measured yet, one after another.

Each architecture is written to the store as soon as it is measured, in one step, so a campaign that
is killed loses at most the one it was on. The same call continues: what the store holds is done.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hwbench.architectures import Architecture, SearchSpace
from hwbench.campaign.curve import Point, cross_validated
from hwbench.campaign.lock import only_campaign
from hwbench.campaign.plan import Item, Plan, make_plan
from hwbench.campaign.state import measured_so_far, recorded_campaign
from hwbench.devices import canonical
from hwbench.errors import InvalidValue, invalid
from hwbench.measure.setup import Absent, Outcome, Reading, Setup
from hwbench.measure.worker import Worker
from hwbench.records import Condition, Readings, Store, StoreWriter
from hwbench.records.schema import MANIFEST

ANCHOR_EVERY = 8
"""Measurements between two of the anchor."""

_LATENCY = "latency_ms"
_DEVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What a campaign is asked to do.

    Attributes:
        space: The space.
        device_name: What the device is called in the store and in queries.
        setup: What is run, and how it is measured.
        budget: Architectures to fit on.
        tests: Further architectures to be scored on.
        until: Stop once the cross-validated error is at most so many percent; never unless given.
        seed: Of the plan.
    """

    space: SearchSpace
    device_name: str
    setup: Setup
    budget: int = 64
    tests: int = 0
    until: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the device's name, which becomes a folder, and the target."""
        if not _DEVICE_NAME.fullmatch(self.device_name):
            allowed = "at most 64 letters, digits, '_', '.' and '-', a letter or digit first"
            raise invalid("device_name", "profile", allowed, self.device_name)
        if self.until is not None and not 0 < self.until < 100:
            raise invalid("until", "profile", "a percentage in (0, 100)", self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How a campaign went.

    Attributes:
        measured: Measurements of this call, anchors included.
        failed: How many of them gave no latency.
        remaining: Measurements of the plan that are still to be made.
        wall_s: How long this call took.
        overhead: Share of the time outside warm-up and measured repeats.
        curve: The learning curve of all calls together.
        stopped_early: Whether the error target was met before the budget was spent.
        absent: Why a metric was not read: field name to reason.
    """

    measured: int
    failed: int
    remaining: int
    wall_s: float
    overhead: float
    curve: tuple[Point, ...]
    stopped_early: bool
    absent: dict[str, str]


Progress = Callable[[int, int], object]


def run_campaign(
    campaign: Campaign,
    out: Path,
    *,
    worker: Worker | None = None,
    progress: Progress | None = None,
    now: Callable[[], float] = time.perf_counter,
) -> Summary:
    """Measure what a campaign's plan says and the store does not hold yet.

    Args:
        campaign: What to do.
        out: The store, which is made if there is none.
        worker: Measures; one for the campaign's setup unless given.
        progress: Called with the number of measurements done and to be done.
        now: Seconds of a clock that never goes back.

    Returns:
        How it went.

    Raises:
        InvalidValue: The store holds another campaign of this device and space.
        InvalidStore: Another process measures into the store, or it is damaged.
        HwbenchError: The device is not there.
    """
    fresh = not (out / MANIFEST).is_file()
    if fresh:
        # What is wrong with the plan or the device is found out before anything is written.
        _new_plan(campaign)
    own = worker or Worker(campaign.setup)
    with own:
        card = own.card()
        if fresh:
            _create(campaign, out)
        with only_campaign(out):
            session = _Session.begin(campaign, out, card, own, now)
            for done, total in session.run():
                if progress is not None:
                    progress(done, total)
            return session.end()


def _create(campaign: Campaign, out: Path) -> None:
    source = f"hwbench profile of {campaign.device_name}"
    try:
        StoreWriter.create(
            out, name=campaign.device_name, source=source, licence="the measurer's own"
        )
    except InvalidValue:
        if not (out / MANIFEST).is_file():  # otherwise another process made it meanwhile
            raise


@dataclass(slots=True)
class _Session:
    """One uninterrupted run of a campaign."""

    campaign: Campaign
    writer: StoreWriter
    worker: Worker
    now: Callable[[], float]
    state: dict[str, Any]
    plan: Plan
    todo: list[Item]
    number: int
    begun: float
    medians: dict[Architecture, float]
    position: int = 0
    measured_s: float = 0.0
    failed: int = 0
    stopped_early: bool = False
    absent: dict[str, str] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        campaign: Campaign,
        out: Path,
        card: dict[str, Any],
        worker: Worker,
        now: Callable[[], float],
    ) -> _Session:
        """Read what is done and note the new session."""
        writer, store = StoreWriter.open(out), Store.open(out)
        device, space = canonical(campaign.device_name), campaign.space
        state = recorded_campaign(_asked(campaign), store, space) or _new_state(campaign)
        plan = Plan.from_dict(state["plan"], space)
        counts, medians = measured_so_far(store, device, space)
        counted: Counter[Architecture] = Counter()
        todo = []
        for item in plan.items:
            counted[item.architecture] += 1
            if counted[item.architecture] > counts[item.architecture]:
                todo.append(item)
        number = len(state["sessions"])
        started = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        state["sessions"].append({"session": number, "started": started, "card": card})
        writer.write_campaign(device, space.name, state)
        return cls(campaign, writer, worker, now, state, plan, todo, number, now(), medians)

    def run(self) -> Iterator[tuple[int, int]]:
        """Measure; yields after each measurement how many are done and to be done."""
        self._stop_if_good_enough()
        if not self.todo:
            return
        done, total = 0, len(self.todo)
        self._measure(self.plan.anchor)
        for item in list(self.todo):
            self._stop_if_good_enough()
            if item not in self.todo:
                continue
            self._measure(item.architecture)
            self.todo.remove(item)
            done += 1
            yield done, total
            if self.position % (ANCHOR_EVERY + 1) == 0:
                self._measure(self.plan.anchor)
            self._learn(item)
        self._measure(self.plan.anchor)

    def end(self) -> Summary:
        """Note how it went."""
        wall_s = self.now() - self.begun
        overhead = 1 - self.measured_s / wall_s if wall_s > 0 and self.position else 0.0
        own = self.state["sessions"][-1]
        own |= {"measured": self.position, "wall_s": wall_s, "overhead": overhead}
        self._write()
        return Summary(
            measured=self.position,
            failed=self.failed,
            remaining=len(self.todo),
            wall_s=wall_s,
            overhead=overhead,
            curve=tuple(Point(p["architectures"], p["mape"]) for p in self.state["curve"]),
            stopped_early=self.stopped_early,
            absent=self.absent,
        )

    def _write(self) -> None:
        device = canonical(self.campaign.device_name)
        self.writer.write_campaign(device, self.campaign.space.name, self.state)

    def _measure(self, arch: Architecture) -> None:
        outcome = self.worker.measure(arch)
        readings, conditions = self._records(arch, outcome)
        self.writer.append(*readings, conditions=conditions)
        self.position += 1
        self.measured_s += outcome.measured_s
        latency = outcome.readings[_LATENCY]
        if isinstance(latency, Reading):
            self.medians.setdefault(arch, float(np.median(latency.values)))
        else:
            self.failed += 1

    def _records(
        self, arch: Architecture, outcome: Outcome
    ) -> tuple[list[Readings], list[Condition]]:
        readings, conditions = [], []
        for name, found in outcome.readings.items():
            workload = self.campaign.setup.workload(found.method)
            place: dict[str, Any] = {"session": self.number, "position": self.position}
            device = canonical(self.campaign.device_name)
            more: dict[str, Any] = {}
            if isinstance(found, Absent):
                self.absent.setdefault(name, found.reason)
                more = {"status": found.status, "reason": found.reason}
            else:
                readings.append(
                    Readings.one(
                        arch, name, found.values, device=device, workload=workload, **place
                    )
                )
                more = {
                    "warmup_values": found.warmup,
                    "energy_window_s": found.window_s,
                    "energy_passes": found.passes,
                    "energy_counter": found.counter,
                }
            conditions.append(
                Condition(
                    device=device,
                    architecture=arch,
                    workload=workload,
                    **place,
                    **_device_state(outcome),
                    **more,
                )
            )
        return readings, conditions

    def _learn(self, item: Item) -> None:
        """Add a point to the learning curve."""
        fitted = [i for i in self.plan.items if i.role != "test" and i.architecture in self.medians]
        every = 1 if self.campaign.until is not None else 4
        if item.role == "test" or len(fitted) % every:
            return
        medians = np.array([self.medians[i.architecture] for i in fitted])
        drawn = [i.role == "random" for i in fitted]
        point = cross_validated([i.architecture for i in fitted], medians, drawn)
        if point is not None:
            self.state["curve"].append({"architectures": point.architectures, "mape": point.mape})
            self._write()

    def _stop_if_good_enough(self) -> None:
        """Leave all but the test set out of the plan once the error is under the target."""
        until, curve = self.campaign.until, self.state["curve"]
        tests = [item for item in self.todo if item.role == "test"]
        if until is None or not curve or curve[-1]["mape"] > until or len(tests) == len(self.todo):
            return
        self.stopped_early, self.todo = True, tests


def _device_state(outcome: Outcome) -> dict[str, Any]:
    before, after = outcome.before, outcome.after
    seen = [state.throttle for state in (before, after) if state.throttle is not None]
    reasons = dict.fromkeys(r for text in seen for r in text.split("+") if r)
    return {
        "clock_sm_before_mhz": before.clock_sm_mhz,
        "clock_memory_before_mhz": before.clock_memory_mhz,
        "temperature_before_c": before.temperature_c,
        "clock_sm_mhz": after.clock_sm_mhz,
        "clock_memory_mhz": after.clock_memory_mhz,
        "temperature_c": after.temperature_c,
        "throttle": "+".join(reasons) if seen else None,
    }


def _new_plan(campaign: Campaign) -> Plan:
    return make_plan(campaign.space, campaign.budget, campaign.tests, campaign.seed)


def _asked(campaign: Campaign) -> dict[str, Any]:
    """What decides whether two campaigns are the same."""
    return {
        "space": campaign.space.name,
        "device": canonical(campaign.device_name),
        "budget": campaign.budget,
        "tests": campaign.tests,
        "seed": campaign.seed,
        "workload": campaign.setup.workload("none").to_dict(),
        "torch_device": campaign.setup.device,
    }


def _new_state(campaign: Campaign) -> dict[str, Any]:
    plan = _new_plan(campaign).to_dict()
    return {"version": 1, "asked": _asked(campaign), "plan": plan, "sessions": [], "curve": []}
