"""Does the model of the hardware agree with what was recorded? Rank correlation, task by task.

A task is a device and a space. Architectures of one embed_dim are compared with each other, so that
the one choice that matters most cannot carry the score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from hwbench.architectures import ArchitectureTable
from hwbench.cost.closed_form import count_table
from hwbench.cost.forward import Setting, forward_ms
from hwbench.devices import Hardware, hardware
from hwbench.errors import InvalidStore
from hwbench.records import Observations, Store, split

Floats = NDArray[np.float64]

METRIC = "latency"
PART = "test"
"""The part of the split that is scored; the constants of the model were looked at on "train"."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far predictors agree with one task's recorded latencies.

    Attributes:
        device: The device.
        space: The space's name.
        architectures: How many were scored.
        tau: Kendall's tau inside each embed_dim, mean over them, by predictor.
        ratio: Median of predicted over recorded latency, by embed_dim, of the whole model.
    """

    device: str
    space: str
    architectures: int
    tau: dict[str, float]
    ratio: dict[int, float]


_Predictor = Callable[[ArchitectureTable, Hardware, Setting], Floats]


def _with(quantised: bool, others: bool) -> _Predictor:
    def predict(table: ArchitectureTable, figures: Hardware, setting: Setting) -> Floats:
        how = Setting(
            block=setting.block,
            batch_size=setting.batch_size,
            seq_len=setting.seq_len,
            dtype=setting.dtype,
            autocast=setting.autocast,
            quantised=quantised,
            others=others,
        )
        return forward_ms(table, figures, how)

    return predict


PREDICTORS: dict[str, _Predictor] = {
    "FLOPs of weights": lambda table, figures, setting: count_table(table).flops.astype(float),
    "all FLOPs": lambda table, figures, setting: count_table(table).total_flops.astype(float),
    "products": _with(quantised=False, others=False),
    "products, quantised": _with(quantised=True, others=False),
    "all kernels": _with(quantised=False, others=True),
    "all kernels, quantised": _with(quantised=True, others=True),
}
"""What is compared, by name: counts, and the model of the hardware with and without its terms."""

WHOLE = "all kernels, quantised"
UNQUANTISED = "all kernels"
FITTED = "fitted"
"""The predictor that is no model: a least-squares time for each choice and width, from "train"."""


def agreements(store: Store) -> Iterator[Agreement]:
    """The agreement of every task of a store whose device has figures.

    Args:
        store: A store of recorded latencies.

    Yields:
        One agreement a device and space, spaces in their order, devices in the alphabet's.

    Raises:
        InvalidStore: A task has no architecture to score.
    """
    for space in store.spaces():
        for device in store.devices():
            if space in store.spaces(device):
                seen = store.observations(device, space, METRIC)
                figures = _figures(device)
                if seen is not None and figures is not None:
                    yield agreement(seen, figures)


def agreement(seen: Observations, figures: Hardware) -> Agreement:
    """The agreement of one task.

    Args:
        seen: Its recorded latencies.
        figures: The device's figures.

    Raises:
        InvalidStore: There is no architecture to score, or no workload to model.
    """
    if seen.workload is None or seen.device is None:
        raise InvalidStore("Recorded latencies must belong to a device and a workload.")
    labels = split(seen.table)
    scored, train = (seen.take(np.flatnonzero(labels == part)) for part in (PART, "train"))
    if not len(scored):
        raise InvalidStore(f"No architecture of {seen.space} is in the part {PART!r}.")
    setting = Setting(
        block=seen.workload.block,
        batch_size=seen.workload.batch_size,
        seq_len=seen.workload.seq_len,
        dtype=seen.workload.compute_dtype,
        autocast=seen.workload.autocast,
    )
    recorded, widths = scored.kept.medians, scored.table.embed_dim
    predicted = {name: f(scored.table, figures, setting) for name, f in PREDICTORS.items()}
    predicted[FITTED] = _fitted(train, scored.table)
    ratio = predicted[WHOLE] / recorded
    return Agreement(
        seen.device,
        seen.space,
        len(scored),
        {name: tau_inside(widths, values, recorded) for name, values in predicted.items()},
        {int(d): float(np.median(ratio[widths == d])) for d in np.unique(widths)},
    )


def tau_inside(groups: NDArray[np.int64], predicted: Floats, recorded: Floats) -> float:
    """Kendall's tau-b inside each group, mean over groups.

    Args:
        groups: The group of each value, shape (n,).
        predicted: Shape (n,).
        recorded: Shape (n,).

    >>> tau_inside(np.array([1, 1, 2, 2]), np.array([1.0, 2, 9, 8]), np.array([5.0, 6, 1, 0]))
    1.0
    """
    rows = [groups == group for group in np.unique(groups)]
    return float(np.mean([kendalltau(predicted[r], recorded[r]).statistic for r in rows]))


def _figures(device: str) -> Hardware | None:
    from hwbench.devices import catalogue

    entry = catalogue().get(device)
    return hardware(device) if entry is not None and entry.hardware is not None else None


def _fitted(train: Observations, table: ArchitectureTable) -> Floats:
    """What a table of one time a choice could reach, by least squares on relative errors."""
    result = np.zeros(len(table))
    recorded = train.kept.medians
    for width in np.unique(table.embed_dim):
        rows = train.table.embed_dim == width
        counts = _counts(train.table)[rows]
        weights = np.linalg.lstsq(counts / recorded[rows, None], np.ones(len(counts)), rcond=None)[
            0
        ]
        mine = table.embed_dim == width
        result[mine] = _counts(table)[mine] @ weights
    return result


def _counts(table: ArchitectureTable) -> Floats:
    space = table.search_space
    columns = [(table.n_head == h).sum(1) for h in space.n_head]
    columns += [(table.mlp_ratio == r).sum(1) for r in space.mlp_ratio]
    columns += [table.bias * table.n_layer, np.ones(len(table))]
    return np.stack(columns, axis=1).astype(np.float64)
