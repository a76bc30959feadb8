"""Conformal calibration repairs a wrong quantile function, and knows what it cannot support."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hwbench.errors import InvalidArtifact
from hwbench.surrogate.calibration import FEWEST_OF_A_GROUP, Calibration, fit_calibration

Floats = NDArray[np.float64]

LEVELS = np.array([0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975])


def calibrate(scores: Floats, architecture: NDArray[np.intp] | None = None) -> Calibration:
    """A calibration of one group."""
    n = len(scores)
    which = np.arange(n) if architecture is None else architecture
    return fit_calibration(scores, which, np.zeros(n, np.intp), 1)


def wrong_scores(rng: np.random.Generator, n: int, repeats: int, shared: float) -> Floats:
    """What a model that is off by 0.7 and twice too sure gives, repeats correlated by `shared`."""
    own = np.sqrt(shared) * rng.standard_normal((n, 1))
    return 0.7 + 2.0 * (own + np.sqrt(1 - shared) * rng.standard_normal((n, repeats)))


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("repeats", [1, 7])
def test_coverage_of_a_wrong_model_is_repaired(repeats: int, shared: float) -> None:
    rng = np.random.default_rng(0)
    draws, n = 400, 60
    below = np.empty((draws, len(LEVELS)))
    for i in range(draws):
        found = calibrate(wrong_scores(rng, n, repeats, shared)).score(LEVELS)[0]
        fresh = wrong_scores(rng, 200, 1, shared)
        below[i] = (fresh <= found).mean(axis=0)
    error = below.std(axis=0, ddof=1) / np.sqrt(draws)
    assert (np.abs(below.mean(axis=0) - LEVELS) < 4 * error + 1 / (2 * n)).all()


def test_a_right_model_is_left_as_it_is() -> None:
    scores = np.random.default_rng(1).standard_normal((20_000, 1))
    found = calibrate(scores).score(np.array([0.1, 0.5, 0.9]))[0]
    assert found == pytest.approx([-1.2816, 0.0, 1.2816], abs=0.04)


def test_twenty_architectures_support_90_percent_and_no_more() -> None:
    found = calibrate(np.arange(20.0)[:, None])
    assert found.architectures == (20,)
    assert found.support(0) == pytest.approx((1 / 21, 20 / 21))
    low, high, lower, higher = found.score(np.array([0.05, 0.95, 0.025, 0.975]))[0]
    assert np.isfinite([low, high]).all()
    assert (lower, higher) == (-np.inf, np.inf)
    # At the ends of the support stand the outermost scores.
    assert found.score(np.array(found.support(0)))[0] == pytest.approx([0.0, 19.0], abs=1e-9)


def test_nineteen_architectures_support_90_percent_however_it_is_written() -> None:
    found = calibrate(np.arange(19.0)[:, None])
    for levels in ([0.05, 0.95], [0.5 - 0.9 / 2, 0.5 + 0.9 / 2], [(1 - 0.9) / 2, (1 + 0.9) / 2]):
        assert found.score(np.array(levels))[0] == pytest.approx([0.0, 18.0], abs=1e-6)
    eighteen = calibrate(np.arange(18.0)[:, None])
    assert np.isinf(eighteen.score(np.array([0.05, 0.95]))).all()


def test_repeats_do_not_add_support() -> None:
    scores = np.random.default_rng(2).standard_normal((20, 1))
    once, often = calibrate(scores), calibrate(np.repeat(scores, 50, axis=1))
    assert once.support(0) == often.support(0)
    assert often.score(np.array([0.02, 0.98]))[0].tolist() == [-np.inf, np.inf]


def test_several_observations_of_an_architecture_count_once() -> None:
    """Each row used to count as an architecture of its own, so that 10 gave false finite ends."""
    scores = np.random.default_rng(3).standard_normal((10, 1))
    which = np.repeat(np.arange(10), 9)
    found = calibrate(np.repeat(scores, 9, axis=0), which)
    assert found.architectures == (10,)
    assert found.support(0) == calibrate(scores).support(0)
    assert np.isinf(found.score(np.array([0.05, 0.95]))).all()


def test_architectures_weigh_the_same_however_often_they_were_observed() -> None:
    rng = np.random.default_rng(4)
    scores, which = rng.standard_normal((40, 1)), np.arange(40)
    # One architecture, far out, is observed a thousand times.
    many = np.concatenate([scores, np.full((1000, 1), 9.0)])
    once = np.concatenate([scores, [[9.0]]])
    levels = np.array([0.1, 0.5, 0.9])
    found = calibrate(many, np.concatenate([which, np.full(1000, 40)])).score(levels)
    assert found == pytest.approx(calibrate(once).score(levels), abs=0.05)


def test_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    scores = rng.standard_normal((50, 3))
    order = rng.permutation(50)
    assert calibrate(scores).to_dict() == calibrate(scores[order], order).to_dict()


def test_scores_never_fall() -> None:
    rng = np.random.default_rng(6)
    levels = np.sort(rng.random(500))
    for n in (2, 5, 30, 500):
        found = calibrate(rng.standard_normal((n, 4))).score(levels)[0]
        assert (found[1:] >= found[:-1]).all()


def test_large_groups_stand_alone_and_small_ones_together() -> None:
    rng = np.random.default_rng(7)
    large = rng.standard_normal((FEWEST_OF_A_GROUP, 1))
    small = 5.0 + rng.standard_normal((FEWEST_OF_A_GROUP - 1, 1))
    scores = np.concatenate([large, small])
    group = np.repeat([0, 1], [len(large), len(small)])
    found = fit_calibration(scores, np.arange(len(scores)), group, 2)
    assert found.architectures == (len(large), len(scores))
    middle = found.score(np.array([0.5]))[:, 0]
    assert middle[0] == pytest.approx(np.median(large), abs=1e-9)
    assert middle[1] == pytest.approx(np.median(scores), abs=1e-9)


def test_a_handful_moves_the_ends_and_leaves_the_median_where_it_was() -> None:
    """20 architectures once moved the median by a third of what one of them deviates."""
    off = calibrate(0.8 + np.random.default_rng(9).standard_normal((20, 1)))
    found, levels = off.centred(), np.linspace(0.06, 0.94, 60)
    assert off.score(np.array([0.5]))[0, 0] > 0.4
    assert found.score(np.array([0.5]))[0, 0] == pytest.approx(0.0, abs=1e-12)
    assert found.support(0) == off.support(0)
    ends = np.array(off.support(0))
    assert found.score(ends)[0] == pytest.approx(off.score(ends)[0])
    assert (np.diff(found.score(levels)[0]) >= 0).all()


def test_scores_that_do_not_enclose_0_stay() -> None:
    off = calibrate(5.0 + np.random.default_rng(9).standard_normal((20, 1)))
    assert off.centred().to_dict() == off.to_dict()
    alike = calibrate(np.zeros((20, 1)))
    assert alike.centred().to_dict() == alike.to_dict()


def test_round_trip() -> None:
    found = calibrate(np.random.default_rng(8).standard_normal((30, 2)))
    again = Calibration.from_dict(found.to_dict())
    assert again.to_dict() == found.to_dict()
    assert (again.score(LEVELS) == found.score(LEVELS)).all()


@pytest.mark.parametrize(
    "levels, scores",
    [
        ([0.5], [0.0]),
        ([0.5, 0.4], [0.0, 1.0]),
        ([0.4, 0.5], [1.0, 0.0]),
        ([0.4, 0.5, 0.6], [0.0, 1.0]),
        ([[0.4, 0.5]], [[0.0, 1.0]]),
    ],
)
def test_what_does_not_rise_is_refused(levels: list[float], scores: list[float]) -> None:
    group = {"architectures": 9, "levels": levels, "scores": scores}
    with pytest.raises(InvalidArtifact, match="rising levels"):
        Calibration.from_dict({"groups": [group]})


@pytest.mark.parametrize("values", [{}, {"groups": [{"levels": [0.1, 0.9]}]}, {"groups": 3}])
def test_what_is_incomplete_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(InvalidArtifact, match="incomplete"):
        Calibration.from_dict(values)
