"""A simulated campaign, on synthetic observations whose truth is known and on recorded ones."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from hwbench.architectures import ArchitectureTable, space
from hwbench.campaign.simulate import Simulated, plan_of, simulate
from hwbench.encode import Features
from hwbench.records import Observations, Readings, Repeats, Store, StoreWriter
from hwbench.surrogate.fit import Measurements
from hwbench.workload import Workload

NOISE = 0.01


@pytest.fixture(scope="module")
def observations(tmp_path_factory: pytest.TempPathFactory) -> Observations:
    """Additive costs and 1% of noise, 2,500 architectures."""
    rng = np.random.default_rng(0)
    table = ArchitectureTable.of(space("s").sample(2500, seed=9))
    features = Features(table)
    layer = features.counts @ np.array([1.0, 2.0, 2.5, 1.0, 1.7, 2.2])
    cost = 2.0 + np.array([1.0, 2.0, 5.0])[features.width] * layer * (1 + 0.02 * table.bias)
    values = cost[:, None] * np.exp(rng.normal(0, NOISE, (len(table), 5)))
    writer = StoreWriter.create(
        tmp_path_factory.mktemp("s") / "store", name="s", source="synthetic", licence="CC0-1.0"
    )
    n = len(table)
    writer.append(
        Readings(
            device="h100",
            metric="latency",
            workload=Workload(batch_size=8, seq_len=1024, method="synthetic"),
            architectures=table,
            session=np.zeros(n, int),
            position=np.arange(n),
            repeats=Repeats(values.ravel(), np.arange(n + 1) * 5),
        )
    )
    found = Store.open(writer.path).observations("h100", "s", "latency")
    assert found is not None
    return found


def test_64_are_nearly_as_good_as_all_and_intervals_hold(observations: Observations) -> None:
    (found,) = simulate(observations, draws=4, seed=1)
    assert isinstance(found, Simulated)
    assert (found.device, found.space, found.budget, found.draws) == ("h100", "s", 64, 4)
    assert found.pool == 1500
    assert found.full < 100 * NOISE
    assert 1.0 < found.over_full < 2.0
    assert found.over_chance < 1.1
    assert 82 < found.coverage < 99
    assert found.width > 100 * NOISE


def test_the_error_falls_with_every_measurement_to_what_these_allow(
    observations: Observations,
) -> None:
    """200 were once no better than 64: two architectures calibrated, and moved the median."""
    curve = simulate(observations, (24, 64, 200), draws=3)
    few, some, many = (found.planned for found in curve)
    # The median of five measurements misses by this much on its own.
    least = 100 * NOISE * np.sqrt(np.pi / 2 / 5) * np.sqrt(2 / np.pi)
    assert few > 2 * some
    assert some < 1.25 * least
    assert least < many < 1.07 * least
    assert many < 0.95 * some
    assert [found.over_chance < 1.1 for found in curve] == [True] * 3
    assert len({found.full for found in curve}) == 1
    assert np.isinf(curve[0].width)  # of 24, seven calibrate
    assert curve[2].width < curve[1].width < np.inf


def test_a_plan_has_no_architecture_twice(observations: Observations) -> None:
    measured, pool = Measurements.of(observations), np.arange(500, 2000)
    chosen, drawn = plan_of(measured, pool, 64, np.random.default_rng(0))
    assert (len(chosen), len(drawn)) == (44, 20)
    both = np.concatenate([chosen, drawn])
    assert len(np.unique(both)) == 64
    assert np.isin(both, pool).all()


@pytest.fixture
def script() -> ModuleType:
    path = Path(__file__).parents[2] / "scripts/simulate_profiles.py"
    spec = importlib.util.spec_from_file_location("simulate_profiles", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_goes_on_where_it_was_and_makes_rows_of_other_draws_anew(
    observations: Observations,
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[tuple[int, ...]] = []

    def simulated(
        seen: Observations, budgets: tuple[int, ...], *, draws: int = 5
    ) -> list[Simulated]:
        asked.append(tuple(budgets))
        row = Simulated(
            device="h100",
            space="s",
            budget=0,
            draws=draws,
            pool=8000,
            full=0.2,
            planned=0.25,
            chance=0.3,
            coverage=90.0,
            width=np.inf,
        )
        return [replace(row, budget=b) for b in budgets]

    class Recorded:
        def observations(self, device: str, space: str, metric: str) -> Observations | None:
            return observations if (device, space, metric) == ("h100", "s", "latency") else None

    monkeypatch.setattr(script, "simulate", simulated)
    path = tmp_path / "simulation.csv"
    script.run(Recorded(), path, 2)
    found = script.read(path)
    assert [s.budget for s in found] == list(script.BUDGETS)
    script.write(path, found[2:])
    script.run(Recorded(), path, 2)
    script.run(Recorded(), path, 2)
    script.run(Recorded(), path, 3)
    assert asked == [script.BUDGETS, script.BUDGETS[:2], script.BUDGETS]
    assert {s.draws for s in script.read(path)} == {3}
    assert [p.name for p in tmp_path.iterdir()] == ["simulation.csv"]
    script.show([s for s in script.read(path) if s.budget == script.SHOWN])
    assert "64 over all, median of 1 GPU tasks: 1.250" in capsys.readouterr().out


@pytest.mark.recorded
@pytest.mark.slow
def test_a_recorded_device(recorded_store: Path) -> None:
    seen = Store.open(recorded_store).observations("h100", "s", "latency")
    assert seen is not None
    (found,) = simulate(seen, draws=3)
    assert found.planned < 0.3
    assert found.over_full < 1.4
    assert found.coverage > 85
