"""Quantile functions given at a few levels, between them and beyond, on the normal-score axis.

Level q has the normal score z = Phi^-1(q). Between the given levels the quantile is linear in z.
Beyond the outermost ones it goes on at a slope that is given too, one for all architectures of a
width: a slope taken from an architecture's own outermost knots could be next to nothing, and a rare
reading far out would then stretch everybody else's tail.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]


def normal_scores(levels: Floats) -> Floats:
    """The normal score of each level."""
    return np.asarray(ndtri(levels), np.float64)


def quantile_at(knots: Floats, knot_scores: Floats, tails: Floats, scores: Floats) -> Floats:
    """The quantiles at given normal scores.

    Args:
        knots: Each row's quantiles at `knot_scores`, never falling along a row, shape (n, k).
        knot_scores: Normal scores of the given levels, rising, shape (k,).
        tails: Each row's slopes below the first and above the last knot, positive, shape (n, 2).
        scores: Normal scores that are asked for, shape (n, m).

    Returns:
        Shape (n, m).
    """
    first, last = knot_scores[0], knot_scores[-1]
    inner = np.clip(scores, first, last)
    at = np.clip(np.searchsorted(knot_scores, inner) - 1, 0, len(knot_scores) - 2)
    low = np.take_along_axis(knots, at, axis=1)
    high = np.take_along_axis(knots, at + 1, axis=1)
    within = low + (high - low) * (inner - knot_scores[at]) / np.diff(knot_scores)[at]
    within = np.minimum(within, high)  # rounding must not carry it beyond the next piece's start
    below = tails[:, :1] * np.minimum(scores - first, 0.0)
    above = tails[:, 1:] * np.maximum(scores - last, 0.0)
    return np.asarray(within + below + above)


def score_of(knots: Floats, knot_scores: Floats, tails: Floats, values: Floats) -> Floats:
    """The normal scores at which a quantile function has given values: `quantile_at` undone.

    Where knots are equal, the value between them has the least of their scores.

    Args:
        knots: Shape (n, k).
        knot_scores: Shape (k,).
        tails: Shape (n, 2).
        values: Shape (n, m).

    Returns:
        Shape (n, m).
    """
    inner = np.clip(values, knots[:, :1], knots[:, -1:])
    at = np.zeros(values.shape, np.intp)
    for k in range(1, knots.shape[1] - 1):
        at += knots[:, k : k + 1] < values
    low = np.take_along_axis(knots, at, axis=1)
    gap = np.maximum(np.take_along_axis(knots, at + 1, axis=1) - low, 1e-12)
    share = np.where(values > knots[:, -1:], 1.0, np.minimum((inner - low) / gap, 1.0))
    within = knot_scores[at] + share * np.diff(knot_scores)[at]
    below = np.minimum(values - knots[:, :1], 0.0) / tails[:, :1]
    above = np.maximum(values - knots[:, -1:], 0.0) / tails[:, 1:]
    return np.asarray(within + below + above)
