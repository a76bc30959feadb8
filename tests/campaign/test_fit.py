"""From profile to answer: what a campaign measured is fitted by its roles, and answers queries."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hwbench import Benchmark
from hwbench.architectures import space
from hwbench.campaign import Campaign, run_campaign
from hwbench.cli.app import run
from hwbench.measure.setup import Outcome, Reading, Setup
from hwbench.measure.worker import Worker
from hwbench.surrogate.shrinkage import SHRINKS

SETUP = Setup(batch_size=1, seq_len=16)


class Machine(Worker):
    """A machine whose costs are known: additive, with 1% of noise and a slow drift of 10%."""

    def __init__(self) -> None:
        super().__init__(SETUP)
        self.rng = np.random.default_rng(3)
        self.taken = 0

    def card(self) -> dict[str, object]:
        return {}

    def measure(self, arch: object) -> Outcome:
        drift = 1 + 0.05 * np.sin(self.taken / 8)
        self.taken += 1
        noise = np.exp(self.rng.normal(0, 0.01)) * np.exp(self.rng.normal(0, 0.002, 10))
        values = tuple(float(v) for v in truth(arch) * drift * noise)
        return Outcome(readings={"latency_ms": Reading(values=values, method="formula")})


def truth(arch: object) -> float:
    a: object = arch
    heads = {4: 1.0, 8: 2.0, 12: 2.5}
    ratios = {2: 1.0, 3: 1.7, 4: 2.2}
    layers = sum(heads[h] for h in a.n_head) + sum(ratios[r] for r in a.mlp_ratio)  # type: ignore[attr-defined]
    return 2.0 + a.embed_dim / 192 * layers * (1.02 if a.bias else 1.0)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("profile")
    campaign = Campaign(space=space("s"), device_name="my-gpu", setup=SETUP, tests=40)
    run_campaign(campaign, root / "store", worker=Machine())
    assert run(["fit", "--store", str(root / "store"), "--out", str(root / "art")]) == 0
    return root / "art"


def test_the_card_says_what_was_measured_and_scores_on_the_tests(fitted: Path) -> None:
    card = json.loads((fitted / "s/my-gpu/latency.json").read_text())
    assert card["evidence"] == "low"
    assert card["split"]["campaign"] is True
    assert card["split"]["test_architectures"] == 40
    assert card["training"]["observations"]["calibrate"] == 20
    assert card["chosen"]["shrink"] in SHRINKS
    assert card["training"]["observations"]["train"] > 64  # the anchor stands several times
    assert card["scores"]["mape_drift_adjusted"] < card["scores"]["mape"]
    assert card["scores"]["mape_drift_adjusted"] < 2.5
    assert card["scores"]["architectures"] == 40  # not 80, though each is measured twice


def test_the_same_fit_is_not_made_again(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    store = str(fitted.parent / "store")
    assert run(["fit", "--store", store, "--out", str(fitted), "--json"]) == 0
    assert [row["fitted"] for row in json.loads(capsys.readouterr().out)] == [False]


def test_queries_are_answered_with_the_truth_and_wide_enough(fitted: Path) -> None:
    bench = Benchmark("s", artifacts=fitted)
    asked = space("s").sample(200, seed=4)
    found = bench.predict(asked, device="my-gpu", metric="latency", quantiles=(0.05, 0.5, 0.95))
    true = np.array([truth(a) for a in asked])
    assert np.mean(np.abs(found[:, 1] / true - 1)) < 0.03
    assert np.mean((true > found[:, 0]) & (true < found[:, 2])) > 0.8
    assert np.isfinite(found).all()


def test_a_level_that_20_architectures_do_not_support_is_infinite(fitted: Path) -> None:
    bench = Benchmark("s", artifacts=fitted)
    answer = bench.query(space("s").largest, devices="my-gpu", metrics="latency")
    prediction = answer["my-gpu"]["latency"]
    with pytest.warns(UserWarning, match="20 calibration architectures support 90.47% at most"):
        low, high = prediction.interval(0.95)
    assert low == 0
    assert np.isinf(high)
    low, high = prediction.interval(0.9)
    assert 0 < low < prediction.median < high < np.inf
