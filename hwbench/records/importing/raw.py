"""HW-GPT-Bench's raw observations: one folder a device and space, one pickle a shard.

`latency_<word>[_m|_l]/efficiency_observations_<from>_<to>.pkl` holds latencies, and on CPUs
energies; `efficiency_energy_observations_tracker_<from>_<to>.pkl` beside it the energies of a GPU;
`mem_<word>[_m|_l]/efficiency_observations_<from>_<to>.pkl` memory;
`arch_ppl_bench_<space>/ppl_observations_tracker_<from>_<to>.pkl` perplexity and accuracy. A folder
without a space's name is of space s. A shard is one session, `<from>` and `<to>` are the places of
its architectures in the list of the space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture
from hwbench.cost import count
from hwbench.devices import Device, catalogue
from hwbench.errors import InvalidArchitecture
from hwbench.records.files import sha256
from hwbench.records.importing.collect import Collection, Source
from hwbench.records.importing.numbers import numbers
from hwbench.records.importing.unpickle import InvalidPickle, load

ROOTS = ("data_collection/raw_results_hw", "raw_results_hw", "")
"""Where the folders lie in a checkout; of a shard that lies in two the first is read."""

_FOLDER = re.compile(r"(?P<kind>latency|mem)_(?P<word>\w+?)(?:_(?P<space>[sml]))?")
_QUALITY = re.compile(r"arch_ppl_bench_(?P<space>[sml])")
_SHARD = re.compile(
    r"(?P<kind>efficiency|efficiency_energy|ppl)_observations(?P<tracker>_tracker)?"
    r"_(?P<first>\d+)_(?P<last>\d+)\.pkl"
)

_MS = {"s": 1000.0, "ms": 1.0, "us": 0.001}
_J_PER_WH = 3600.0
# A GPU's energy is labelled "KWh" and is in Wh: over the watts that stand beside it, it makes up
# for a forward of seconds at most. In kWh that would be hours.
_LONGEST_S = 100.0

Kind = Literal["latency", "energy", "memory", "quality"]


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of raw observations.

    Attributes:
        path: The file.
        file: Its path inside the source.
        kind: What it holds.
        device: The device; None where it holds perplexities.
        space: The space's name.
        first: The place of its first architecture in the list of the space.
        session: The number of the shard.
    """

    path: Path
    file: str
    kind: Kind
    device: Device | None
    space: str
    first: int
    session: int


def find(source: Path, collection: Collection) -> list[Shard]:
    """The shards of a checkout, files that are none noted as ignored.

    Args:
        source: The checkout's folder.
        collection: Takes the note of what is ignored.

    Returns:
        The shards, latencies of GPUs first, for their order tells that of the architectures.
    """
    found: dict[tuple[str, str], Shard] = {}
    for root in ROOTS:
        for folder in sorted(p for p in (source / root).glob("*") if p.is_dir()):
            if not (_FOLDER.fullmatch(folder.name) or _QUALITY.fullmatch(folder.name)):
                continue
            for path in sorted(folder.glob("*.pkl")):
                shard = _shard(path, path.relative_to(source).as_posix())
                if isinstance(shard, str):
                    collection.account.ignored.append((path.relative_to(source).as_posix(), shard))
                    continue
                key = (folder.name, path.name)
                twin = found.setdefault(key, shard)
                if twin is not shard:
                    same = sha256(twin.path) == sha256(path)
                    reason = f"{'the same as' if same else 'another version of'} {twin.file}"
                    collection.account.ignored.append((shard.file, reason))
    order = ("latency", "memory", "energy", "quality")
    devices = [None, *catalogue().values()]
    return sorted(
        found.values(), key=lambda s: (order.index(s.kind), devices.index(s.device), s.first)
    )


