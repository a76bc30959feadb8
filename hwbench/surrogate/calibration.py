"""Split-conformal calibration of quantiles, grouped by architecture.

The fitted quantile function turns every observation of a calibration architecture, which no other
part of the fit has seen, into a normal score. If the function were right these scores would be
standard normal. What they are instead is the correction: the calibrated quantile at level q is the
fitted one at the score that a share q of the calibration observations lies below.

Repeats of one architecture are not exchangeable with other architectures' repeats, so an
architecture counts as one observation, however many repeats it has: n architectures support the
levels from 1 / (n + 1) to n / (n + 1), as in conformal prediction (Vovk, Gammerman and Shafer,
2005; for quantiles Romano, Patterson and Candes, 2019). Any other level is infinite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwbench.errors import InvalidArtifact

Floats = NDArray[np.float64]

FEWEST_OF_A_GROUP = 100
"""Groups with fewer calibration architectures are calibrated together."""

_GRID = np.unique(
    np.concatenate([[0.001, 0.0025, 0.005, 0.01, 0.02, 0.03], np.arange(0.05, 0.5, 0.025)])
)


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """The calibrated normal score of every level, for each group of architectures.

    Attributes:
        levels: One rising array of levels a group; the first and last are the outermost that the
            calibration architectures support.
        scores: The normal score at each of these levels, never falling, in the same shapes.
        architectures: How many architectures calibrate each group.
    """

    levels: tuple[Floats, ...]
    scores: tuple[Floats, ...]
    architectures: tuple[int, ...]

    def support(self, group: int) -> tuple[float, float]:
        """The outermost levels with a finite quantile in a group."""
        return float(self.levels[group][0]), float(self.levels[group][-1])

    def score(self, levels: Floats) -> Floats:
        """The calibrated scores of levels, shape (groups, m); infinite beyond the support."""
        rows = []
        for known, scores in zip(self.levels, self.scores, strict=True):
            # A level such as 0.5 - 0.9 / 2 is a rounding error away from the end that it means.
            reach = known + np.concatenate([[-1e-12], np.zeros(len(known) - 2), [1e-12]])
            rows.append(np.interp(levels, reach, scores, left=-np.inf, right=np.inf))
        return np.stack(rows)

    def centred(self) -> Calibration:
        """The same with 0 for the score of the median, between outermost levels that stay.

        A handful of architectures tell the ends of an interval as well as they must, but where the
        middle lies they tell less well than everything that the fitted quantiles were made of: the
        median of 20 residuals wobbles by 1.25 / sqrt(20) of their deviation. Scores on each side of
        the median are stretched to fit. A group whose scores do not enclose 0 stays as it is.
        """
        return Calibration(
            self.levels, tuple(map(_centred, self.levels, self.scores)), self.architectures
        )

    def to_dict(self) -> dict[str, Any]:
        """What a card holds of it, ready for JSON."""
        groups = zip(self.levels, self.scores, self.architectures, strict=True)
        return {
            "groups": [
                {"architectures": n, "levels": levels.tolist(), "scores": scores.tolist()}
                for levels, scores, n in groups
            ]
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        """The calibration that `to_dict` wrote.

        Raises:
            InvalidArtifact: The values are no calibration.
        """
        try:
            groups = values["groups"]
            levels = tuple(np.asarray(g["levels"], np.float64) for g in groups)
            scores = tuple(np.asarray(g["scores"], np.float64) for g in groups)
            counts = tuple(int(g["architectures"]) for g in groups)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArtifact(f"A card's calibration is incomplete: {error}.") from None
        for known, score in zip(levels, scores, strict=True):
            rising = known.ndim == 1 and len(known) > 1 and bool((np.diff(known) > 0).all())
            if not rising or known.shape != score.shape or bool((np.diff(score) < 0).any()):
                raise InvalidArtifact("A card's calibration must have rising levels and scores.")
        return cls(levels, scores, counts)


def fit_calibration(
    scores: Floats, architecture: NDArray[np.intp], group: NDArray[np.intp], groups: int
) -> Calibration:
    """Calibrate from the normal scores of calibration architectures.

    Args:
        scores: The normal score of every kept repeat, one row an observation, shape (n, repeats).
        architecture: Which architecture each observation is of, shape (n,).
        group: Each observation's group, shape (n,).
        groups: How many groups there are.

    Returns:
        The calibration: each group by its own architectures if it has `FEWEST_OF_A_GROUP` of them,
        otherwise by all architectures together.
    """
    together = _calibrate(scores, architecture)
    parts = []
    for g in range(groups):
        own = group == g
        alone = len(np.unique(architecture[own])) >= FEWEST_OF_A_GROUP
        parts.append(_calibrate(scores[own], architecture[own]) if alone else together)
    levels, found, counts = zip(*parts, strict=True)
    return Calibration(tuple(levels), tuple(found), tuple(counts))


def _centred(levels: Floats, scores: Floats) -> Floats:
    middle = float(np.interp(0.5, levels, scores))
    low, high = float(scores[0]), float(scores[-1])
    if not (low < middle < high and low < 0 < high):
        return scores
    return np.asarray(np.interp(scores, [low, middle, high], [low, 0.0, high]))


def _calibrate(scores: Floats, architecture: NDArray[np.intp]) -> tuple[Floats, Floats, int]:
    _, which, counts = np.unique(architecture, return_inverse=True, return_counts=True)
    n = len(counts)
    # Every architecture weighs 1, shared by all its repeats; one more is the query's own.
    weights = np.repeat(1 / (counts[which] * scores.shape[1]), scores.shape[1])
    order = np.argsort(scores.ravel(), kind="stable")
    ordered, shares = scores.ravel()[order], weights[order]
    place = (np.cumsum(shares) - shares / 2 + 0.5) / (n + 1)
    least = 1 / (n + 1)
    inner = np.concatenate([_GRID, [0.5], 1 - _GRID[::-1]])
    inner = inner[(inner > least * 1.0001) & (inner < 1 - least * 1.0001)]
    levels = np.concatenate([[least], inner, [1 - least]])
    return levels, np.maximum.accumulate(np.interp(levels, place, ordered)), n
