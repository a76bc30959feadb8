"""Boosting with XGBoost: what every model here shares, and the correction of a location.

The correction is fitted in two stages. The first learns from residuals with the drift taken out,
which are many times less noisy where a machine wanders. But a machine that falls into another state
does so more readily for some architectures, and that moves their median, too: the second stage adds
a few trees on the residuals as they were read. It looks at the counts alone, and it is kept only if
a quarter of the training architectures, left out for the purpose, says that it helps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable
from hwbench.encode import Features, encoder
from hwbench.surrogate.settings import Settings
from hwbench.surrogate.surrogate import Booster

Floats = NDArray[np.float64]

_STANDARD_ERRORS = 2.0  # by how many a second stage must help to be kept


def train(
    parameters: dict[str, Any],
    data: xgboost.DMatrix,
    rounds: int,
    settings: Settings,
    before: xgboost.Booster | None = None,
) -> xgboost.Booster:
    """Train a model, or train one on, with one thread and what all models here have in common."""
    fixed = {
        "tree_method": "hist",
        "learning_rate": settings.learning_rate,
        "seed": settings.seed,
        "nthread": 1,
        "device": "cpu",
    }
    return xgboost.train({**fixed, **parameters}, data, rounds, xgb_model=before)


def fit_correction(
    table: ArchitectureTable, steady: Floats, level: Floats, settings: Settings
) -> Booster:
    """Fit what a location lacks.

    Args:
        table: The training architectures, n of them.
        steady: Their residuals without drift, shape (n,).
        level: Their residuals as they were read, shape (n,).
        settings: How to fit.

    Returns:
        The correction, one booster.
    """
    made = encoder("layer-positions")
    columns = made.encode(table)
    counts = len(encoder("layer-counts").columns(table.search_space))
    parameters = {
        "objective": "reg:absoluteerror",
        "max_depth": settings.correction_depth,
        "min_child_weight": settings.correction_least,
        "base_score": 0.0,
    }

    def first(rows: NDArray[np.bool_]) -> xgboost.Booster:
        data = xgboost.DMatrix(columns[rows], steady[rows])
        sampled = {**parameters, "colsample_bynode": 0.5}
        return train(sampled, data, settings.correction_rounds, settings)

    def second(before: xgboost.Booster, rows: NDArray[np.bool_]) -> xgboost.Booster:
        # A column of weight 0 is never drawn while there are others: the counts stand first.
        weights = np.zeros(columns.shape[1])
        weights[:counts] = 1.0
        data = xgboost.DMatrix(columns[rows], level[rows], feature_weights=weights)
        sampled = {**parameters, "colsample_bynode": (counts + 0.5) / columns.shape[1]}
        return train(sampled, data, settings.level_rounds, settings, before)

    kept = np.random.default_rng(settings.seed).random(len(level)) < 0.75
    trial = first(kept)
    helps = _helps(trial, second(trial, kept), columns, level, Features(table).width, kept)
    everyone = np.ones_like(kept)
    whole = first(everyone)
    return Booster(second(whole, everyone) if helps else whole, made)


def _helps(
    before: xgboost.Booster,
    after: xgboost.Booster,
    columns: NDArray[np.float32],
    level: Floats,
    width: NDArray[np.intp],
    kept: NDArray[np.bool_],
) -> bool:
    """Whether the second stage shrinks the absolute errors of the rows that it was not fitted on.

    The spread finds each width's median anew, so both are compared about it.
    """
    errors = []
    for model in (before, after):
        left = level - model.inplace_predict(columns)
        centre = np.zeros(width.max() + 1)
        for w in np.unique(width[kept]).tolist():
            centre[w] = np.median(left[kept & (width == w)])
        errors.append(np.abs(left - centre[width])[~kept])
    gain = errors[0] - errors[1]
    return bool(gain.mean() > _STANDARD_ERRORS * gain.std() / np.sqrt(len(gain)))
