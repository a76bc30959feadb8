"""Implied power: energy over time, which no device can exceed for long.

Energy and latency may have been taken at different batch sizes, so the time is scaled to the work
that the energy is of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from hwbench.devices import Device
from hwbench.records.observations import Repeats
from hwbench.workload import Workload

MARGIN = 1.25
"""How far above the packages' limits a reading may lie before it is called unlikely."""

IMPOSSIBLE = 3.0
"""How far above that before it is called impossible."""


def check(
    table: Any, workloads: Sequence[Workload], device: Device
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Compare the implied power of every architecture with what the device may draw.

    Medians of the repeats without the warm-up are compared. An energy is set against the latency
    of the same block and phase, of the same batch size if there is one.

    Args:
        table: Rows of an observations file.
        workloads: The store's workloads.
        device: Its entry in the catalogue.

    Yields:
        For each pair of workloads: the rule in words, the architectures above it, and those so far
        above it that the reading is impossible.
    """
    limit = device.sockets * device.power_limit_w * MARGIN
    times = _medians(table, "latency_ms", workloads)
    for index, (energy_ids, energy_j) in _medians(table, "energy_j", workloads).items():
        match = _match(workloads, index, times)
        if match is None:
            continue
        time_ids, latency_ms = times[match]
        scale = _work(workloads[index]) / _work(workloads[match])
        ids, left, right = np.intersect1d(energy_ids, time_ids, return_indices=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            power_w = energy_j[left] / (latency_ms[right] * scale / 1000)
        above = power_w > limit
        beyond = power_w > IMPOSSIBLE * limit
        scaled = f", time x {scale:g} for the batch" if scale != 1 else ""
        message = f"energy over latency{scaled} is above {limit:g} W"
        yield message, _said(ids, power_w, above & ~beyond), _said(ids, power_w, beyond)


def _medians(
    table: Any, field: str, workloads: Sequence[Workload]
) -> dict[int, tuple[NDArray[Any], NDArray[np.float64]]]:
    """Architectures and the medians of their kept repeats, for each workload of a metric."""
    rows = table.filter(pc.equal(table["metric"].cast("string"), field)).combine_chunks()
    index = rows["workload"].to_numpy()
    found = {}
    for at in np.unique(index).tolist():
        if not 0 <= at < len(workloads):
            continue
        some = rows.filter(index == at)
        kept = Repeats.of_lists(some["values"]).without_first(workloads[at].warmup_repeats)
        ids, first = np.unique(some["arch_id"].to_numpy(), return_index=True)
        found[at] = (ids, kept.medians[first])
    return found


def _match(workloads: Sequence[Workload], energy: int, times: dict[int, Any]) -> int | None:
    wanted = workloads[energy]
    like = [
        at
        for at in times
        if (workloads[at].block, workloads[at].phase) == (wanted.block, wanted.phase)
    ]
    same = [at for at in like if _work(workloads[at]) == _work(wanted)]
    return next(iter(same or like), None)


def _work(workload: Workload) -> int:
    """Tokens of one pass."""
    return workload.batch_size * workload.seq_len


def _said(ids: NDArray[Any], power_w: NDArray[np.float64], which: NDArray[np.bool_]) -> list[str]:
    """The architectures in question, those of the highest power first."""
    order = np.argsort(-power_w[which], kind="stable")
    pairs = zip(ids[which][order].tolist(), power_w[which][order].tolist(), strict=True)
    return [f"arch_id {i}: {p:.0f} W" for i, p in pairs]
