"""Whether a supernet ranks architectures as training them alone does: Kendall's tau."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import kendalltau

from hwbench.architectures import Architecture
from hwbench.cost import count
from hwbench.errors import invalid


@dataclass(frozen=True, slots=True)
class Tau:
    """Kendall's tau-b and its 95% percentile interval over bootstrap samples.

    Attributes:
        value: The tau.
        low: The interval's lower end.
        high: Its upper end.
        n: How many architectures it is of.
    """

    value: float
    low: float
    high: float
    n: int


def rank_correlation(a: ArrayLike, b: ArrayLike, *, seed: int = 0, samples: int = 2000) -> Tau:
    """Kendall's tau-b of two scores of the same architectures.

    Args:
        a: One score, shape (n,), n >= 3.
        b: The other, likewise.
        seed: Of the bootstrap.
        samples: Bootstrap samples; those whose scores are all equal have no tau and are left out.

    Raises:
        InvalidValue: The shapes differ, or n is less than 3.

    >>> rank_correlation([1, 2, 3, 4], [10, 20, 30, 25]).value
    0.6666666666666669
    """
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if x.ndim != 1 or x.shape != y.shape or len(x) < 3:
        raise invalid("b", "rank_correlation", "as long as 'a', 3 or more", [x.shape, y.shape])
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, len(x), (samples, len(x)))
    drawn = [kendalltau(x[r], y[r]).statistic for r in rows if np.ptp(x[r]) and np.ptp(y[r])]
    low, high = np.quantile(drawn, [0.025, 0.975]) if drawn else (np.nan, np.nan)
    return Tau(float(kendalltau(x, y).statistic), float(low), float(high), len(x))


def stratified(architectures: Sequence[Architecture], n: int, seed: int) -> list[Architecture]:
    """Draw architectures evenly over the range of parameter counts.

    Args:
        architectures: What to draw from, at least `n`.
        n: How many; one is drawn from each n-th of the list, sorted by parameters.
        seed: Of the draw.

    Returns:
        The n architectures, by ascending parameters.

    Raises:
        InvalidValue: There are fewer than `n`.
    """
    if not 1 <= n <= len(architectures):
        raise invalid("n", "stratified", f"from 1 to {len(architectures)}", n)
    by_size = sorted(architectures, key=lambda a: (count(a, block="gpt2").params, str(a)))
    rng = np.random.default_rng(seed)
    strata = np.array_split(np.arange(len(by_size)), n)
    return [by_size[int(rng.choice(stratum))] for stratum in strata]
