"""Scores of predictions on architectures that no fit has seen.

Point errors are of the median prediction against the median of the kept repeats. Everything that
scores a distribution is over single measurements: each kept repeat counts, and every architecture
weighs the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau
from sklearn.metrics import mean_absolute_percentage_error, r2_score

from hwbench.encode import Features
from hwbench.errors import InvalidStore
from hwbench.records.split import texts
from hwbench.surrogate.fit import Fit, Measurements, trains

Floats = NDArray[np.float64]

COVERAGES = (0.5, 0.8, 0.9, 0.95)
"""The intervals whose coverage is scored."""

_LEVELS = np.arange(1, 100) / 100


def score(fit: Fit, measured: Measurements, labels: NDArray[np.str_]) -> dict[str, Any]:
    """Score a fit on the observations labelled "test".

    Args:
        fit: The fit, which has not seen them.
        measured: All observations, those of training too: a test observation's drift is read off
            its training neighbours in the session, never off itself.
        labels: "train", "calibrate", "both" or "test", shape (n,).

    Returns:
        Scores by name, ready for a card: percentages but for the number of architectures, R2 and
        Kendall's tau; those "by_width" once for each embed_dim.

    Raises:
        InvalidStore: Nothing is labelled "test".
    """
    held = labels == "test"
    if not held.any():
        raise InvalidStore("Scores need observations labelled 'test'. Got none.")
    surrogate, test = fit.surrogate, measured.take(held)
    features = Features(test.table)
    distribution = surrogate.distribution(features)
    supports = [distribution.support(row) for row in range(len(test))]
    # Levels beyond what the calibration supports are infinite; the outermost finite ones stand in.
    outer = max(low for low, _ in supports), min(high for _, high in supports)
    grid = distribution.quantiles(np.clip(_LEVELS, *outer))
    median, seen = grid[:, 49], test.medians
    names = [str(d) for d in surrogate.search_space.embed_dim]
    groups = [(n, features.width == w) for w, n in enumerate(names) if (features.width == w).any()]
    steady = without_drift(fit, measured, labels)[held]
    result: dict[str, Any] = {
        "architectures": len(set(texts(test.table))),  # a profile measures each in two passes
        "mape": 100 * float(mean_absolute_percentage_error(seen, median)),
        "mape_drift_adjusted": 100 * float(mean_absolute_percentage_error(steady, median)),
        "r2": float(r2_score(seen, median)),
        "tau": tau(median, seen),
        "tau_by_width": {n: tau(median[g], seen[g]) for n, g in groups},
    }
    pinball = pinball_losses(grid, _LEVELS, test.values) / seen
    result["crps"] = 200 * float(pinball.mean())
    for share in COVERAGES:
        low, high = distribution.quantiles(np.array([0.5 - share / 2, 0.5 + share / 2])).T
        inside = np.mean((test.values >= low[:, None]) & (test.values <= high[:, None]), axis=1)
        name = f"{round(100 * share)}"
        result[f"coverage_{name}"] = 100 * float(inside.mean())
        result[f"coverage_{name}_by_width"] = {n: 100 * float(inside[g].mean()) for n, g in groups}
        result[f"coverage_{name}_of_medians"] = 100 * float(np.mean((seen >= low) & (seen <= high)))
        spread = (high - low) / median
        finite = np.isfinite(spread).all()
        result[f"width_{name}"] = 100 * float(np.median(spread)) if finite else None
    return result


def without_drift(fit: Fit, measured: Measurements, labels: NDArray[np.str_]) -> Floats:
    """The medians of observations with the drift that training neighbours show taken out.

    Returns:
        In the metric's unit, shape (n,).
    """
    surrogate, features = fit.surrogate, Features(measured.table)
    line = surrogate.transform.forward(measured.medians)
    drift = fit.drift.estimate(
        line - surrogate.location(features),
        measured.session,
        measured.position,
        features.width,
        trains(labels),
    )
    return surrogate.transform.inverse(line - drift)


def tau(predicted: Floats, seen: Floats) -> float | None:
    """Kendall's tau-b, or None where it is not defined (fewer than two different values).

    >>> tau(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0]))
    1.0
    """
    if len(np.unique(predicted)) < 2 or len(np.unique(seen)) < 2:
        return None
    return float(kendalltau(predicted, seen).statistic)


def pinball_losses(quantiles: Floats, levels: Floats, values: Floats) -> Floats:
    """The pinball loss of each row, averaged over levels and repeats.

    Twice its mean over evenly spaced levels is the continuous ranked probability score.

    Args:
        quantiles: Shape (n, levels).
        levels: Shape (levels,).
        values: Shape (n, repeats).

    Returns:
        In the values' unit, shape (n,).
    """
    total = np.zeros(len(values))
    for j, level in enumerate(levels):
        miss = values - quantiles[:, j, None]
        total += np.maximum(level * miss, (level - 1) * miss).mean(axis=1)
    return total / len(levels)
