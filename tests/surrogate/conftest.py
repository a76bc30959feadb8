"""Fits of synthetic measurements that several tests look at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hwbench.surrogate.fit import Fit, Measurements, fit_surrogate
from hwbench.surrogate.settings import Settings
from tests.surrogate.synthetic import Machine, labels_of, sinusoid, space_s, write_store

BOOSTED = Settings(fewest=100, correction_rounds=10, spread_rounds=5)
"""Boosters even where few architectures were measured."""


@pytest.fixture(scope="session")
def measured() -> Measurements:
    """A drifting machine's measurements of 1,500 architectures of space s."""
    return Machine(drift=sinusoid(0.03), model=0.005).measure(space_s(1500), seed=1)


@pytest.fixture(scope="session")
def labels(measured: Measurements) -> NDArray[np.str_]:
    return labels_of(len(measured))


@pytest.fixture(scope="session")
def fit(measured: Measurements, labels: NDArray[np.str_]) -> Fit:
    """A fit with both boosters."""
    return fit_surrogate(measured, labels, "latency", BOOSTED)


@pytest.fixture(scope="session")
def synthetic_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of synthetic measurements, not to be written."""
    return write_store(tmp_path_factory.mktemp("stores") / "synthetic")
