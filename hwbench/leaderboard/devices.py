"""Devices side by side: how alike they rank architectures."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import kendalltau, spearmanr

from hwbench.benchmark import Benchmark
from hwbench.errors import Unsupported
from hwbench.leaderboard.suite import Suite

DRAWN = 1000
"""Architectures that are ranked: random ones of the space, by seed 0."""


def device_rows(
    suite: Suite, metrics: tuple[str, ...] = ("latency", "energy")
) -> list[dict[str, Any]]:
    """A row for each space, metric and pair of devices: Kendall's tau and Spearman's rho.

    Over predicted medians of the same random architectures, which differ in width: a pair that
    agrees on widths alone is already far from 0.
    """
    made: list[dict[str, Any]] = []
    for name in suite.spaces:
        bench = Benchmark(name)
        archs = bench.space.sample(DRAWN, 0)
        for metric in metrics:
            medians = {}
            for device in suite.devices:
                try:
                    medians[device] = bench.predict(archs, device, metric, (0.5,))[:, 0]
                except Unsupported:
                    continue
            made += [
                {
                    "space": name,
                    "metric": metric,
                    "device": a,
                    "other": b,
                    "tau": float(np.float64(kendalltau(medians[a], medians[b])[0])),
                    "rho": float(np.float64(spearmanr(medians[a], medians[b])[0])),
                }
                for i, a in enumerate(medians)
                for b in list(medians)[i + 1 :]
            ]
    return made
