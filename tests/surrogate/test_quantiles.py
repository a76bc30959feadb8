"""Quantile functions between knots and beyond: one is the other's inverse, and neither crosses."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from hwbench.surrogate.quantiles import normal_scores, quantile_at, score_of

Floats = NDArray[np.float64]

SCORES = normal_scores(np.array([0.05, 0.25, 0.5, 0.75, 0.95]))


@st.composite
def functions(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """Knots that rise, and slopes of the tails, of three rows."""
    steps = draw(arrays(np.float64, (3, 5), elements=st.floats(1e-3, 2.0)))
    start = draw(arrays(np.float64, (3, 1), elements=st.floats(-5.0, 5.0)))
    tails = draw(arrays(np.float64, (3, 2), elements=st.floats(0.05, 3.0)))
    return start + np.cumsum(steps, axis=1), tails


asked = arrays(np.float64, (3, 7), elements=st.floats(-5.0, 5.0))


def test_normal_scores_are_those_of_the_standard_library() -> None:
    levels = np.array([0.001, 0.1, 0.5, 0.977])
    assert normal_scores(levels) == pytest.approx([NormalDist().inv_cdf(q) for q in levels])


@settings(deadline=None)
@given(functions(), asked)
def test_score_undoes_quantile(function: tuple[Floats, Floats], scores: Floats) -> None:
    knots, tails = function
    values = quantile_at(knots, SCORES, tails, scores)
    assert score_of(knots, SCORES, tails, values) == pytest.approx(scores, abs=1e-8)


@settings(deadline=None)
@given(functions(), asked)
def test_quantiles_never_cross(function: tuple[Floats, Floats], scores: Floats) -> None:
    """At a knot they used to fall by a rounding error."""
    knots, tails = function
    close = np.concatenate([np.nextafter(SCORES, -9), SCORES, np.nextafter(SCORES, 9)])
    scores = np.concatenate([scores, np.tile(close, (3, 1))], axis=1)
    values = quantile_at(knots, SCORES, tails, np.sort(scores, axis=1))
    assert (np.diff(values, axis=1) >= 0).all()


@settings(deadline=None)
@given(functions(), asked)
def test_agrees_with_a_plain_loop(function: tuple[Floats, Floats], scores: Floats) -> None:
    knots, tails = function
    values = quantile_at(knots, SCORES, tails, scores)
    for row, column in np.ndindex(scores.shape):
        z = scores[row, column]
        expected = np.interp(z, SCORES, knots[row])
        if z < SCORES[0]:
            expected = knots[row, 0] - tails[row, 0] * (SCORES[0] - z)
        if z > SCORES[-1]:
            expected = knots[row, -1] + tails[row, 1] * (z - SCORES[-1])
        assert values[row, column] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_the_tails_go_on_where_the_knots_end() -> None:
    knots, tails = np.array([[0.0, 1.0, 2.0]]), np.array([[5.0, 7.0]])
    scores = np.array([-1.0, 0.0, 1.0])
    found = quantile_at(knots, scores, tails, np.array([[-2.0, -1.0, 0.5, 1.0, 2.0]]))
    assert found.tolist() == [[-5.0, 0.0, 1.5, 2.0, 9.0]]


@pytest.mark.parametrize("value", [-1.0, 0.0, 0.5, 1.0, 3.0])
def test_equal_knots_are_undone_too(value: float) -> None:
    """A value above equal knots used to get the score of the least of them."""
    knots, tails = np.array([[0.0, 0.0, 1.0, 1.0, 1.0]]), np.ones((1, 2))
    found = score_of(knots, SCORES, tails, np.array([[value]]))
    assert np.isfinite(found).all()
    back = quantile_at(knots, SCORES, tails, found)
    assert back[0, 0] == pytest.approx(value)