def _shard(path: Path, file: str) -> Shard | str:
    """The shard that a file is, or why it is none."""
    parts = _SHARD.fullmatch(path.name)
    if parts is None or int(parts["last"]) <= int(parts["first"]):
        return "not named as a shard of observations"
    first, size = int(parts["first"]), int(parts["last"]) - int(parts["first"])
    what = (parts["kind"], bool(parts["tracker"]))
    quality = _QUALITY.fullmatch(path.parent.name)
    if quality:
        if what != ("ppl", True):
            return "not named as a shard of perplexities"
        return Shard(path, file, "quality", None, quality["space"], first, first // size)
    folder = _FOLDER.fullmatch(path.parent.name)
    if folder is None:
        return "not in a folder of observations"
    words = {d.raw_folder.lower(): d for d in catalogue().values() if d.raw_folder}
    device = words.get(folder["word"].lower())
    if device is None:
        return f"no known device is called {folder['word']!r} there"
    kinds: dict[tuple[str, str, bool], Kind] = {
        ("latency", "efficiency", False): "latency",
        ("latency", "efficiency_energy", True): "energy",
        ("mem", "efficiency", False): "memory",
    }
    kind = kinds.get((folder["kind"], *what))
    if kind is None or (kind != "latency" and device.kind != "gpu"):
        return "readings of an earlier form, which the benchmark does not use"
    return Shard(path, file, kind, device, folder["space"] or "s", first, first // size)


def read(shard: Shard, collection: Collection) -> None:
    """Read a shard into a collection.

    Raises:
        InvalidPickle: The file is damaged or not a list of observations.
    """
    entries = load(shard.path)
    if not isinstance(entries, list) or not all(isinstance(e, Mapping) for e in entries):
        raise InvalidPickle(f"{shard.path} must hold a list of observations, each a dict.")
    rank = shard.first
    for position, entry in enumerate(entries):
        source = Source(shard.file, shard.session, position)
        try:
            made = Architecture.from_dict(_arch(entry), space=shard.space)
        except InvalidArchitecture as error:
            reason = f"the architecture is not in space {shard.space}"
            for metric, _ in _readings(shard, entry):
                collection.account.leave(shard.file, metric, position, reason, str(error))
            continue
        architecture = collection.architecture(made)
        collection.place(architecture, rank)
        rank += 1
        fault = _count(architecture, entry, collection)
        for metric, values in _readings(shard, entry):
            reason = fault or (values if isinstance(values, str) else "")
            if isinstance(values, str) or fault:
                collection.account.leave(shard.file, metric, position, reason)
            else:
                device = shard.device.name if shard.device else None
                collection.add(source, architecture, device, metric, values)


def _arch(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    arch = entry.get("arch")
    if not isinstance(arch, Mapping):
        raise InvalidArchitecture("There is no 'arch', a dict.")
    return arch


def _count(architecture: Architecture, entry: Mapping[str, Any], collection: Collection) -> str:
    """Note what was counted; a fault where the parameters are not those of the architecture."""
    params, macs = (v if type(v := entry.get(k)) is int else 0 for k in ("params", "macs"))
    if params and params != count(architecture).params:
        return "the parameters counted are not those of the architecture"
    collection.count(architecture, params, macs)
    return ""


def _readings(
    shard: Shard, entry: Mapping[str, Any]
) -> Iterator[tuple[str, NDArray[np.float64] | str]]:
    """The readings of an entry by field name: values in the store's unit, or why there are none."""
    if shard.kind == "quality":
        yield "perplexity", numbers(entry.get("perplexity"))
        yield "accuracy", numbers(entry.get("accuracy"))
    elif shard.kind == "memory":
        yield "memory_mb", numbers(entry.get("mean_mem"))
    elif shard.kind == "energy":
        yield "energy_j", _gpu_energy(entry)
    elif shard.device is not None and shard.device.kind == "gpu":
        yield "latency_ms", _latency(entry, "gpu")
    else:
        yield "latency_ms", _latency(entry, "cpu")
        yield "energy_j", _cpu_energy(entry)


def _latency(entry: Mapping[str, Any], kind: str) -> NDArray[np.float64] | str:
    """Latencies in ms; every repeat has a unit of its own."""
    times = numbers(entry.get(f"times_profiler_{kind}"))
    units = entry.get(f"unit_{kind}")
    if isinstance(times, str):
        return times
    units = [units] * len(times) if isinstance(units, str) else units
    if not isinstance(units, list) or len(units) != len(times):
        return "not one unit a repeat"
    if any(unit not in _MS for unit in units):
        return f"a unit that is none of {', '.join(_MS)}"
    times_ms: NDArray[np.float64] = times * np.array([_MS[unit] for unit in units])
    return times_ms


def _gpu_energy(entry: Mapping[str, Any]) -> NDArray[np.float64] | str:
    """Energies in J of a list that is labelled "KWh" and holds Wh."""
    energy_wh = numbers(entry.get("energy_gpu"))
    if isinstance(energy_wh, str):
        return energy_wh
    if entry.get("unit_energy") != "KWh":
        return "a unit of energy that is not the known one"
    power_w = numbers(entry.get("emissions_gpu"))
    if not isinstance(power_w, str) and entry.get("unit") == "W":
        if len(power_w) != len(energy_wh):
            return "not one power a repeat"
        if np.any(energy_wh * _J_PER_WH > power_w * _LONGEST_S):
            return "energy over power is no forward's duration"
    return energy_wh * _J_PER_WH


def _cpu_energy(entry: Mapping[str, Any]) -> NDArray[np.float64] | str:
    """The mean energy in J."""
    energy_wh = numbers(entry.get("mean_energy_cpu"))
    if isinstance(energy_wh, str):
        return energy_wh
    if entry.get("unit_energy") != "Wh":
        return "a unit of energy that is not the known one"
    return energy_wh * _J_PER_WH
