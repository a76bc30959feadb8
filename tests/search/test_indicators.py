"""Indicators against hand-made fronts and slow oracles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hwbench.search.indicators import (
    Frame,
    attainment,
    epsilon,
    hypervolume,
    igd_plus,
    regret,
    scores,
)
from hwbench.search.optimiser import front, ranks, sparsity

UNIT = Frame(np.zeros(2), np.ones(2))
points = arrays(np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=st.floats(0, 1))


def slow_hypervolume(costs: np.ndarray) -> float:
    """The area that is dominated, column by column."""
    xs = np.unique(np.concatenate([costs[:, 0], [1.0]]))
    widths, total = np.diff(xs), 0.0
    for x, width in zip(xs, widths, strict=False):
        lowest = costs[costs[:, 0] <= x, 1].min(initial=1.0)
        total += width * (1 - lowest)
    return total


@given(points)
def test_hypervolume_is_the_dominated_area(costs: np.ndarray) -> None:
    assert hypervolume(costs) == pytest.approx(slow_hypervolume(costs), abs=1e-12)


@given(points)
def test_the_front_is_what_nothing_dominates(costs: np.ndarray) -> None:
    kept = front(costs, np.zeros(len(costs)))
    for i, one in enumerate(costs):
        dominated = ((costs <= one).all(axis=1) & (costs < one).any(axis=1)).any()
        first = int(np.flatnonzero((costs == one).all(axis=1))[0])
        assert kept[i] == (not dominated and first == i)


def test_no_front_without_anything_feasible() -> None:
    assert not front(np.zeros((2, 2)), np.ones(2)).any()


def test_ranks_put_violations_last() -> None:
    found = ranks(np.array([[1.0, 2.0], [2.0, 3.0], [0.0, 0.0]]), np.array([0.0, 0.0, 1.0]))
    assert found.argsort().tolist() == [0, 1, 2]


def test_sparsity_favours_ends_and_gaps() -> None:
    costs = np.array([[0.0, 1.0], [0.1, 0.9], [0.2, 0.8], [0.9, 0.1], [1.0, 0.0]])
    found = sparsity(costs, np.zeros(5))
    assert np.isinf(found[[0, 4]]).all()
    assert found[2] > found[1]


def test_distances_to_the_best_front() -> None:
    best = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert epsilon(best + 0.1, best) == pytest.approx(0.1)
    assert igd_plus(best + np.array([0.1, 0.0]), best) == pytest.approx(0.1)
    assert epsilon(best, best) == igd_plus(best, best) == 0
    assert epsilon(best[:0], best) == igd_plus(best[:0], best) == np.inf


def test_regret_is_a_share() -> None:
    assert regret(0.4, 0.5) == pytest.approx(0.2)
    assert regret(0.0, 0.0) == 0


def test_a_point_outside_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="1 of 2 points lie outside"):
        UNIT.normalised(np.array([[0.5, 0.5], [1.5, 0.5]]))


def test_scores_are_of_what_was_seen_until_then() -> None:
    rng = np.random.default_rng(0)
    costs = rng.random((50, 2))
    best = np.array([[0.0, 0.0]])
    found = scores(costs, np.zeros(50), UNIT, best, (1, 10, 50, 80))
    assert found.at == (1, 10, 50)
    for k, volume in zip(found.at, found.hypervolume, strict=True):
        assert volume == pytest.approx(slow_hypervolume(costs[:k]))
    assert (np.diff(found.hypervolume) >= 0).all()
    assert set(found.rows.tolist()) == set(np.flatnonzero(front(costs, np.zeros(50))).tolist())
    assert (found.front == costs[found.rows]).all()


def test_the_median_surface_is_attained_by_half() -> None:
    fronts = [np.array([[0.1 * i, 0.1 * i]]) for i in range(1, 5)]
    (surface,) = attainment(fronts, (50,))
    assert surface == pytest.approx(np.array([[0.2, 0.2]]))
