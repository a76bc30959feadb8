"""`describe`: what a store holds, one row for each metric of each device and space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hwbench.records.observations import Observations
from hwbench.records.store import Store


def describe(path: str | Path) -> list[dict[str, Any]]:
    """Summarise a store.

    Args:
        path: The store's folder.

    Returns:
        One dict for each device (None for perplexity and accuracy), space, metric and workload:
        `observations`, `architectures`, `strangers` left out, `sessions`, `repeats` (least and
        most), `warmup` repeats left out, `median` (of the architectures' medians, in `unit`),
        `relative_std` (median over the architectures, of the kept repeats; None where there is
        one repeat) and `workload` in words.

    Raises:
        InvalidStore: There is no store, or a file is damaged.
    """
    store = Store.open(path)
    rows = []
    for device in (*store.devices(), None):
        for space in store.spaces(device):
            for metric in store.metrics(device, space):
                rows += [_row(seen) for seen in _of(store, device, space, metric)]
    return rows


def _of(store: Store, device: str | None, space: str, metric: str) -> list[Observations]:
    found: list[Observations | None]
    if device is None:
        found = [store.quality(space, metric)]
    else:
        taken = store.workloads_of(device, space, metric)
        found = [store.observations(device, space, metric, workload) for workload in taken]
    return [seen for seen in found if seen is not None]


def _row(seen: Observations) -> dict[str, Any]:
    spread = seen.kept.relative_std
    known = spread[np.isfinite(spread)]
    medians = seen.kept.medians
    lengths = seen.repeats.lengths
    return {
        "device": seen.device,
        "space": seen.space,
        "metric": seen.metric,
        "observations": len(seen),
        "architectures": len(np.unique(seen.arch_id)),
        "strangers": seen.strangers,
        "sessions": len(np.unique(seen.session)),
        "repeats": [int(lengths.min()), int(lengths.max())],
        "warmup": seen.warmup_repeats,
        "median": float(np.median(medians[np.isfinite(medians)])),
        "unit": seen.unit,
        "relative_std": float(np.median(known)) if len(known) else None,
        "workload": str(seen.workload) if seen.workload is not None else None,
    }
