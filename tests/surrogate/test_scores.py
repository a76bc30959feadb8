"""Scores are what plain loops over architectures and repeats give."""

from __future__ import annotations

import itertools
from dataclasses import replace
from statistics import mean, median

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from hwbench.encode import Features
from hwbench.errors import InvalidStore
from hwbench.surrogate.fit import Fit, Measurements, fit_surrogate
from hwbench.surrogate.scores import COVERAGES, pinball_losses, score, tau, without_drift
from hwbench.surrogate.settings import Settings
from tests.surrogate.synthetic import Machine, labels_of, sinusoid, space_s

Floats = NDArray[np.float64]


def plain_tau(x: list[float], y: list[float]) -> float:
    """Kendall's tau-b, pair by pair."""
    agree = ties_x = ties_y = 0
    pairs = list(itertools.combinations(range(len(x)), 2))
    for i, j in pairs:
        a, b = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
        agree += a * b
        ties_x += a == 0
        ties_y += b == 0
    return float(agree / np.sqrt((len(pairs) - ties_x) * (len(pairs) - ties_y)))


def test_scores_are_those_of_plain_loops(
    fit: Fit, measured: Measurements, labels: NDArray[np.str_]
) -> None:
    found = score(fit, measured, labels)
    test = measured.take(labels == "test")
    n, features = len(test), Features(test.table)
    seen = [median(own) for own in test.values.tolist()]
    grid = fit.surrogate.quantiles(features, np.arange(1, 100) / 100).tolist()
    predicted = [row[49] for row in grid]

    assert found["architectures"] == n
    assert found["mape"] == pytest.approx(
        100 * mean(abs(p - s) / s for p, s in zip(predicted, seen, strict=True))
    )
    error = sum((p - s) ** 2 for p, s in zip(predicted, seen, strict=True))
    total = sum((s - mean(seen)) ** 2 for s in seen)
    assert found["r2"] == pytest.approx(1 - error / total)
    assert found["tau"] == pytest.approx(plain_tau(predicted, seen))

    losses = []
    for row, own, middle in zip(grid, test.values.tolist(), seen, strict=True):
        for quantile, level in zip(row, np.arange(1, 100) / 100, strict=True):
            for v in own:
                loss = level * (v - quantile) if v > quantile else (1 - level) * (quantile - v)
                losses.append(loss / len(own) / middle)
    assert found["crps"] == pytest.approx(100 * 2 * sum(losses) / 99 / n)

    widths = [str(d) for d in test.table.embed_dim]
    for share in COVERAGES:
        ends = fit.surrogate.quantiles(features, np.array([0.5 - share / 2, 0.5 + share / 2]))
        inside = [
            mean(float(low <= v <= high) for v in own)
            for (low, high), own in zip(ends.tolist(), test.values.tolist(), strict=True)
        ]
        name = f"{share:.0%}"[:-1]
        assert found[f"coverage_{name}"] == pytest.approx(100 * mean(inside))
        for d, value in found[f"coverage_{name}_by_width"].items():
            own = [i for i, w in zip(inside, widths, strict=True) if w == d]
            assert value == pytest.approx(100 * mean(own))
        held = [low <= s <= high for (low, high), s in zip(ends.tolist(), seen, strict=True)]
        assert found[f"coverage_{name}_of_medians"] == pytest.approx(100 * mean(held))
        spans = [(high - low) / p for (low, high), p in zip(ends.tolist(), predicted, strict=True)]
        assert found[f"width_{name}"] == pytest.approx(100 * median(spans))
    for d, value in found["tau_by_width"].items():
        rows = [i for i in range(n) if widths[i] == d]
        own = plain_tau([predicted[i] for i in rows], [seen[i] for i in rows])
        assert value == pytest.approx(own)
    assert found["tau_by_width"].keys() == {"192", "384", "768"}


def test_twice_the_mean_pinball_loss_is_the_crps() -> None:
    """Of a normal distribution the score has a closed form (Gneiting and Raftery, 2007)."""
    levels = (np.arange(20_000) + 0.5) / 20_000
    values = np.array([-2.0, 0.0, 0.7, 3.0])
    quantiles = np.tile(norm.ppf(levels), (4, 1))
    exact = values * (2 * norm.cdf(values) - 1) + 2 * norm.pdf(values) - 1 / np.sqrt(np.pi)
    found = 2 * pinball_losses(quantiles, levels, values[:, None])
    assert found == pytest.approx(exact, abs=1e-3)


