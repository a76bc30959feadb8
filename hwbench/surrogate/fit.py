"""Fitting one surrogate: base, drift, correction, spread and calibration, in this order.

Training architectures fit the base, the correction and the spread; calibration architectures alone
calibrate and tell the components apart; test architectures are seen by none of it. Where so little
was measured that none can be spared, an architecture may do both: it trains, and it calibrates with
a base that was fitted without it (the jackknife; Barber, Candes, Ramdas and Tibshirani, 2021). The
median is then where all residuals put it, and calibration moves the other levels alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable
from hwbench.encode import Features, encoder
from hwbench.errors import InvalidStore
from hwbench.metrics import metric as metric_of
from hwbench.records import Observations
from hwbench.records.split import texts
from hwbench.surrogate.base import Base, fit_layer_cost, fit_position_ridge
from hwbench.surrogate.boosting import fit_correction, train
from hwbench.surrogate.calibration import FEWEST_OF_A_GROUP, fit_calibration
from hwbench.surrogate.drift import NO_DRIFT, DriftModel, fit_drift
from hwbench.surrogate.quantiles import normal_scores, score_of
from hwbench.surrogate.settings import Settings
from hwbench.surrogate.shrinkage import choose_shrink
from hwbench.surrogate.surrogate import Booster, Components, Spread, Surrogate
from hwbench.surrogate.transform import Transform, transform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A quarter of a normal distribution's slope, whose 10% and 90% quantiles lie 2.56 scores apart.
_LEAST_TAIL = 0.25 / 2.56


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """What one metric was observed to be, warm-up left out: what a fit and a score read.

    Attributes:
        table: The architecture of each observation, n of them.
        values: The kept repeats in the metric's unit, shape (n, repeats).
        session: Shape (n,).
        position: Shape (n,).
    """

    table: ArchitectureTable
    values: Floats
    session: Ints
    position: Ints

    @classmethod
    def of(cls, observations: Observations) -> Measurements:
        """The kept repeats of a store's observations.

        Where observations have different numbers of kept repeats, each is laid out anew as as many
        evenly spaced quantiles of its own repeats as the median observation has.

        Raises:
            InvalidStore: No observation has a repeat beyond its warm-up.
        """
        kept = observations.kept
        lengths = kept.lengths
        if not lengths.any():
            raise InvalidStore(
                f"{observations.field} on {observations.device} in {observations.space} must have "
                f"more than {observations.warmup_repeats} repeats, which are warm-up. Got none."
            )
        if not kept.rectangular:
            some = lengths > 0
            observations, kept = observations.take(some), kept.take(some)
            repeats = int(np.median(lengths[some]))
            places = (np.arange(repeats) + 0.5) / repeats
            values = np.stack([np.quantile(kept.of(i), places) for i in range(len(kept))])
        else:
            values = kept.matrix
        return cls(observations.table, values, observations.session, observations.position)

    def __len__(self) -> int:
        """The number of observations."""
        return len(self.values)

    @property
    def medians(self) -> Floats:
        """The median of each observation's kept repeats, shape (n,)."""
        return np.asarray(np.median(self.values, axis=1))

    def take(self, rows: NDArray[Any]) -> Measurements:
        """Some observations: indices, or a mask of shape (n,)."""
        return Measurements(
            self.table.take(rows), self.values[rows], self.session[rows], self.position[rows]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted surrogate, and how its training sessions drift.

    Attributes:
        surrogate: The surrogate.
        drift: How drift is read from training neighbours.
        shrink: The ridge between its base's two bias tables where the fit chose it itself, as it
            does where architectures both train and calibrate; otherwise None.
    """

    surrogate: Surrogate
    drift: DriftModel
    shrink: float | None = None


def fit_surrogate(
    measured: Measurements, labels: NDArray[np.str_], metric: str, settings: Settings | None = None
) -> Fit:
    """Fit a surrogate of one metric on one device in one space.

    Args:
        measured: The observations, n of them.
        labels: "train", "calibrate", "both" or "test" for each observation, the same for all
            observations of one architecture, shape (n,); see `hwbench.records.split` and
            `hwbench.records.roles`.
        metric: The metric's name, which decides the transform and the base.
        settings: How to fit.

    Returns:
        The fit. It has not seen any observation labelled "test".

    Raises:
        InvalidStore: There are too few observations, or values outside the metric's range.
    """
    settings = settings or Settings()
    quality = not metric_of(metric).needs_device
    scale = transform("logit" if metric_of(metric).name == "accuracy" else "log")
    train, calibrate = trains(labels), np.isin(labels, ("calibrate", "both"))
    seen = measured.take(train | calibrate)
    _check(seen, metric, scale, int(train.sum()), int(calibrate.sum()))
    known, held = train[train | calibrate], calibrate[train | calibrate]
    features = Features(seen.table)
    line, width = scale.forward(seen.medians), features.width

    twice, shrink = known & held, None
    if twice.any() and not quality:
        own = scale.inverse(line[known])
        shrink = choose_shrink(seen.table.take(known), own, settings.seed)
        settings = replace(settings, shrink=shrink)
    base, drift = _fit_base(seen, known, line, width, scale, quality, settings)
    location = base.location(features)
    shift = drift.estimate(line - location, seen.session, seen.position, width, known)
    boosted = int(known.sum()) >= settings.fewest and not twice.any()
    if twice.any():
        location = _left_out(seen, known, twice, line - shift, location, scale, quality, settings)
    correction = None
    if boosted:
        level = (line - location)[known]
        correction = fit_correction(seen.table.take(known), level - shift[known], level, settings)
        location = location + correction.predict(features)[:, 0]
    residuals = scale.forward(seen.values) - location[:, None]
    spread = _fit_spread(seen.table, residuals, width, known, boosted, settings)

    # What is left to find out needs a surrogate: its calibration and its components.
    owner = seen.table.search_space
    widths = len(owner.embed_dim)
    standard = residuals / spread.scale[width, None]
    knots = spread.quantiles(features)
    tails = spread.tails[width[held]]
    scores = score_of(knots[held], spread.scores, tails, standard[held])
    _, architecture = np.unique(texts(seen.table.take(held)), return_inverse=True)
    calibration = fit_calibration(scores, architecture, width[held], widths)
    if twice.any():
        calibration = calibration.centred()
    if not quality:
        drift = fit_drift(line - location, seen.session, seen.position, width, known)
    shift = drift.estimate(line - location, seen.session, seen.position, width, known)
    components = _components(residuals[held], shift[held], width[held], widths)
    made = Surrogate(owner, scale, base, correction, spread, calibration, components)
    return Fit(made, drift_of(made, seen, labels[train | calibrate], metric), shrink)


def drift_of(
    surrogate: Surrogate, measured: Measurements, labels: NDArray[np.str_], metric: str
) -> DriftModel:
    """How drift is read from a fitted surrogate's training residuals, as its fit did.

    Args:
        surrogate: The surrogate.
        measured: The observations that it was fitted on, n of them.
        labels: Their labels, shape (n,).
        metric: The metric's name; one that belongs to no device does not drift.

    Returns:
        How to read it.
    """
    if not metric_of(metric).needs_device:
        return NO_DRIFT
    features = Features(measured.table)
    residuals = surrogate.transform.forward(measured.medians) - surrogate.location(features)
    known = trains(labels)
    return fit_drift(residuals, measured.session, measured.position, features.width, known)


def trains(labels: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Which labels are of training architectures, those that calibrate too among them."""
    return np.isin(labels, ("train", "both"))


def _check(seen: Measurements, metric: str, scale: Transform, train: int, calibrate: int) -> None:
    for name, count in (("train", train), ("calibrate", calibrate)):
        if count < 2:
            raise InvalidStore(f"A fit of {metric} needs observations to {name}. Got {count}.")
    bad = ~scale.inside(seen.values)
    if bad.any():
        raise InvalidStore(
            f"Values of {metric} must be {scale.allowed}. Got {seen.values[bad][0]} in "
            f"{int(bad.any(axis=1).sum())} observations."
        )


def _fit_base(
    seen: Measurements,
    known: NDArray[np.bool_],
    line: Floats,
    width: NDArray[np.intp],
    scale: Transform,
    quality: bool,
    settings: Settings,
) -> tuple[Base, DriftModel]:
    """Fit the base and the drift by turns: each is clearer once the other is taken out."""
    if quality:  # belongs to no machine, so nothing drifts
        return _base_of(seen, known, line, scale, quality, settings), NO_DRIFT
    features, shift = Features(seen.table), np.zeros(len(line))
    for _ in range(3):
        base = _base_of(seen, known, line - shift, scale, quality, settings)
        residuals = line - base.location(features)
        drift = fit_drift(residuals, seen.session, seen.position, width, known)
        if drift.window == 0:
            break
        shift = drift.estimate(residuals, seen.session, seen.position, width, known)
    return base, drift


def _base_of(
    seen: Measurements,
    rows: NDArray[np.bool_],
    target: Floats,
    scale: Transform,
    quality: bool,
    settings: Settings,
) -> Base:
    """Fit the base to some rows of a target on the transformed scale."""
    table = seen.table.take(rows)
    if quality:
        return fit_position_ridge(table, target[rows], settings.seed)
    return fit_layer_cost(table, scale.inverse(target[rows]), settings.shrink)


def _left_out(
    seen: Measurements,
    known: NDArray[np.bool_],
    twice: NDArray[np.bool_],
    target: Floats,
    location: Floats,
    scale: Transform,
    quality: bool,
    settings: Settings,
) -> Floats:
    """Locations, those of architectures that calibrate too by a base that was fitted without them.

    Raises:
        InvalidStore: Without one of them a width would not occur.
    """
    names, found = np.array(texts(seen.table)), location.copy()
    for name in np.unique(names[twice]).tolist():
        own, others = names == name, known & (names != name)
        base = _base_of(seen, others, target, scale, quality, settings)
        found[own] = base.location(Features(seen.table.take(own)))
    return found


def _fit_spread(
    table: ArchitectureTable,
    residuals: Floats,
    width: NDArray[np.intp],
    known: NDArray[np.bool_],
    boosted: bool,
    settings: Settings,
) -> Spread:
    levels = np.asarray(settings.levels)
    widths = len(table.search_space.embed_dim)
    own, group = residuals[known], width[known]
    scale, knots = np.empty(widths), np.empty((widths, len(levels)))
    for w in range(widths):
        mine = own[_rows_of(group, w)]
        low, high = np.quantile(mine, [0.1, 0.9])
        scale[w] = max(high - low, 1e-9)
        knots[w] = np.quantile(mine, levels) / scale[w]
    scores = normal_scores(levels)
    tails = np.diff(knots, axis=1)[:, [0, -1]] / np.diff(scores)[[0, -1]]
    tails = np.maximum(tails, _LEAST_TAIL)
    booster = None
    if boosted:
        rows = _some_repeats(own / scale[group, None], settings)
        made, repeats = encoder("layer-counts"), rows.shape[1]
        data = xgboost.DMatrix(
            np.repeat(made.encode(table.take(known)), repeats, axis=0), rows.ravel()
        )
        data.set_base_margin(np.repeat(knots[group], repeats, axis=0))
        parameters = {
            "objective": "reg:quantileerror",
            "quantile_alpha": levels,
            "max_depth": settings.spread_depth,
            "min_child_weight": settings.spread_least * repeats,
            "base_score": 0.0,
        }
        booster = Booster(train(parameters, data, settings.spread_rounds, settings), made)
    return Spread(scores, scale, knots, tails, booster)


def _rows_of(width: NDArray[np.intp], w: int) -> NDArray[np.bool_]:
    """The rows of a width, or all rows where it has too few to stand alone, shape (n,)."""
    own = width == w
    return own if own.sum() >= FEWEST_OF_A_GROUP else np.ones_like(own)


def _some_repeats(values: Floats, settings: Settings) -> Floats:
    """At most so many repeats of each row, drawn by the seed, shape (n, repeats)."""
    n, repeats = values.shape
    if repeats <= settings.repeats:
        return values
    order = np.random.default_rng(settings.seed).random((n, repeats)).argsort(axis=1)
    return np.take_along_axis(values, order[:, : settings.repeats], axis=1)


def _components(
    residuals: Floats, shift: Floats, width: NDArray[np.intp], widths: int
) -> Components:
    """Tell repeat noise, drift and model apart on calibration architectures, for each width.

    Repeats vary about their architecture's mean; the means vary by drift, by the model's error and
    by what a mean of so few repeats wobbles. What is left of their variance once the wobble and the
    drift that training neighbours show are taken out is the model's. Residuals are cut at their
    0.5% and 99.5% quantiles, so that a few broken readings do not stand for all.
    """
    parts = np.empty((widths, 3))
    for w in range(widths):
        rows = _rows_of(width, w)
        cut = np.clip(residuals[rows], *np.quantile(residuals[rows], [0.005, 0.995]))
        repeats = cut.shape[1]
        within = float(cut.var(axis=1, ddof=1).mean()) if repeats > 1 else 0.0
        means, wobble = cut.mean(axis=1), within / repeats
        between = max(float(means.var()) - wobble, 0.0)
        steady = max(float((means - shift[rows]).var()) - wobble, 0.0)
        model = min(steady, between)
        parts[w] = within, between - model, model
    deviations = np.sqrt(parts)
    repeat = deviations[:, 0] if residuals.shape[1] > 1 else None
    return Components(repeat, deviations[:, 1], deviations[:, 2])
