"""The ridge between two bias tables is weak where a device is clean, and strong where it is not."""

from __future__ import annotations

import numpy as np

from hwbench import space
from hwbench.architectures import ArchitectureTable
from hwbench.encode import Features
from hwbench.surrogate.shrinkage import SHRINKS, choose_shrink

TABLE = ArchitectureTable.of(space("s").sample(64, seed=2))


def observed(noise: float, difference: float) -> np.ndarray:
    features = Features(TABLE)
    plain = features.counts @ np.array([1.0, 2.0, 2.5, 1.0, 1.7, 2.2])
    biased = features.counts @ np.array([1.0, 2.0, 2.5, 1.3, 1.7, 2.9])
    cost = 5 + np.where(TABLE.bias, plain + difference * (biased - plain), plain)
    return np.asarray(cost * np.exp(np.random.default_rng(0).normal(0, noise, len(TABLE))))


def test_two_tables_where_they_differ_and_nothing_is_noisy() -> None:
    assert choose_shrink(TABLE, observed(1e-4, 1.0), seed=0) == SHRINKS[0]


def test_one_table_where_noise_is_all_there_is() -> None:
    assert choose_shrink(TABLE, observed(0.05, 0.0), seed=0) >= 1.0


def test_the_seed_decides_and_a_width_of_one_architecture_is_no_error() -> None:
    values = observed(0.05, 0.0)
    assert choose_shrink(TABLE, values, seed=3) == choose_shrink(TABLE, values, seed=3)
    one = np.flatnonzero(Features(TABLE).width == 0)[:1]
    rows = np.concatenate([one, np.flatnonzero(Features(TABLE).width > 0)])
    assert choose_shrink(TABLE.take(rows), values[rows], seed=0) == 1.0
