"""Measurements whose truth is known: layer costs, a drifting machine, noise of each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable, SearchSpace, space
from hwbench.encode import Features
from hwbench.records import Readings, Repeats, StoreWriter
from hwbench.surrogate.base import LayerCost
from hwbench.surrogate.fit import Measurements
from hwbench.workload import Workload

Floats = NDArray[np.float64]

TINY = SearchSpace("tiny", (64, 128), (3, 4), (1, 2), (2, 4), (True, False))
"""A space of one's own, of 1,280 architectures."""

WORKLOAD = Workload(batch_size=1, seq_len=1024, method="synthetic", warmup_repeats=2)


def draw(owner: SearchSpace, n: int, seed: int) -> ArchitectureTable:
    """Different architectures of a space."""
    unique = dict.fromkeys(owner.sample(20 * n if owner.size < 10**5 else n, seed))
    table = ArchitectureTable.of(list(unique)[:n])
    assert len(table) == n
    return table


def layer_costs(owner: SearchSpace, seed: int) -> LayerCost:
    """Costs of layers as a device might have them, in ms: wider is dearer, biases cost a little."""
    rng = np.random.default_rng(seed)
    widths, heads, ratios = len(owner.embed_dim), len(owner.n_head), len(owner.mlp_ratio)
    found = np.empty((widths, len(owner.bias), heads + ratios))
    for w in range(widths):
        costs = np.concatenate(
            [[2.0], 0.5 + 0.2 * np.arange(heads), 0.15 * np.arange(1, ratios)]
        ) * rng.uniform(0.9, 1.1, heads + ratios)
        for b in range(len(owner.bias)):
            found[w, b] = (w + 1) * costs * (1 + 0.05 * b)
    return LayerCost(found, 1e-6)


def sessions(n: int, count: int = 2) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sessions of equal length, and the position in each."""
    index = np.arange(n)
    return index * count // n, index % -(-n // count)


@dataclass(frozen=True)
class Machine:
    """What a synthetic machine adds to the cost, on the logarithmic scale.

    Attributes:
        repeat: Standard deviation of repeats about their architecture's.
        drift: The drift at each (session, position).
        model: Standard deviation of each architecture's own deviation from its layers' costs.
        repeats: How many repeats are kept.
    """

    repeat: float = 0.01
    drift: Callable[[NDArray[np.int64], NDArray[np.int64]], Floats] = lambda s, p: np.zeros(len(p))
    model: float = 0.0
    repeats: int = 5

    def measure(
        self, table: ArchitectureTable, seed: int, truth: LayerCost | None = None
    ) -> Measurements:
        """Measure architectures in two sessions."""
        n, rng = len(table), np.random.default_rng(seed)
        truth = truth or layer_costs(table.search_space, 0)
        session, position = sessions(n)
        line = np.log(truth.predict(Features(table))) + self.drift(session, position)
        line = line + self.model * rng.standard_normal(n)
        noise = self.repeat * rng.standard_normal((n, self.repeats))
        return Measurements(table, np.exp(line[:, None] + noise), session, position)


def sinusoid(height: float, period: int = 250) -> Callable[..., Floats]:
    """A drift whose standard deviation is `height`, of another phase in each session.

    Where sessions are whole periods long its mean is 0, so that it cannot be told from the costs.
    """

    def at(session: NDArray[np.int64], position: NDArray[np.int64]) -> Floats:
        wave: Floats = np.sin(2 * np.pi * position / period + 1.3 * session)
        return height * np.sqrt(2) * wave

    return at


def labels_of(n: int, seed: int = 0) -> NDArray[np.str_]:
    """A random split: 70% to train, 20% to calibrate, 10% to test."""
    return np.random.default_rng(seed).choice(["train", "calibrate", "test"], n, p=[0.7, 0.2, 0.1])


def readings(measured: Measurements, device: str | None, metric: str) -> Readings:
    """Measurements as a store takes them; those of a device get two slow warm-up repeats."""
    n = len(measured)
    values = measured.values
    if device is not None:
        values = np.concatenate([1.5 * values[:, :1], 1.2 * values[:, :1], values], axis=1)
    return Readings(
        device=device,
        metric=metric,
        workload=WORKLOAD if device is not None else None,
        architectures=measured.table,
        session=measured.session,
        position=measured.position,
        repeats=Repeats(values.ravel(), values.shape[1] * np.arange(n + 1)),
    )


def write_store(path: Path, architectures: int = 600) -> Path:
    """A store of a tiny space with a drifting GPU, a noisy CPU and perplexities."""
    table = draw(TINY, architectures, 3)
    gpu = Machine(drift=sinusoid(0.03)).measure(table, 1)
    cpu = Machine(repeat=0.05, repeats=3).measure(table, 2, layer_costs(TINY, 5))
    quality = Machine(repeat=0.001, repeats=1).measure(table, 4)
    writer = StoreWriter.create(path, name="synthetic", source="a test", licence="CC0-1.0")
    writer.append(
        readings(gpu, "h100", "latency"),
        readings(cpu, "cpu_xeon_gold", "latency"),
        readings(quality, None, "perplexity"),
    )
    return path


def space_s(n: int, seed: int = 0) -> ArchitectureTable:
    """Architectures of space s."""
    return draw(space("s"), n, seed)
