"""Indicators of fronts: hypervolume, regret, IGD+, epsilon and attainment, with moocore.

Every indicator is of costs that are normalised: 0 is the ideal point and 1 the reference point of
the task, which are fixed (`hwbench.search.extremes.bounds`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import moocore
import numpy as np
from numpy.typing import NDArray

from hwbench.search.optimiser import front
from hwbench.search.trajectory import Trajectory

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A task's ideal and reference point, between which its fronts lie.

    Attributes:
        ideal: The least costs, shape (objectives,).
        reference: The greatest costs, shape (objectives,).
    """

    ideal: Floats
    reference: Floats

    def normalised(self, costs: Floats) -> Floats:
        """Costs with the ideal point at 0 and the reference point at 1, shape (n, objectives).

        Warns:
            UserWarning: A point lies outside.

        >>> Frame(np.zeros(2), np.full(2, 4.0)).normalised(np.array([[1.0, 2.0]])).tolist()
        [[0.25, 0.5]]
        """
        span = np.where(self.reference > self.ideal, self.reference - self.ideal, 1.0)
        found = np.asarray((costs - self.ideal) / span)
        outside = ((found < -1e-9) | (found > 1 + 1e-9)).any(axis=1)
        if outside.any():
            worst = costs[outside][0].tolist()
            warnings.warn(
                f"{int(outside.sum())} of {len(costs)} points lie outside the task's ideal and "
                f"reference points, such as {worst}.",
                stacklevel=2,
            )
        return found


def hypervolume(normalised: Floats) -> float:
    """The hypervolume of normalised costs up to the reference point 1; 0 for none.

    Zitzler and Thiele (1998).

    >>> hypervolume(np.array([[0.25, 0.5], [0.5, 0.25]]))
    0.5
    """
    if not len(normalised):
        return 0.0
    return float(moocore.hypervolume(normalised, ref=np.ones(normalised.shape[1])))


def igd_plus(normalised: Floats, best: Floats) -> float:
    """IGD+ to the best known front (Ishibuchi et al., 2015); infinity for no point."""
    return float(moocore.igd_plus(normalised, ref=best)) if len(normalised) else np.inf


def epsilon(normalised: Floats, best: Floats) -> float:
    """The additive epsilon to the best known front (Zitzler et al., 2003); infinity for none."""
    return float(moocore.epsilon_additive(normalised, ref=best)) if len(normalised) else np.inf


def regret(volume: float, best: float) -> float:
    """How much of the best known front's hypervolume is missing, as a share of it.

    >>> regret(0.5, 1.0)
    0.5
    """
    return (best - volume) / best if best > 0 else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Indicators of one run.

    Attributes:
        at: Numbers of evaluations.
        hypervolume: At each of these, shape (len(at),).
        igd_plus: At each of these.
        epsilon: At each of these.
        front: Normalised costs of the non-dominated points at the last, shape (n, objectives).
        rows: Where in the run these were evaluated, shape (n,).
    """

    at: tuple[int, ...]
    hypervolume: Floats
    igd_plus: Floats
    epsilon: Floats
    front: Floats
    rows: NDArray[np.int64]


def scores(
    costs: Floats, violation: Floats, frame: Frame, best: Floats, at: Sequence[int]
) -> Scores:
    """Score a run after given numbers of evaluations.

    Args:
        costs: In the order of evaluation, shape (n, objectives).
        violation: 0 where all constraints hold, shape (n,).
        frame: The task's ideal and reference points.
        best: The best known front, normalised, shape (m, objectives).
        at: Numbers of evaluations, rising; those beyond n are left out.
    """
    normalised = frame.normalised(costs)
    marks = tuple(k for k in at if k <= len(costs))
    kept = np.empty(0, np.int64)
    found = []
    start = 0
    for k in marks:
        joined = np.concatenate([kept, np.arange(start, k)])
        kept, start = joined[front(costs[joined], violation[joined])], k
        points = normalised[kept]
        found.append((hypervolume(points), igd_plus(points, best), epsilon(points, best)))
    volumes, distances, gaps = np.array(found, np.float64).reshape(-1, 3).T
    return Scores(marks, volumes, distances, gaps, normalised[kept], kept)


def attainment(fronts: Sequence[Floats], percentiles: Sequence[float]) -> list[Floats]:
    """Attainment surfaces: what at least a share of the runs attained.

    Fonseca, Guerreiro, Lopez-Ibanez and Paquete (2011), On the computation of the empirical
    attainment function.

    Args:
        fronts: Costs of each run's non-dominated points, each of shape (n, objectives).
        percentiles: Shares of runs in percent, such as 50 for the median surface.

    Returns:
        For each percentile the points of its surface, sorted by the first objective.
    """
    points = np.concatenate(list(fronts))
    sets = np.repeat(np.arange(len(fronts)), [len(f) for f in fronts])
    surfaces = []
    for level in percentiles:
        found = moocore.eaf(points, sets=sets, percentiles=[level])
        surface = found[:, :-1]
        surfaces.append(surface[np.lexsort(surface.T[::-1])])
    return surfaces


def of_trajectory(found: Trajectory, frame: Frame, best: Floats, at: Sequence[int]) -> Scores:
    """`scores` of a trajectory."""
    return scores(found.costs, found.violation, frame, best, at)
