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
_FEWEST_OF_A_WIDTH = 2  # so that one can be left out

Ints = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Errors on held-out architectures, in percent, averaged over draws.

    Attributes:
        device: The device.
        space: The space's name.
        budget: Architectures of a plan.
        draws: How often plan and chance were drawn.
        pool: Architectures that `full` was fitted on.
        full: Error of a fit on all of the pool.
        planned: Error with a plan of the budget, designed and random.
        chance: Error with as many drawn at random.
        coverage: Share of single measurements inside the plan's 90% intervals, which are infinite
            where too few architectures calibrate.
        width: Median width of these intervals, of the median.
    """

    device: str
    space: str
    budget: int
    draws: int
    pool: int
    full: float
    planned: float
    chance: float
    coverage: float
    width: float

    @property
    def over_full(self) -> float:
        """The plan's error over that of the full fit."""
        return self.planned / self.full

    @property
    def over_chance(self) -> float:
        """The plan's error over that of as many at random."""
        return self.planned / self.chance


def simulate(
    observations: Observations,
    budgets: Sequence[int] = (64,),
    *,
    draws: int = 5,
    seed: int = 0,
) -> list[Simulated]:
    """Draw plans from recorded observations, fit them, and score them on the rest.

    Args:
        observations: Of a latency, several thousand architectures.
        budgets: Architectures of a plan.
        draws: How many plans of each budget, and as many random draws.
        seed: Of all draws.

    Returns:
        The errors with each budget: the learning curve.
    """
    measured = Measurements.of(observations)
    order = np.random.default_rng(seed).permutation(len(measured))
    test, pool = measured.take(order[:TESTED]), order[TESTED:]
    full = _full(measured, pool, test, seed)
    found = []
    for budget in budgets:
        scores = []
        for draw in range(draws):
            rng = np.random.default_rng([seed, budget, draw])
            error, inside, width = _scored(measured, *plan_of(measured, pool, budget, rng), test)
            by_chance = _scored(measured, *_chance(measured, pool, budget, rng), test)[0]
            scores.append((error, by_chance, inside, width))
        planned, chance, coverage, width = np.mean(scores, axis=0).tolist()
        found.append(
            Simulated(
                device=str(observations.device),
                space=observations.space,
                budget=budget,
                draws=draws,
                pool=len(pool),
                full=full,
                planned=planned,
                chance=chance,
                coverage=coverage,
                width=width,
            )
        )
    return found


def plan_of(
    measured: Measurements, pool: Ints, budget: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """The rows of a plan among recorded ones: designed and drawn."""
    candidates = rng.choice(pool, min(max(CANDIDATES, 2 * budget), len(pool)), replace=False)
    n = round(budget * DESIGNED_SHARE)
    chosen = candidates[d_optimal(measured.table.take(candidates), n, [], rng)]
    rest = pool[~np.isin(pool, chosen)]
    return chosen, rng.choice(rest, budget - n, replace=False)


def _chance(
    measured: Measurements, pool: Ints, budget: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """As many rows drawn uniformly, dealt like a plan's; anew where a width is there only once."""
    widths = Features(measured.table).width
    n, some = round(budget * DESIGNED_SHARE), pool[:0]
    while np.bincount(widths[some], minlength=widths.max() + 1).min() < _FEWEST_OF_A_WIDTH:
        some = rng.choice(pool, budget, replace=False)
    return some[:n], some[n:]


def _scored(
    measured: Measurements, chosen: Ints, drawn: Ints, test: Measurements
) -> tuple[float, float, float]:
    """Error, and coverage and width of the 90% intervals, of a fit on some rows, in percent."""
    labels = np.array(["train"] * len(chosen) + ["both"] * len(drawn))
    fit = fit_surrogate(measured.take(np.concatenate([chosen, drawn])), labels, "latency")
    levels = np.array([0.05, 0.5, 0.95])
    low, median, high = fit.surrogate.quantiles(Features(test.table), levels).T
    inside = (test.values >= low[:, None]) & (test.values <= high[:, None])
    width = float(np.median((high - low) / median))
    return _mape(median, test), 100 * float(inside.mean()), 100 * width


def _full(measured: Measurements, pool: Ints, test: Measurements, seed: int) -> float:
    rng = np.random.default_rng([seed, 1])
    labels = np.where(rng.random(len(pool)) < _CALIBRATE_SHARE, "calibrate", "train")
    fit = fit_surrogate(measured.take(pool), labels, "latency", Settings(seed=seed))
    return _mape(fit.surrogate.quantiles(Features(test.table), np.array([0.5]))[:, 0], test)


def _mape(predicted: Any, test: Measurements) -> float:
    return 100 * float(np.mean(np.abs(predicted / test.medians - 1)))
