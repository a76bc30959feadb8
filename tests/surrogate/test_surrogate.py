"""Predictions: positive, rising, the same one by one and together, in the parts that they claim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hwbench import space
from hwbench.architectures import ArchitectureTable
from hwbench.encode import Features
from hwbench.surrogate.fit import Fit
from tests.surrogate.synthetic import space_s

levels = st.lists(st.floats(1e-6, 1 - 1e-6), min_size=2, max_size=12)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), levels)
def test_quantiles_are_positive_and_never_cross(fit: Fit, seed: int, asked: list[float]) -> None:
    features, rising = Features(ArchitectureTable.of(space("s").sample(5, seed))), np.sort(asked)
    distribution = fit.surrogate.distribution(features)
    found = distribution.quantiles(rising)
    assert (found[:, 1:] >= found[:, :-1]).all()
    for row, own in enumerate(found):
        low, high = distribution.support(row)
        inside = (rising >= low) & (rising <= high)
        assert np.isfinite(own[inside]).all()
        assert (own[inside] > 0).all()
        assert (own[rising < low - 1e-9] == 0).all()
        assert np.isinf(own[rising > high + 1e-9]).all()


def test_levels_beyond_the_support_are_the_ends_of_the_range(fit: Fit) -> None:
    features = Features(space_s(3))
    assert (
        fit.surrogate.quantiles(features, np.array([1e-9, 1 - 1e-9])).tolist()
        == [[0.0, np.inf]] * 3
    )


def test_one_by_one_is_the_same_as_together(fit: Fit) -> None:
    """Few rows walk down a `Forest`, many go through XGBoost: the same to the last bit."""
    table, asked = space_s(2100, seed=8), np.array([0.05, 0.5, 0.95])
    assert fit.surrogate.correction is not None
    assert fit.surrogate.spread.booster is not None
    many = fit.surrogate.quantiles(Features(table), asked)
    for rows in ([0], [5, 3], list(range(63)), list(range(64)), list(range(100, 1000))):
        some = fit.surrogate.quantiles(Features(table.take(np.array(rows))), asked)
        assert (some == many[rows]).all()


def test_the_order_of_levels_does_not_matter(fit: Fit) -> None:
    features, asked = Features(space_s(10)), np.array([0.9, 0.1, 0.5])
    found = fit.surrogate.quantiles(features, asked)
    assert (found == fit.surrogate.quantiles(features, np.sort(asked))[:, [2, 0, 1]]).all()


def test_scores_undo_uncalibrated_quantiles(fit: Fit) -> None:
    """With an identity for a calibration, level and observed share are one."""
    features = Features(space_s(20))
    distribution = fit.surrogate.distribution(features)
    values = distribution.quantiles(np.array([0.1, 0.4, 0.8]))
    calibrated = fit.surrogate.calibration.score(np.array([0.1, 0.4, 0.8]))
    assert distribution.scores_of(values) == pytest.approx(calibrated[features.width], abs=1e-6)


def test_taking_rows_is_predicting_them(fit: Fit) -> None:
    table, asked = space_s(30), np.array([0.25, 0.75])
    rows = np.array([4, 20])
    whole = fit.surrogate.distribution(Features(table))
    assert (whole.take(rows).quantiles(asked) == whole.quantiles(asked)[rows]).all()


def test_components_are_in_the_metrics_unit(fit: Fit) -> None:
    features = Features(space_s(5))
    distribution, parts = fit.surrogate.distribution(features), fit.surrogate.components
    median = distribution.quantiles(np.array([0.5]))[:, 0]
    assert parts.repeat is not None
    for row, width in enumerate(features.width):
        expected = {
            "repeat": median[row] * parts.repeat[width],
            "drift": median[row] * parts.drift[width],
            "model": median[row] * parts.model[width],
        }
        assert distribution.components(row) == pytest.approx(expected)
    without = replace(fit.surrogate, components=replace(parts, repeat=None))
    assert without.distribution(features).components(0)["repeat"] is None


def test_the_architectures_own_spread_never_falls(fit: Fit) -> None:
    """Whatever the booster adds, quantiles that cross are exchanged."""
    table = space_s(500, seed=4)
    knots: NDArray[np.float64] = fit.surrogate.spread.quantiles(Features(table))
    assert (np.diff(knots, axis=1) >= 0).all()
    tight = replace(fit.surrogate.spread, knots=np.zeros_like(fit.surrogate.spread.knots))
    assert (np.diff(tight.quantiles(Features(table)), axis=1) >= 0).all()
