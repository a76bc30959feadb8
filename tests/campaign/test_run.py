"""Running a campaign: resumed wherever it was killed, one at a time, failures kept as outcomes."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace
from hwbench.campaign import Campaign, Summary, run_campaign
from hwbench.campaign.curve import cross_validated
from hwbench.campaign.lock import only_campaign
from hwbench.errors import InvalidStore, InvalidValue
from hwbench.measure.nvml import DeviceState
from hwbench.measure.setup import Absent, Outcome, Reading, Setup
from hwbench.measure.worker import Worker
from hwbench.records import Store, StoreWriter, validate
from tests.measure import benches

SPACE = SearchSpace("own", (32, 64), (2, 3, 4), (1, 2), (2, 4), seq_len=16)
SETUP = Setup(batch_size=1, seq_len=16)
ROOT = Path(__file__).parents[2]


class Formula(Worker):
    """Measures in this process, by formula, and counts."""

    def __init__(self, setup: Setup = SETUP, stop_after: int | None = None) -> None:
        super().__init__(setup)
        self.bench = benches.FakeBench(setup)
        self.measured: list[Architecture] = []
        self.stop_after = stop_after

    def card(self) -> dict[str, Any]:
        return {"machine": "test"}

    def measure(self, arch: Architecture) -> Outcome:
        if self.stop_after is not None and len(self.measured) >= self.stop_after:
            raise KeyboardInterrupt
        self.measured.append(arch)
        return self.answer(arch)

    def answer(self, arch: Architecture) -> Outcome:
        return self.bench.measure(arch)


def campaign(**more: Any) -> Campaign:
    given: dict[str, Any] = {"device_name": "my-cpu", "budget": 20, "tests": 3, **more}
    return Campaign(space=SPACE, setup=SETUP, **given)


def plan_in(store: Path) -> dict[str, Any]:
    said = Store.open(store).campaign("my-cpu", SPACE)
    assert said is not None
    return dict(said["plan"])


def planned(store: Path) -> list[str]:
    return [item["architecture"] for item in plan_in(store)["items"]]


def times_seen(store: Path) -> Counter[str]:
    """How often each architecture was measured, but for the anchor."""
    seen = Store.open(store).observations("my-cpu", SPACE, "latency")
    assert seen is not None
    counts = Counter(map(str, seen.table.architectures()))
    del counts[plan_in(store)["anchor"]]
    return counts


def test_everything_is_measured_and_written_with_how(tmp_path: Path) -> None:
    out, worker = tmp_path / "store", Formula()
    steps: list[tuple[int, int]] = []
    found = run_campaign(
        campaign(), out, worker=worker, progress=lambda done, total: steps.append((done, total))
    )
    assert steps == [(i, 26) for i in range(1, 27)]
    assert (found.measured, found.failed, found.remaining) == (len(worker.measured), 0, 0)
    anchor = worker.measured[0]
    assert worker.measured[-1] == anchor
    assert worker.measured.count(anchor) >= 3
    assert times_seen(out) == Counter(planned(out))
    store = Store.open(out)
    frame = store.conditions("my-cpu", SPACE)
    assert frame is not None
    assert set(frame["status"]) == {"ok"}
    assert frame["position"].tolist() == list(range(found.measured))
    assert frame["warmup_values"].map(len).eq(1).all()
    said = store.campaign("my-cpu", SPACE)
    assert said is not None
    assert said["sessions"][0]["card"] == {"machine": "test"}
    assert [p["architectures"] for p in said["curve"]] == [p.architectures for p in found.curve]
    assert found.curve[-1].mape < 5.0
    assert not validate(out).errors


@pytest.mark.parametrize("stop_after", [0, 1, 10, 20])
def test_an_interrupted_campaign_goes_on_and_measures_nothing_twice(
    tmp_path: Path, stop_after: int
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "store"
    run_campaign(campaign(), whole, worker=Formula())
    with pytest.raises(KeyboardInterrupt):
        run_campaign(campaign(), out, worker=Formula(stop_after=stop_after))
    again = Formula()
    found = run_campaign(campaign(), out, worker=again)
    assert found.remaining == 0
    assert planned(out) == planned(whole)
    assert times_seen(out) == Counter(planned(out))
    seen = Store.open(out).observations("my-cpu", SPACE, "latency")
    assert seen is not None
    assert set(seen.session.tolist()) == ({0, 1} if stop_after else {1})
    third = Formula()
    assert run_campaign(campaign(), out, worker=third).measured == 0
    assert third.measured == []
    assert not validate(out).errors


def test_killed_at_any_moment_it_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "store"
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.campaign.test_run import SETUP, campaign\n"
        "from tests.measure import benches\n"
        "from hwbench.campaign import run_campaign\n"
        "from hwbench.measure.worker import Worker\n"
        "if __name__ == '__main__':\n"
        "    run_campaign(campaign(), Path(sys.argv[1]), worker=Worker(SETUP, benches.slow))\n"
    )
    for wait_s in (2.5, 3.1, 3.6):
        process = subprocess.Popen([sys.executable, "-c", code, str(out)], cwd=ROOT)
        time.sleep(wait_s)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert run_campaign(campaign(), out, worker=Formula()).remaining == 0
    assert times_seen(out) == Counter(planned(out))
    assert not validate(out).errors


def test_two_processes_on_one_store_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "store"
    run_campaign(campaign(), out, worker=Formula())
    with only_campaign(out):
        code = (
            "from pathlib import Path\n"
            "import sys\n"
            "from hwbench.campaign.lock import only_campaign\n"
            "with only_campaign(Path(sys.argv[1])): pass\n"
        )
        second = subprocess.run(
            [sys.executable, "-c", code, str(out)], capture_output=True, text=True, check=False
        )
    assert "Another process measures into" in second.stderr
    with only_campaign(out):  # free again once its holder is gone
        pass


class Failing(Formula):
    """Out of memory at the larger width."""

    def answer(self, arch: Architecture) -> Outcome:
        if arch.embed_dim == 64 and arch.n_layer == 4:
            absent = Absent(status="failed", reason="out of memory: too large", method="formula")
            return Outcome(readings={"latency_ms": absent}, fatal=True)
        return super().answer(arch)


def test_out_of_memory_is_recorded_and_the_campaign_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "store"
    found = run_campaign(campaign(), out, worker=Failing())
    assert found.failed > 0
    assert found.absent == {"latency_ms": "out of memory: too large"}
    frame = Store.open(out).conditions("my-cpu", SPACE)
    assert frame is not None
    bad = frame[frame["status"] == "failed"]
    assert len(bad) == found.failed
    assert set(bad["reason"]) == {"out of memory: too large"}
    again = Failing()
    assert run_campaign(campaign(), out, worker=again).measured == 0  # and is not tried again


class Metered(Formula):
    """A card that throttles, with energy and its lack by turns."""

    def answer(self, arch: Architecture) -> Outcome:
        found = super().answer(arch)
        how = {"method": "NVML", "window_s": 1.5, "passes": 30, "counter": "nvml"}
        energy: Reading | Absent = Reading(values=(2.0,), **how)  # type: ignore[arg-type]
        if arch.bias:
            energy = Absent(status="failed", reason="the counter stood still", method="NVML")
        hot = DeviceState(
            clock_sm_mhz=1200.0, clock_memory_mhz=900.0, temperature_c=84.0, throttle="hw_slowdown"
        )
        cool = DeviceState(clock_sm_mhz=1410.0, temperature_c=40.0, throttle="")
        readings = {**found.readings, "energy_j": energy}
        return Outcome(readings=readings, before=cool, after=hot, measured_s=0.001)


def test_throttling_is_flagged_and_kept_and_energy_has_its_window(tmp_path: Path) -> None:
    out = tmp_path / "store"
    run_campaign(campaign(tests=0), out, worker=Metered())
    store = Store.open(out)
    frame = store.conditions("my-cpu", SPACE)
    assert frame is not None
    assert set(frame["throttle"]) == {"hw_slowdown"}
    assert set(frame["clock_sm_before_mhz"]) == {1410.0}
    assert set(frame["temperature_c"]) == {84.0}
    energy = frame[frame["energy_counter"] == "nvml"]
    assert set(energy["energy_passes"]) == {30}
    assert set(energy["energy_window_s"]) == {1.5}
    lacking = frame[frame["status"] == "failed"]
    assert set(lacking["reason"]) == {"the counter stood still"}
    seen = store.observations("my-cpu", SPACE, "energy")
    assert seen is not None
    assert len(seen) == len(energy)
    assert len(seen) + len(lacking) == len(frame) / 2


def test_it_stops_once_the_error_is_under_the_target(tmp_path: Path) -> None:
    found = run_campaign(campaign(budget=60, until=0.9), tmp_path / "a", worker=Formula())
    assert found.stopped_early
    assert found.curve[-1].mape <= 0.9
    assert found.measured < 60
    assert found.remaining == 0
    again = run_campaign(campaign(budget=60, until=0.9), tmp_path / "a", worker=Formula())
    assert again.stopped_early
    assert again.measured == 0  # not even the anchor
    strict = run_campaign(campaign(budget=20, until=1e-9), tmp_path / "b", worker=Formula())
    assert not strict.stopped_early
    seen = times_seen(tmp_path / "a")
    said = Store.open(tmp_path / "a").campaign("my-cpu", SPACE)
    assert said is not None
    tested = [i["architecture"] for i in said["plan"]["items"] if i["role"] == "test"]
    assert len(tested) == 6
    assert all(seen[a] == 2 for a in tested)  # the test set is measured all the same


def test_another_campaign_of_the_same_device_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "store"
    run_campaign(campaign(), out, worker=Formula())
    with pytest.raises(InvalidValue, match=r"with budget 20\. Got 24 instead; give another store"):
        run_campaign(campaign(budget=24), out, worker=Formula())
    longer = Campaign(
        space=SPACE, device_name="my-cpu", setup=replace(SETUP, seq_len=15), budget=20, tests=3
    )
    with pytest.raises(InvalidValue, match=r"with seq_len 16\. Got 15 instead; give another"):
        run_campaign(longer, out, worker=Formula())
    twin = SearchSpace("own", (32, 64), (2, 3, 4), (1, 2), (2, 3), seq_len=16)
    renamed = Campaign(space=twin, device_name="my-cpu", setup=SETUP, budget=20, tests=3)
    with pytest.raises(InvalidValue, match="knows another space by the name of 'own'"):
        run_campaign(renamed, out, worker=Formula())
    run_campaign(campaign(device_name="other"), out, worker=Formula())
    assert Store.open(out).devices() == ("my-cpu", "other")


@pytest.mark.parametrize(
    "part, value, said",
    [
        ("sessions", "x", "holds a damaged campaign of my-cpu"),
        ("curve", [3], "holds a damaged campaign of my-cpu"),
        ("curve", [{"architectures": 8}], "holds a damaged campaign of my-cpu"),
        ("asked", None, "holds a damaged campaign of my-cpu"),
        ("plan", "x", "holds a damaged campaign of my-cpu"),
        ("plan", {}, "plan is incomplete: 'items'"),
        ("plan", {"items": [{"role": "spare", "architecture": ""}]}, "plan is incomplete: "),
    ],
)
def test_a_damaged_campaign_is_refused_in_one_line(
    tmp_path: Path, part: str, value: object, said: str
) -> None:
    out = tmp_path / "store"
    run_campaign(campaign(), out, worker=Formula())
    path = out / "campaigns/my-cpu/own.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), part: value}))
    before = path.read_bytes()
    with pytest.raises(InvalidStore, match=said):
        run_campaign(campaign(), out, worker=Formula())
    assert path.read_bytes() == before


def test_without_its_architectures_a_store_is_damaged_rather_than_begun_anew(
    tmp_path: Path,
) -> None:
    """New ids would have named other architectures than the old observations meant."""
    out = tmp_path / "store"
    run_campaign(campaign(), out, worker=Formula())
    path = out / "architectures/own.parquet"
    whole = pq.read_table(path)
    path.unlink()
    with pytest.raises(InvalidStore, match="has no architectures of space own"):
        run_campaign(campaign(), out, worker=Formula())
    pq.write_table(whole.slice(0, 5), path)
    (out / "observations/my-cpu/own.parquet").unlink()
    with pytest.raises(InvalidStore, match=r"must list every architecture .*Got arch_id 5\."):
        run_campaign(campaign(), out, worker=Formula())


def test_observations_that_no_campaign_took_are_not_taken_for_its_own(tmp_path: Path) -> None:
    """They are of another machine, or their roles are lost: a fit would mistake what they are."""
    out = tmp_path / "store"
    with pytest.raises(KeyboardInterrupt):
        run_campaign(campaign(), out, worker=Formula(stop_after=9))
    (out / "campaigns/my-cpu/own.json").unlink()
    worker = Formula()
    with pytest.raises(InvalidValue, match="observations of my-cpu in space own that no campaign"):
        run_campaign(campaign(), out, worker=worker)
    assert worker.measured == []
    assert run_campaign(campaign(device_name="other"), out, worker=Formula()).remaining == 0


def test_a_store_that_another_process_makes_meanwhile_is_used(tmp_path: Path) -> None:
    out = tmp_path / "store"

    class Meanwhile(Formula):
        def card(self) -> dict[str, Any]:
            if not out.exists():
                StoreWriter.create(out, name="a", source="another process", licence="CC0-1.0")
            return super().card()

    assert run_campaign(campaign(), out, worker=Meanwhile()).remaining == 0
    assert Store.open(out).manifest.source == "another process"


def test_a_full_disk_is_one_line_and_leaves_no_half_file(tmp_path: Path) -> None:
    out = tmp_path / "store"

    class Full(Formula):
        def measure(self, arch: Architecture) -> Outcome:
            if len(self.measured) == 9:
                limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
                resource.setrlimit(resource.RLIMIT_FSIZE, (64, limit))
            return super().measure(arch)

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(InvalidStore, match=r"Cannot write .*File too large"):
            run_campaign(campaign(), out, worker=Full())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path for path in out.rglob(".writing-*") if path.is_file()] == []
    assert not validate(out).errors
    assert len(times_seen(out)) == 8  # beside the anchor; the tenth alone is lost
    assert run_campaign(campaign(), out, worker=Formula()).remaining == 0


def test_a_wrong_device_leaves_no_store_behind(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="There must be a device"):
        run_campaign(campaign(), tmp_path / "out", worker=Worker(SETUP, benches.refusing))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "field, value", [("device_name", "../up"), ("device_name", ""), ("until", 0.0)]
)
def test_what_is_asked_for_is_checked(field: str, value: object) -> None:
    with pytest.raises(InvalidValue, match=field):
        campaign(**{field: value})


def test_the_share_of_time_outside_of_measuring(tmp_path: Path) -> None:
    seconds = iter(np.arange(0.0, 1e6, 1.0))
    found: Summary = run_campaign(
        campaign(), tmp_path / "a", worker=Formula(), now=lambda: float(next(seconds))
    )
    assert found.wall_s == 1.0
    assert found.overhead == pytest.approx(1 - 0.001 * found.measured)


def test_cross_validation_sees_what_a_fit_has_not_seen() -> None:
    rng = np.random.default_rng(0)
    drawn = SPACE.sample(60, seed=1)
    bench = benches.FakeBench(SETUP)
    clean = np.array([np.median(_values(bench.measure(a))) for a in drawn])
    noisy = clean * np.exp(rng.normal(0, 0.03, len(clean)))
    point = cross_validated(drawn, noisy, [True] * 60)
    assert point is not None
    assert point.architectures == 60
    assert 1.5 < point.mape < 4.0
    assert cross_validated(drawn, clean, [False] * 60) is None
    assert cross_validated(drawn[:5], clean[:5], [True] * 5) is None
    assert len(ArchitectureTable.of(drawn)) == 60


def _values(outcome: Outcome) -> tuple[float, ...]:
    latency = outcome.readings["latency_ms"]
    assert isinstance(latency, Reading)
    return latency.values


def test_the_lock_is_no_file_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with only_campaign(tmp_path / "s"):
        assert [p.name for p in (tmp_path / "s").rglob("*") if p.is_file()] == []
    with pytest.raises(InvalidStore), only_campaign(tmp_path / "s"), only_campaign(tmp_path / "s"):
        pass