def test_repeats_are_averaged() -> None:
    quantiles, levels = np.array([[1.0, 2.0]]), np.array([0.25, 0.75])
    one = [pinball_losses(quantiles, levels, np.array([[v]]))[0] for v in (0.5, 3.0)]
    assert pinball_losses(quantiles, levels, np.array([[0.5, 3.0]]))[0] == pytest.approx(mean(one))


def test_tau_knows_ties_and_where_it_is_not_defined() -> None:
    x, y = np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0, 3.0])
    assert tau(x, y) == pytest.approx(plain_tau(x.tolist(), y.tolist()))
    assert tau(x, np.ones(4)) is None
    assert tau(np.ones(4), x) is None
    assert tau(np.array([1.0]), np.array([2.0])) is None


# Drift


def test_the_drift_adjusted_error_is_the_models() -> None:
    """A drift of 10%, a model that is right to a percent: the difference is the machine's."""
    measured = Machine(repeat=0.005, drift=sinusoid(0.1)).measure(space_s(3000), 1)
    labels = labels_of(3000)
    fit = fit_surrogate(measured, labels, "latency", Settings(fewest=10**6))
    found = score(fit, measured, labels)
    assert found["mape"] == pytest.approx(100 * 0.1 * np.sqrt(2) * 2 / np.pi, rel=0.15)
    assert found["mape_drift_adjusted"] < 0.2 * found["mape"]


def test_without_drift_both_errors_are_the_same() -> None:
    measured, labels = Machine(model=0.02).measure(space_s(1500), 3), labels_of(1500)
    fit = fit_surrogate(measured, labels, "latency", Settings(fewest=10**6))
    found = score(fit, measured, labels)
    assert found["mape_drift_adjusted"] == pytest.approx(found["mape"], rel=0.02)


def test_the_adjustment_never_reads_what_is_scored(
    fit: Fit, measured: Measurements, labels: NDArray[np.str_]
) -> None:
    """The factor taken out of a held-out median is that of its neighbours, whatever it is."""
    assert fit.drift.window > 0
    held = labels != "train"
    wild = replace(measured, values=measured.values.copy())
    wild.values[held] *= np.random.default_rng(0).lognormal(0, 2, (int(held.sum()), 1))
    factors = [without_drift(fit, m, labels) / m.medians for m in (measured, wild)]
    assert factors[1] == pytest.approx(factors[0], rel=1e-9)
    assert np.std(factors[0]) > 0.01


# Edges


def test_only_what_was_held_out_is_scored(
    fit: Fit, measured: Measurements, labels: NDArray[np.str_]
) -> None:
    calibration = replace(measured, values=measured.values.copy())
    calibration.values[labels == "calibrate"] = 1e6
    assert score(fit, calibration, labels) == score(fit, measured, labels)


def test_nothing_held_out_is_refused(fit: Fit, measured: Measurements) -> None:
    with pytest.raises(InvalidStore, match=r"labelled 'test'\. Got none"):
        score(fit, measured, np.full(len(measured), "train"))


def test_intervals_beyond_the_support_hold_everything_and_have_no_width() -> None:
    """Fifteen calibration architectures support 80%, not 90%."""
    measured = Machine(repeats=1).measure(space_s(400), 1)
    labels = np.array(["train"] * 300 + ["calibrate"] * 15 + ["test"] * 85)
    fit = fit_surrogate(measured, labels, "latency", Settings(fewest=10**6))
    found = score(fit, measured, labels)
    assert found["width_80"] > 0
    assert found["coverage_90"] == found["coverage_95"] == 100
    assert found["width_90"] is None
    assert np.isfinite(found["crps"])


def test_a_width_that_was_not_held_out_has_no_scores(
    fit: Fit, measured: Measurements, labels: NDArray[np.str_]
) -> None:
    rows = (labels != "test") | (measured.table.embed_dim != 384)
    found = score(fit, measured.take(rows), labels[rows])
    assert found["coverage_90_by_width"].keys() == {"192", "768"}
