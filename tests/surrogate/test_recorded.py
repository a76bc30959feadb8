"""The shipped artefacts' scores can be made again from the recorded store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwbench.architectures import ArchitectureTable
from hwbench.encode import Features
from hwbench.records import Store
from hwbench.records.split import SALT, digest, split
from hwbench.surrogate import Catalogue, load, shipped
from hwbench.surrogate.fit_all import Task, fit_one, held_out, rescore, tasks
from hwbench.surrogate.settings import Settings

pytestmark = pytest.mark.recorded

SAMPLE = [
    Task("s", "h100", "latency"),
    Task("m", "a100", "memory"),
    Task("l", "cpu_amd_7513", "energy"),
    Task("s", None, "perplexity"),
]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    found = Catalogue.of(shipped())
    if not found.cards:
        pytest.skip("no artefacts in surrogates/ yet")
    return found


def test_everything_recorded_is_shipped(recorded_store: Path, catalogue: Catalogue) -> None:
    there = {(t.space, t.device, t.metric) for t in tasks(Store.open(recorded_store))}
    assert set(catalogue.cards) == there
    count = {m: sum(key[2] == m for key in there) for m in ("latency", "energy", "memory")}
    assert count == {"latency": 14 * 3, "energy": 13 * 3, "memory": 2 * 3}


@pytest.mark.parametrize("task", SAMPLE, ids=str)
def test_the_cards_scores_are_reproduced(
    recorded_store: Path, catalogue: Catalogue, task: Task
) -> None:
    card = catalogue.card(task.space, task.device, task.metric)
    assert card is not None
    assert card.scores is not None
    again = rescore(Store.open(recorded_store), card)
    assert again.keys() == card.scores.keys()
    for name, value in again.items():
        # Another processor's last bits may move a reading across an interval's end.
        assert value == pytest.approx(card.scores[name], rel=1e-6, abs=1e-3), name


@pytest.mark.parametrize("task", SAMPLE, ids=str)
def test_the_card_names_the_architectures_that_it_held_out(
    recorded_store: Path, catalogue: Catalogue, task: Task
) -> None:
    card = catalogue.card(task.space, task.device, task.metric)
    assert card is not None
    measured, labels = held_out(Store.open(recorded_store), card)
    test = measured.table.take(labels == "test")
    said = card.values["split"]
    assert said["test_sha256"] == digest(test)
    assert said["test_architectures"] == len(test)
    assert said["salt"] == SALT
    assert labels.tolist() == split(measured.table).tolist()


@pytest.mark.parametrize("task", [SAMPLE[0], Task("l", None, "perplexity")], ids=str)
def test_the_shipped_artefacts_are_those_of_this_code(
    recorded_store: Path, catalogue: Catalogue, task: Task, tmp_path: Path
) -> None:
    """A change of how surrogates are fitted needs new artefacts: hwbench fit --out surrogates."""
    shipped_card = catalogue.card(task.space, task.device, task.metric)
    assert shipped_card is not None
    fitted = fit_one(recorded_store, tmp_path, task, Settings()).card
    for key in ("training", "split", "settings", "workload", "space", "unit", "evidence"):
        assert fitted.values[key] == shipped_card.values[key], key
    features = Features(ArchitectureTable.of(fitted.search_space.sample(500, seed=0)))
    levels = np.array([0.05, 0.5, 0.95])
    # Bytes are the same on the same kind of machine; elsewhere a split of a tree may differ.
    new, old = (load(card).quantiles(features, levels) for card in (fitted, shipped_card))
    assert np.quantile(np.abs(new / old - 1), 0.95) < 1e-4
