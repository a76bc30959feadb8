"""A campaign simulated on recorded observations: what a few measurements would have given.

The architectures of a plan are taken from a store as if they had just been measured, a surrogate is
fitted on them, and it is scored on others. Recorded candidates were drawn uniformly, so that there
are hardly any with layers all alike, and no anchor was measured between them: a campaign on a
machine has both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwbench.campaign.plan import CANDIDATES, DESIGNED_SHARE, d_optimal
from hwbench.encode import Features
from hwbench.records import Observations
from hwbench.surrogate.fit import Measurements, fit_surrogate
from hwbench.surrogate.settings import Settings

TESTED = 1000
"""Architectures that everything is scored on."""

_CALIBRATE_SHARE = 0.15

Ints = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Errors on held-out architectures, in percent, averaged over draws.

    Attributes:
        device: The device.
        space: The space's name.
        pool: Architectures that `full` was fitted on.
        full: Error of a fit on all of the pool.
        planned: Error with a plan of the budget, designed and random.
        chance: Error with as many drawn at random.
        coverage: Share of single measurements inside the plan's 90% intervals.
        width: Median width of these intervals.
        draws: How often plan and chance were drawn.
    """

    device: str
    space: str
    pool: int
    full: float
    planned: float
    chance: float
    coverage: float
    width: float
    draws: int

    @property
    def over_full(self) -> float:
        """The plan's error over that of the full fit."""
        return self.planned / self.full

    @property
    def over_chance(self) -> float:
        """The plan's error over that of as many at random."""
        return self.planned / self.chance


def simulate(
    observations: Observations, *, budget: int = 64, draws: int = 10, seed: int = 0
) -> Simulated:
    """Draw plans from recorded observations, fit them, and score them on the rest.

    Args:
        observations: Of a latency, several thousand architectures.
        budget: Architectures of a plan.
        draws: How many plans, and as many random draws.
        seed: Of all draws.

    Returns:
        The errors.
    """
    measured, tested, pool = _parts(observations, seed)
    test = measured.take(tested)
    planned, chance, inside, width = [], [], [], []
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        chosen, drawn = plan_of(measured, pool, budget, rng)
        error, found = _scored(measured, chosen, drawn, test)
        planned.append(error)
        inside.append(found[0])
        width.append(found[1])
        some = rng.choice(pool, budget, replace=False)
        chance.append(_scored(measured, some[: len(chosen)], some[len(chosen) :], test)[0])
    return Simulated(
        device=str(observations.device),
        space=observations.space,
        pool=len(pool),
        full=_full(measured, pool, test, seed),
        planned=float(np.mean(planned)),
        chance=float(np.mean(chance)),
        coverage=100 * float(np.mean(inside)),
        width=100 * float(np.median(width)),
        draws=draws,
    )


def learning_curve(
    observations: Observations, budgets: Sequence[int], *, draws: int = 5, seed: int = 0
) -> list[float]:
    """The error with plans of several budgets, in percent, averaged over draws.

    Args:
        observations: Of a latency, several thousand architectures.
        budgets: Architectures of a plan.
        draws: How many plans of each.
        seed: Of all draws.

    Returns:
        One error a budget.
    """
    measured, tested, pool = _parts(observations, seed)
    test = measured.take(tested)
    curve = []
    for budget in budgets:
        errors = []
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw, budget])
            chosen, drawn = plan_of(measured, pool, budget, rng)
            errors.append(_scored(measured, chosen, drawn, test)[0])
        curve.append(float(np.mean(errors)))
    return curve


def plan_of(
    measured: Measurements, pool: Ints, budget: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """The rows of a plan among recorded ones: designed and drawn."""
    candidates = rng.choice(pool, min(max(CANDIDATES, 2 * budget), len(pool)), replace=False)
    n = round(budget * DESIGNED_SHARE)
    chosen = candidates[d_optimal(measured.table.take(candidates), n, [], rng)]
    rest = pool[~np.isin(pool, chosen)]
    return chosen, rng.choice(rest, budget - n, replace=False)


def _parts(observations: Observations, seed: int) -> tuple[Measurements, Ints, Ints]:
    measured = Measurements.of(observations)
    order = np.random.default_rng(seed).permutation(len(measured))
    return measured, order[:TESTED], order[TESTED:]


def _scored(
    measured: Measurements, chosen: Ints, drawn: Ints, test: Measurements
) -> tuple[float, tuple[float, float]]:
    """The error, and coverage and width of the 90% intervals, of a fit on some rows."""
    labels = np.array(["train"] * len(chosen) + ["both"] * len(drawn))
    fit = fit_surrogate(measured.take(np.concatenate([chosen, drawn])), labels, "latency")
    levels = np.array([0.05, 0.5, 0.95])
    low, median, high = fit.surrogate.quantiles(Features(test.table), levels).T
    inside = (test.values >= low[:, None]) & (test.values <= high[:, None])
    width = float(np.median((high - low) / median))
    return _mape(median, test), (float(inside.mean()), width)


def _full(measured: Measurements, pool: Ints, test: Measurements, seed: int) -> float:
    rng = np.random.default_rng([seed, 1])
    labels = np.where(rng.random(len(pool)) < _CALIBRATE_SHARE, "calibrate", "train")
    fit = fit_surrogate(measured.take(pool), labels, "latency", Settings(seed=seed))
    return _mape(fit.surrogate.quantiles(Features(test.table), np.array([0.5]))[:, 0], test)


def _mape(predicted: Any, test: Measurements) -> float:
    return 100 * float(np.mean(np.abs(predicted / test.medians - 1)))
