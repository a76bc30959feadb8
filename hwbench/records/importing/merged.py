"""HW-GPT-Bench's merged `stats.pkl`: one dict, the text of an architecture to what was measured.

The file states no unit. They are taken to be the ones in which HW-GPT-Bench draws its figures:
latencies in ms, energies in Wh, memory in MB of 10^6 bytes. What can be told from the numbers is
checked for each architecture, and what does not fit is left out and listed:

* a latency must imply a rate of multiply-accumulates that such a device can have (seconds or
  microseconds taken for milliseconds are off by a thousand);
* an energy must imply a power between 1 W and what the device cannot exceed (kWh, J and mJ are
  off by a thousand or more);
* memory must be 4 to 9 bytes a parameter. MiB would pass: that it is MB stands in the code that
  measured it.

Nor does the file say in which runs the numbers were taken: all are put into session 0, in the order
of the file. Accuracy is read where it is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture
from hwbench.cost import count
from hwbench.devices import Device, catalogue, device
from hwbench.errors import HwbenchError, InvalidArchitecture
from hwbench.records import power
from hwbench.records.importing import workloads
from hwbench.records.importing.collect import SPACES, Collection, Source
from hwbench.records.importing.numbers import numbers
from hwbench.records.importing.unpickle import InvalidPickle, load

_J_PER_WH = 3600.0
_LEAST_W = 1.0
_BYTES_A_PARAMETER = (4.0, 9.0)
_MACS_A_SECOND = {"gpu": (5e10, 2e15), "cpu": (1e9, 2e13)}
"""What a device of the kind can do at least and at most."""

_MEMORY = {"bfloat16_memory": "a100", "float16_memory": "rtx2080"}
"""The devices on which memory was read, by the type that was computed in."""

_AGNOSTIC = ("perplexity", "accuracy")
_COUNTS = ("flops", "macs", "params")

Reading = tuple[str | None, str, "NDArray[np.float64] | str"]


def find(source: Path) -> list[Path]:
    """The merged files of a checkout, or the one that the source is."""
    if source.is_file():
        return [source]
    root = source / "data_collection/gpt_datasets"
    paths = [root / f"gpt_{name}" / "stats.pkl" for name in SPACES]
    return [path for path in (*paths, source / "stats.pkl") if path.is_file()]


def read(path: Path, file: str, collection: Collection) -> None:
    """Read a merged file into a collection.

    Args:
        path: The file.
        file: Its name in the report.
        collection: Takes the readings.

    Raises:
        InvalidPickle: The file is damaged, or not a dict of architectures' texts.
    """
    stats = load(path)
    if not isinstance(stats, Mapping) or not all(
        isinstance(k, str) and isinstance(v, Mapping) for k, v in stats.items()
    ):
        raise InvalidPickle(
            f"{path} must hold a dict of architectures' texts, each with a dict of its metrics."
        )
    for position, (text, entry) in enumerate(stats.items()):
        source = Source(file, 0, position)
        try:
            architecture = collection.architecture(_architecture(text))
        except InvalidArchitecture as error:
            for _, metric, _ in _named(entry):
                reason = "the architecture cannot be read"
                collection.account.leave(file, metric, position, reason, str(error))
            continue
        collection.place(architecture, position)
        fault = _count(architecture, entry, collection)
        for where, metric, values in _checked(architecture, entry):
            if isinstance(values, str) or fault:
                reason = fault or str(values)
                collection.account.leave(file, metric, position, reason, where or "")
            else:
                collection.add(source, architecture, where, metric, values)


def _architecture(text: str) -> Architecture:
    made = Architecture.parse(text)
    if made.space not in SPACES:
        raise InvalidArchitecture(f"Space {made.space} is not one that HW-GPT-Bench recorded.")
    return made


def _count(architecture: Architecture, entry: Mapping[str, Any], collection: Collection) -> str:
    params = entry.get("params")
    params = int(params) if isinstance(params, int | float | np.number) else 0
    if params and params != count(architecture).params:
        return "the parameters counted are not those of the architecture"
    collection.count(architecture, params, 0)
    return ""


def _named(entry: Mapping[str, Any]) -> Iterator[Reading]:
    """All that stands in an entry: device, field name, and the numbers as they are."""
    for key, value in entry.items():
        if key in _MEMORY:
            yield _MEMORY[key], "memory_mb", numbers(value)
        elif key in _AGNOSTIC:
            yield None, key, numbers(value)
        elif isinstance(value, Mapping):
            yield from _of_device(str(key), value)
        elif key not in _COUNTS:
            yield None, str(key), "not a metric of HW-GPT-Bench"


def _of_device(key: str, values: Mapping[str, Any]) -> Iterator[Reading]:
    fields = {"latencies": "latency_ms", "energies": "energy_j"}
    try:
        name = device(key).name
    except HwbenchError:
        name = ""
    for metric, value in values.items():
        field = fields.get(str(metric))
        if not name or field is None:
            what = f"metric {metric!r}" if name else f"device {key!r}"
            yield None, field or str(metric), f"unknown {what}"
        else:
            yield name, field, numbers(value)


def _checked(architecture: Architecture, entry: Mapping[str, Any]) -> Iterator[Reading]:
    """The readings in the store's units, or why they cannot be of the unit that is assumed."""
    found = list(_named(entry))
    times = {
        where: values
        for where, metric, values in found
        if metric == "latency_ms" and where is not None and not isinstance(values, str)
    }
    for where, metric, values in found:
        if isinstance(values, str) or where is None or not _usable(values):
            yield where, metric, values
            continue
        on = catalogue()[where]
        if metric == "latency_ms":
            fits = _rate_fits(architecture, on, values)
            yield where, metric, values if fits else "not a latency in ms"
        elif metric == "memory_mb":
            ratio = values * 1e6 / count(architecture).params
            low, high = _BYTES_A_PARAMETER
            fits = bool(((ratio > low) & (ratio < high)).all())
            yield where, metric, values if fits else "not a memory in MB"
        else:
            yield where, metric, _energy_j(architecture, on, values, times.get(where))


def _usable(values: NDArray[np.float64]) -> bool:
    """Whether there is something to check: a zero or a NaN is left out for what it is."""
    return bool(len(values) and np.isfinite(values).all() and (values > 0).all())


def _rate_fits(architecture: Architecture, on: Device, times_ms: NDArray[np.float64]) -> bool:
    low, high = _MACS_A_SECOND[on.kind]
    rate = count(architecture).macs / (times_ms / 1000)
    return bool(((rate > low) & (rate < high)).all())


def _energy_j(
    architecture: Architecture,
    on: Device,
    energy_wh: NDArray[np.float64],
    times_ms: NDArray[np.float64] | None,
) -> NDArray[np.float64] | str:
    """Energies in J, if they imply a power that the device can have."""
    if times_ms is None or not _usable(times_ms) or not _rate_fits(architecture, on, times_ms):
        return "no latency to tell the energy's unit by"
    if not {len(energy_wh), len(times_ms)} <= set(workloads.WARMUP):
        return energy_wh * _J_PER_WH
    space = architecture.search_space
    work = [
        workloads.workload(on, space, metric, len(values)).batch_size
        for metric, values in (("energy_j", energy_wh), ("latency_ms", times_ms))
    ]
    energy_j = energy_wh * _J_PER_WH
    power_w = np.median(energy_j) / (np.median(times_ms) / 1000 * work[0] / work[1])
    limit = on.sockets * on.power_limit_w * power.MARGIN * power.IMPOSSIBLE
    return energy_j if _LEAST_W <= power_w <= limit else "not an energy in Wh"
