"""A correction in two stages: the second follows the level, and only where that helps."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable
from hwbench.encode import Features, encoder
from hwbench.surrogate.boosting import fit_correction
from hwbench.surrogate.settings import Settings
from hwbench.surrogate.surrogate import Booster
from tests.surrogate.synthetic import space_s

Floats = NDArray[np.float64]

SETTINGS = Settings(correction_rounds=10, level_rounds=15)


@pytest.fixture(scope="module")
def table() -> ArchitectureTable:
    return space_s(2000)


@pytest.fixture(scope="module")
def steady(table: ArchitectureTable) -> Floats:
    """Residuals without drift: the first layer's heads matter."""
    noise = 0.002 * np.random.default_rng(0).standard_normal(len(table))
    return np.where(table.n_head[:, 0] == 12, 0.02, 0.0) + noise


def trees(booster: Booster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(booster.model.save_raw("json"))["learner"][
        "gradient_booster"
    ]["model"]["trees"]
    return found


def fallen(table: ArchitectureTable, seed: int = 1) -> Floats:
    """A machine in its slow state, which it is in for most of the deep ones and few of the rest."""
    drawn = np.random.default_rng(seed).random(len(table))
    return np.where(drawn < np.where(table.n_layer == 12, 0.9, 0.1), 0.1, 0.0)


def wander(table: ArchitectureTable, seed: int) -> Floats:
    """A machine that wanders alike for all."""
    return 0.05 * np.random.default_rng(seed).standard_normal(len(table))


def test_the_level_is_followed_where_it_depends_on_the_architecture(
    table: ArchitectureTable, steady: Floats
) -> None:
    found = fit_correction(table, steady, steady + fallen(table), SETTINGS)
    assert len(trees(found)) == 25
    fresh = space_s(500, seed=9)
    moved = found.predict(Features(fresh))[:, 0]
    deep = fresh.n_layer == 12
    assert np.median(moved[deep]) - np.median(moved[~deep]) > 0.05


def test_the_level_is_left_where_it_does_not(table: ArchitectureTable, steady: Floats) -> None:
    """What the machine does to all alike tells nothing of an architecture."""
    found = [fit_correction(table, steady, steady + wander(table, s), SETTINGS) for s in range(3)]
    assert [len(trees(f)) for f in found] == [10, 10, 10]
    assert len({bytes(f.model.save_raw("ubj")) for f in found}) == 1


def test_the_second_stage_looks_at_the_counts_alone(
    table: ArchitectureTable, steady: Floats
) -> None:
    made = encoder("layer-positions")
    counts = encoder("layer-counts").columns(table.search_space)
    assert made.columns(table.search_space)[: len(counts)] == counts
    found = trees(fit_correction(table, steady, steady + fallen(table), SETTINGS))

    def used(some: list[dict[str, Any]]) -> set[int]:
        return {
            feature
            for tree in some
            for feature, left in zip(tree["split_indices"], tree["left_children"], strict=True)
            if left >= 0
        }

    assert max(used(found[:10])) >= len(counts)
    assert max(used(found[10:])) < len(counts)


def test_the_first_stage_is_kept_as_it_was(table: ArchitectureTable, steady: Floats) -> None:
    """Training on does not touch the trees that are there."""
    both = fit_correction(table, steady, steady + fallen(table), SETTINGS)
    first = fit_correction(table, steady, steady + wander(table, 0), SETTINGS)
    assert trees(both)[:10] == trees(first)


def test_the_seed_decides(table: ArchitectureTable, steady: Floats) -> None:
    level = steady + fallen(table)
    once, again, other = (
        fit_correction(table, steady, level, Settings(correction_rounds=5, seed=s)).model.save_raw(
            "ubj"
        )
        for s in (0, 0, 1)
    )
    assert once == again != other
