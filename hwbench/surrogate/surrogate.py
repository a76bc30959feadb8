"""`Surrogate`: a fitted model of one metric on one device in one space, and what it predicts.

A prediction on the transformed scale is

    location(architecture) + scale[width] * Q(score; architecture)

where the location is a base plus a booster's correction, Q is a quantile function that a second
booster gives at a few levels, and score is the calibrated normal score of the level asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from hwbench.architectures import SearchSpace
from hwbench.encode import Encoder, Features
from hwbench.surrogate.base import Base
from hwbench.surrogate.calibration import Calibration
from hwbench.surrogate.forest import Forest
from hwbench.surrogate.quantiles import quantile_at, score_of
from hwbench.surrogate.transform import Transform

Floats = NDArray[np.float64]

_ROWS_FOR_XGBOOST = 64  # fewer rows are faster through a `Forest`
_ROWS_FOR_THREADS = 2000  # below this a second thread costs more than it saves


@dataclass(frozen=True, eq=False)
class Booster:
    """An XGBoost model and the encoder that makes its features.

    Attributes:
        model: The model, whose base score is 0.
        encoder: Makes its features.
    """

    model: xgboost.Booster
    encoder: Encoder

    @cached_property
    def _forest(self) -> Forest:
        return Forest.of(self.model)

    def predict(self, features: Features) -> Floats:
        """What the model gives for each architecture, shape (n, outputs)."""
        columns = features.encoded(self.encoder)
        if len(columns) < _ROWS_FOR_XGBOOST:
            return self._forest.predict(columns).astype(np.float64)
        self.model.set_param({"nthread": 0 if len(columns) >= _ROWS_FOR_THREADS else 1})
        found = self.model.inplace_predict(columns, validate_features=False)
        return np.asarray(found, np.float64).reshape(len(columns), -1)


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """The distribution about the location, before calibration.

    Attributes:
        scores: Normal scores of the levels that are modelled, rising, shape (k,).
        scale: Distance between the 10% and the 90% residual of each width, shape (widths,).
        knots: Standardised quantiles of each width, shape (widths, k).
        tails: Slopes of each width's standardised quantiles over the normal score, below the first
            and above the last level, shape (widths, 2).
        booster: What an architecture's own standardised quantiles differ by, or None.
    """

    scores: Floats
    scale: Floats
    knots: Floats
    tails: Floats
    booster: Booster | None

    def quantiles(self, features: Features) -> Floats:
        """Standardised quantiles of each architecture, never falling, shape (n, k)."""
        knots = self.knots[features.width]
        if self.booster is None:
            return knots
        # Quantiles that cross are exchanged (Chernozhukov, Fernandez-Val and Galichon, 2010).
        return np.sort(knots + self.booster.predict(features), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """What a prediction is unsure about, as standard deviations on the transformed scale.

    The squares of the three sum to the variance of single observations about the location.

    Attributes:
        repeat: Repeats of one architecture about their mean, shape (widths,), or None where every
            observation is a single value.
        drift: The machine over a session, shape (widths,).
        model: What is left of the architectures' own error, shape (widths,).
    """

    repeat: Floats | None
    drift: Floats
    model: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Surrogate:
    """A fitted model of one metric on one device in one space.

    Attributes:
        search_space: The space it was fitted in.
        transform: To the scale on which it was fitted, and back.
        base: Gives the location's main part.
        correction: A booster's correction of the location, or None.
        spread: The distribution about the location.
        calibration: Corrects the distribution's levels.
        components: What the distribution is made of.
    """

    search_space: SearchSpace
    transform: Transform
    base: Base
    correction: Booster | None
    spread: Spread
    calibration: Calibration
    components: Components

    def location(self, features: Features) -> Floats:
        """The location on the transformed scale, shape (n,)."""
        found = self.base.location(features)
        if self.correction is not None:
            found = found + self.correction.predict(features)[:, 0]
        return found

    def distribution(self, features: Features) -> Distribution:
        """The predictive distribution of a single measurement of each architecture.

        Args:
            features: Architectures of the surrogate's space.

        Returns:
            The distributions, row by row.
        """
        knots = self.spread.quantiles(features)
        return Distribution(self, self.location(features), features.width, knots)

    def quantiles(self, features: Features, levels: Floats) -> Floats:
        """Quantiles in the metric's unit, shape (n, m), rising along each row.

        A level that the calibration architectures do not support gives the end of the metric's
        range: infinity, or 1 for a fraction, above, and 0 below.
        """
        return self.distribution(features).quantiles(levels)


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Predictive distributions, one a row.

    Attributes:
        surrogate: Where they come from.
        location: On the transformed scale, shape (n,).
        width: The index of each architecture's width, shape (n,).
        knots: Standardised quantiles at the spread's scores, shape (n, k).
    """

    surrogate: Surrogate
    location: Floats
    width: NDArray[np.intp]
    knots: Floats

    def quantiles(self, levels: Floats) -> Floats:
        """Quantiles in the metric's unit at levels of shape (m,): shape (n, m)."""
        spread = self.surrogate.spread
        scores = self.surrogate.calibration.score(levels)[self.width]
        finite = np.isfinite(scores)
        tails = spread.tails[self.width]
        standard = quantile_at(self.knots, spread.scores, tails, np.where(finite, scores, 0.0))
        line = self.location[:, None] + spread.scale[self.width, None] * standard
        return self.surrogate.transform.inverse(np.where(finite, line, scores))

    def take(self, rows: NDArray[Any]) -> Distribution:
        """Some rows: indices, or a mask of shape (n,)."""
        return Distribution(self.surrogate, self.location[rows], self.width[rows], self.knots[rows])

    def scores_of(self, values: Floats) -> Floats:
        """Uncalibrated normal scores of observed values, shape (n, m), as of `values`."""
        spread = self.surrogate.spread
        residual = self.surrogate.transform.forward(values) - self.location[:, None]
        standard = residual / spread.scale[self.width, None]
        return score_of(self.knots, spread.scores, spread.tails[self.width], standard)

    def support(self, row: int) -> tuple[float, float]:
        """The outermost levels with a finite quantile in a row."""
        return self.surrogate.calibration.support(int(self.width[row]))

    def calibrated(self, row: int) -> int:
        """How many architectures calibrated a row, which decides its support."""
        return self.surrogate.calibration.architectures[int(self.width[row])]

    def components(self, row: int) -> dict[str, float | None]:
        """The standard deviations of one row's parts in the metric's unit, to first order."""
        median = self.quantiles(np.array([0.5]))[row, 0]
        slope = float(self.surrogate.transform.slope(median))
        parts = self.surrogate.components
        w = int(self.width[row])
        found: dict[str, Any] = {"repeat": parts.repeat, "drift": parts.drift, "model": parts.model}
        return {k: None if v is None else float(v[w]) * slope for k, v in found.items()}
