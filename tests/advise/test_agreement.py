"""Agreement with recordings: on synthetic ones whose truth is known, and on the recorded store."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from hwbench import space
from hwbench.advise.agreement import FITTED, PREDICTORS, WHOLE, agreement, agreements, tau_inside
from hwbench.architectures import ArchitectureTable
from hwbench.cost.forward import Setting, forward_ms
from hwbench.devices import hardware
from hwbench.errors import InvalidStore
from hwbench.records import Observations, RecordedArchitectures, Repeats, Store
from hwbench.workload import Workload

TABLE = Path(__file__).parents[2] / "docs/advise-recorded.csv"
WORKLOAD = Workload(
    batch_size=8, seq_len=1024, compute_dtype="bfloat16", autocast=True, method="made up"
)


def observed(factor: float, n: int = 400, noise: float = 0.0) -> Observations:
    """Latencies that are the model's own, times a factor, with noise."""
    table = ArchitectureTable.of(space("s").sample(n, seed=0))
    truth = forward_ms(table, hardware("a100"), Setting(batch_size=8))
    generator = np.random.default_rng(0)
    values = factor * truth * np.exp(noise * generator.standard_normal(n))
    ids = np.arange(n)
    return Observations(
        device="a100",
        space="s",
        field="latency_ms",
        metric="latency",
        workload=WORKLOAD,
        workload_index=0,
        recorded=RecordedArchitectures(space("s"), table, ids, None, None, {}),
        arch_id=ids,
        row=ids,
        session=np.zeros(n, np.int64),
        position=ids,
        repeats=Repeats(values, np.arange(n + 1)),
    )


def test_the_model_agrees_with_itself() -> None:
    found = agreement(observed(1.25), hardware("a100"))
    assert found.tau[WHOLE] == pytest.approx(1.0)
    assert found.tau[FITTED] > 0.99
    assert all(found.tau[name] < 1 for name in PREDICTORS if name != WHOLE)
    assert list(found.ratio) == [192, 384, 768]
    assert all(ratio == pytest.approx(0.8) for ratio in found.ratio.values())
    assert 20 < found.architectures < 70


def test_noise_lowers_the_score() -> None:
    found = agreement(observed(1.0, noise=0.3), hardware("a100"))
    assert found.tau[WHOLE] < 0.6


def test_width_does_not_carry_the_score() -> None:
    groups = np.repeat([1, 2], 50)
    recorded = np.random.default_rng(0).random(100)
    assert abs(tau_inside(groups, groups + np.arange(100) % 2, recorded)) < 0.2


def test_nothing_to_score_is_an_error() -> None:
    with pytest.raises(InvalidStore, match="No architecture of s is in the part 'test'"):
        agreement(observed(1.0, n=1), hardware("a100"))


@pytest.mark.recorded
def test_the_table_in_the_docs_is_what_the_store_gives(recorded_store: Path) -> None:
    """Rank correlation inside each width, mean over 8 GPUs and 3 spaces: at least 0.78."""
    found = list(agreements(Store.open(recorded_store)))
    assert len(found) == 24
    assert np.mean([one.tau[WHOLE] for one in found]) >= 0.78
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["device"], r["space"]) for r in rows] == [(o.device, o.space) for o in found]
    for row, one in zip(rows, found, strict=True):
        for name, tau in one.tau.items():
            assert float(row[name]) == pytest.approx(tau, abs=0.002)
