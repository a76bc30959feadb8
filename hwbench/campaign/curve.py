"""The learning curve: how well what was measured so far predicts what it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture, ArchitectureTable
from hwbench.encode import Features
from hwbench.errors import InvalidStore

FEWEST_RANDOM = 6
"""Randomly drawn architectures below which no error is estimated."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a learning curve.

    Attributes:
        architectures: How many different ones were measured.
        mape: Mean absolute percentage error of predictions for the randomly drawn ones, each by
            a fit that has not seen it.
    """

    architectures: int
    mape: float


def cross_validated(
    architectures: Sequence[Architecture], latency_ms: NDArray[np.float64], random: Sequence[bool]
) -> Point | None:
    """Estimate the error of a fit by leaving one architecture out at a time.

    Only those that were drawn uniformly are left out: errors on designed ones, which lie at the
    ends of the space, say little about queries.

    Args:
        architectures: What was measured, n of them.
        latency_ms: The median latency of each, shape (n,).
        random: Whether each was drawn uniformly.

    Returns:
        The point, or None where too little was measured.
    """
    # Surrogates load XGBoost; planning and measuring do without it.
    from hwbench.surrogate.base import fit_layer_cost

    drawn = [i for i, is_random in enumerate(random) if is_random]
    if len(drawn) < FEWEST_RANDOM:
        return None
    table = ArchitectureTable.of(architectures)
    errors = []
    for i in drawn:
        others = np.arange(len(table)) != i
        try:
            base = fit_layer_cost(table.take(others), latency_ms[others])
        except InvalidStore:
            return None  # a width that was not measured yet
        predicted = base.predict(Features(table.take(np.array([i]))))[0]
        errors.append(abs(predicted / latency_ms[i] - 1))
    return Point(len(table), 100 * float(np.mean(errors)))
