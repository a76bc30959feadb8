"""A session's drift: how far the machine has wandered at each position, from neighbours there.

Much of what looks like model error in recorded data is the machine itself, which grows faster and
slower over a session. The drift at a position is estimated from the residuals of the observations
around it, never from the one at the position itself, and it is used in two ways: training targets
are freed of it, and scores are given with and without it. A query knows no session, so the drift
stays part of a prediction's spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_WINDOWS = (3, 8, 25)  # neighbours on each side
_FEWEST = 5  # known observations that a session, or a group in it, needs


@dataclass(frozen=True, slots=True)
class DriftModel:
    """How drift is read from neighbours: chosen on training residuals.

    Attributes:
        window: Known neighbours on each side whose median is taken; 0 where there is no drift.
        grouped: Whether only neighbours of the same group (width) count.
        slope: What the median is multiplied with, in [0, 1].
        centre: The median drift, which is no drift but the location's.
        limit: Medians are cut to [-limit, limit] about the centre.
    """

    window: int
    grouped: bool
    slope: float
    centre: float
    limit: float

    def estimate(
        self,
        residuals: Floats,
        session: Ints,
        position: Ints,
        group: Ints,
        known: NDArray[np.bool_],
    ) -> Floats:
        """The drift at every observation.

        Args:
            residuals: Observed minus predicted on the transformed scale, shape (n,); those of
                observations that are not known are not read.
            session: Shape (n,).
            position: Shape (n,).
            group: The width, say, of each architecture, shape (n,).
            known: Whose residuals may be read: the training architectures, shape (n,).

        Returns:
            The drift, shape (n,), 0 where a session has too few known observations. An
            observation's own residual is never part of its drift.
        """
        if self.window == 0:
            return np.zeros(len(residuals))
        groups = group if self.grouped else np.zeros_like(group)
        near = neighbour_median(residuals, session, position, groups, known, self.window)
        near = np.where(np.isfinite(near), near, self.centre)
        cut = np.clip(near - self.centre, -self.limit, self.limit)
        return self.slope * cut


NO_DRIFT = DriftModel(0, False, 0.0, 0.0, 0.0)
"""Nothing drifts."""


def fit_drift(
    residuals: Floats, session: Ints, position: Ints, group: Ints, known: NDArray[np.bool_]
) -> DriftModel:
    """Choose how to read drift so that training residuals shrink most, or that there is none.

    Each training residual is predicted from its neighbours', never from itself, so a choice that
    only follows noise does not shrink anything.

    Args:
        residuals: Observed minus predicted on the transformed scale, shape (n,).
        session: Shape (n,).
        position: Shape (n,).
        group: The width of each architecture, shape (n,).
        known: The training architectures, shape (n,).

    Returns:
        The choice.
    """
    if known.sum() < _FEWEST:
        return NO_DRIFT
    own = residuals[known]
    centre = float(np.median(own))
    best = DriftModel(0, False, 0.0, centre, 0.0)
    least = 0.995 * float(np.mean(np.abs(own - centre)))
    for grouped, window in product((False, True), _WINDOWS):
        groups = group if grouped else np.zeros_like(group)
        near = neighbour_median(residuals, session, position, groups, known, window)[known]
        near = np.where(np.isfinite(near), near, centre) - centre
        limit = float(np.quantile(np.abs(near), 0.998))
        near = np.clip(near, -limit, limit)
        slope = _absolute_slope(near, own - centre)
        error = float(np.mean(np.abs(own - centre - slope * near)))
        if error < least:
            least, best = error, DriftModel(window, grouped, slope, centre, limit)
    return best


def neighbour_median(
    residuals: Floats,
    session: Ints,
    position: Ints,
    group: Ints,
    known: NDArray[np.bool_],
    window: int,
) -> Floats:
    """The median residual of the known neighbours before and after each observation.

    Args:
        residuals: Shape (n,).
        session: Shape (n,).
        position: Shape (n,).
        group: Neighbours are of one session and one group, shape (n,).
        known: Whose residuals are read, shape (n,).
        window: Neighbours on each side.

    Returns:
        Shape (n,), NaN where session and group hold too few known observations. An observation is
        not its own neighbour.
    """
    result = np.full(len(residuals), np.nan)
    keys, inverse = np.unique(np.stack([session, group]), axis=1, return_inverse=True)
    for key in range(keys.shape[1]):
        rows = np.flatnonzero(inverse.ravel() == key)
        rows = rows[np.argsort(position[rows], kind="stable")]
        readable = rows[known[rows]]
        if len(readable) < _FEWEST:
            continue
        own = known[rows]
        place: Ints = np.cumsum(own) - own  # known observations before each
        before = place[:, None] + np.arange(-window, 0)
        after = place[:, None] + np.arange(window) + own[:, None]
        at = np.concatenate([before, after], axis=1)
        outside = (at < 0) | (at >= len(readable))
        near = residuals[readable[np.clip(at, 0, len(readable) - 1)]]
        near[outside] = np.nan
        result[rows] = np.nanmedian(near, axis=1)
    return result


def _absolute_slope(x: Floats, y: Floats) -> float:
    """The slope in [0, 1] of least absolute error through the origin, by reweighting."""
    slope = 1.0
    floor = 1e-3 * float(np.std(y)) + 1e-12
    for _ in range(20):
        weight = 1.0 / np.maximum(np.abs(y - slope * x), floor)
        denominator = float((weight * x * x).sum())
        if denominator <= 0:
            return 0.0
        slope = float((weight * x * y).sum()) / denominator
    return float(np.clip(slope, 0.0, 1.0))
