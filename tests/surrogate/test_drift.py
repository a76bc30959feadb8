"""Drift is read off neighbours, never off the observation itself, and only where there is one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hwbench.surrogate.drift import NO_DRIFT, DriftModel, fit_drift, neighbour_median
from tests.surrogate.synthetic import sessions, sinusoid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N = 2000
SESSION, POSITION = sessions(N)
WIDTH = np.random.default_rng(99).integers(0, 3, N)
KNOWN = np.random.default_rng(98).random(N) < 0.7


def step(session: Ints, position: Ints) -> Floats:
    return np.where(position > 400, 0.08, 0.0) + 0.02 * session


def noise(seed: int, size: float = 0.01) -> Floats:
    return size * np.random.default_rng(seed).standard_normal(N)


@pytest.mark.parametrize("shape", [sinusoid(0.05), step])
def test_finds_a_known_drift(shape: Callable[[Ints, Ints], Floats]) -> None:
    truth = shape(SESSION, POSITION)
    residuals = truth + noise(1)
    model = fit_drift(residuals, SESSION, POSITION, WIDTH, KNOWN)
    assert model.window > 0
    assert not model.grouped
    found = model.estimate(residuals, SESSION, POSITION, WIDTH, KNOWN)
    for rows in (KNOWN, ~KNOWN):
        centred = truth[rows] - np.median(truth)
        assert np.corrcoef(found[rows], centred)[0, 1] > 0.95
        assert np.std(found[rows] - truth[rows]) < 0.4 * np.std(truth[rows])


def test_finds_next_to_none_where_there_is_none() -> None:
    """Chance is taken for drift now and then, and then for far less than the noise is."""
    found = []
    for seed in range(20):
        residuals = 0.3 + noise(seed)
        model = fit_drift(residuals, SESSION, POSITION, WIDTH, KNOWN)
        found.append(model.estimate(residuals, SESSION, POSITION, WIDTH, KNOWN))
    assert sum(bool(estimate.any()) for estimate in found) <= 3
    assert max(float(np.std(estimate)) for estimate in found) < 0.2 * 0.01


def test_drift_of_one_width_alone_is_read_off_its_own_neighbours() -> None:
    truth = np.where(WIDTH == 1, 1.0, -1.0) * sinusoid(0.05)(SESSION, POSITION)
    residuals = truth + noise(2)
    model = fit_drift(residuals, SESSION, POSITION, WIDTH, KNOWN)
    assert model.grouped
    found = model.estimate(residuals, SESSION, POSITION, WIDTH, KNOWN)
    assert np.corrcoef(found, truth)[0, 1] > 0.9


def test_a_constant_is_the_locations_and_no_drift() -> None:
    truth = sinusoid(0.05)(SESSION, POSITION)
    plain, shifted = truth + noise(3), 0.7 + truth + noise(3)
    found = [
        fit_drift(r, SESSION, POSITION, WIDTH, KNOWN).estimate(r, SESSION, POSITION, WIDTH, KNOWN)
        for r in (plain, shifted)
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-6)
    assert abs(np.median(found[1])) < 0.02


def test_an_outlier_nearby_does_not_pass_for_drift() -> None:
    residuals = sinusoid(0.05)(SESSION, POSITION) + noise(4)
    model = fit_drift(residuals, SESSION, POSITION, WIDTH, KNOWN)
    before = model.estimate(residuals, SESSION, POSITION, WIDTH, KNOWN)
    broken = residuals.copy()
    broken[np.flatnonzero(KNOWN)[500]] = 50.0
    after = model.estimate(broken, SESSION, POSITION, WIDTH, KNOWN)
    assert np.abs(after - before).max() < 0.03


@settings(max_examples=30, deadline=None)
@given(st.integers(0, N - 1), st.sampled_from([3, 8, 25]), st.booleans())
def test_the_observation_itself_is_never_read(row: int, window: int, grouped: bool) -> None:
    residuals = noise(5)
    model = DriftModel(window, grouped, 1.0, 0.0, 1.0)
    before = model.estimate(residuals, SESSION, POSITION, WIDTH, KNOWN)
    residuals[row] = 1e6
    after = model.estimate(residuals, SESSION, POSITION, WIDTH, KNOWN)
    assert after[row] == before[row]


def test_what_is_not_known_is_never_read() -> None:
    residuals = sinusoid(0.05)(SESSION, POSITION) + noise(6)
    hidden = np.where(KNOWN, residuals, np.nan)
    model = fit_drift(residuals, SESSION, POSITION, WIDTH, KNOWN)
    assert fit_drift(hidden, SESSION, POSITION, WIDTH, KNOWN) == model
    arguments = SESSION, POSITION, WIDTH, KNOWN
    assert (model.estimate(hidden, *arguments) == model.estimate(residuals, *arguments)).all()


@pytest.mark.parametrize("window", [3, 8])
def test_the_median_is_that_of_a_plain_loop(window: int) -> None:
    rng = np.random.default_rng(7)
    n = 120
    session, position = rng.integers(0, 2, n), rng.permutation(n)
    group, known, residuals = rng.integers(0, 2, n), rng.random(n) < 0.6, rng.random(n)
    found = neighbour_median(residuals, session, position, group, known, window)
    for i in range(n):
        others = [
            j
            for j in range(n)
            if known[j] and j != i and session[j] == session[i] and group[j] == group[i]
        ]
        before = sorted((j for j in others if position[j] < position[i]), key=lambda j: position[j])
        after = sorted((j for j in others if position[j] > position[i]), key=lambda j: position[j])
        expected = np.median(residuals[before[-window:] + after[:window]])
        assert found[i] == pytest.approx(expected)


def test_sessions_do_not_mix() -> None:
    residuals = np.where(SESSION == 0, 0.1, -0.1) + noise(8, 1e-4)
    found = neighbour_median(residuals, SESSION, POSITION, np.zeros(N, np.int64), KNOWN, 8)
    assert found == pytest.approx(np.where(SESSION == 0, 0.1, -0.1), abs=1e-3)


def test_a_session_with_too_few_known_observations_does_not_drift() -> None:
    session = np.array([0] * 20 + [1] * 6)
    position = np.concatenate([np.arange(20), np.arange(6)])
    known = np.array([True] * 20 + [True] * 4 + [False] * 2)
    model = DriftModel(3, False, 1.0, 0.0, 1.0)
    found = model.estimate(np.full(26, 0.5), session, position, np.zeros(26, np.int64), known)
    assert found.tolist() == [0.5] * 20 + [0.0] * 6


def test_too_few_observations_of_all_do_not_drift() -> None:
    few = np.zeros(N, bool)
    few[:4] = True
    assert fit_drift(noise(9), SESSION, POSITION, WIDTH, few) == NO_DRIFT


def test_a_machine_without_any_noise_does_not_drift() -> None:
    model = fit_drift(np.full(N, 0.2), SESSION, POSITION, WIDTH, KNOWN)
    assert (model.estimate(np.full(N, 0.2), SESSION, POSITION, WIDTH, KNOWN) == 0).all()


def test_inputs_are_not_changed() -> None:
    columns = [noise(10), SESSION.copy(), POSITION.copy(), WIDTH.copy(), KNOWN.copy()]
    for column in columns:
        column.setflags(write=False)
    fit_drift(*columns).estimate(*columns)
