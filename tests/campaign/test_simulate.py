"""A simulated campaign, on synthetic observations whose truth is known and on recorded ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwbench.architectures import ArchitectureTable, space
from hwbench.campaign.simulate import Simulated, learning_curve, plan_of, simulate
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
    found = simulate(observations, draws=4, seed=1)
    assert isinstance(found, Simulated)
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
    few, some, many = learning_curve(observations, (24, 64, 200), draws=3)
    # The median of five measurements misses by this much on its own.
    least = 100 * NOISE * np.sqrt(np.pi / 2 / 5) * np.sqrt(2 / np.pi)
    assert few > 2 * some
    assert some < 1.25 * least
    assert least < many < 1.07 * least
    assert many < 0.95 * some


def test_a_plan_has_no_architecture_twice(observations: Observations) -> None:
    measured, pool = Measurements.of(observations), np.arange(500, 2000)
    chosen, drawn = plan_of(measured, pool, 64, np.random.default_rng(0))
    assert (len(chosen), len(drawn)) == (44, 20)
    both = np.concatenate([chosen, drawn])
    assert len(np.unique(both)) == 64
    assert np.isin(both, pool).all()


@pytest.mark.recorded
@pytest.mark.slow
def test_a_recorded_device(recorded_store: Path) -> None:
    seen = Store.open(recorded_store).observations("h100", "s", "latency")
    assert seen is not None
    found = simulate(seen, draws=3)
    assert found.planned < 0.3
    assert found.over_full < 1.4
    assert found.coverage > 85
