"""`Collection`: readings gathered from many files, and the store that is written from them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture, ArchitectureTable, space
from hwbench.devices import catalogue
from hwbench.records.importing import workloads
from hwbench.records.importing.report import Account
from hwbench.records.observations import Repeats
from hwbench.records.readings import Readings, unacceptable
from hwbench.records.schema import UNITS
from hwbench.records.write import StoreWriter

SPACES = ("s", "m", "l")
"""The spaces that HW-GPT-Bench recorded."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a reading stands.

    Attributes:
        file: The file, relative to the source.
        session: The run it is of.
        position: Its order within the run.
    """

    file: str
    session: int
    position: int


@dataclass(slots=True)
class _Column:
    """The readings of one metric of one device in one space, and of one number of repeats."""

    architectures: list[Architecture] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    values: list[NDArray[np.float64]] = field(default_factory=list)


class Collection:
    """Readings gathered from many files.

    Attributes:
        account: What was kept and left out.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.account = Account()
        self._columns: dict[tuple[str | None, str, str, int], _Column] = {}
        self._seen: dict[tuple[str | None, str, Architecture], str] = {}
        self._order: dict[str, dict[Architecture, tuple[int, int]]] = {name: {} for name in SPACES}
        self._counts: dict[Architecture, tuple[int, int]] = {}
        self._interned: dict[Architecture, Architecture] = {}

    def add(
        self,
        source: Source,
        architecture: Architecture,
        device: str | None,
        metric: str,
        values: NDArray[np.float64],
    ) -> None:
        """Take a reading, or leave it out where its values cannot be used.

        Args:
            source: Where it stands.
            architecture: What it is of.
            device: The device; None for perplexity and accuracy.
            metric: The field name.
            values: The repeats in the store's unit.
        """
        wrong = unacceptable(metric, values)
        reason = said = ""
        if not len(values):
            reason = "no value"
        elif len(values) not in workloads.WARMUP:
            allowed = ", ".join(map(str, workloads.WARMUP))
            reason, said = f"the number of repeats is none of {allowed}", f"{len(values)} repeats"
        elif wrong.any():
            reason = _fault(values[wrong])
            said = f"{int(wrong.sum())} of {len(values)} repeats" if len(values) > 1 else ""
        elif (device, metric, architecture) in self._seen:
            reason = "the architecture was read before"
            said = f"in {self._seen[device, metric, architecture]}"
        if reason:
            self.account.leave(source.file, metric, source.position, reason, said)
            return
        self._seen[device, metric, architecture] = source.file
        key = (device, architecture.space, metric, len(values))
        column = self._columns.setdefault(key, _Column())
        column.architectures.append(architecture)
        column.sources.append(source)
        column.values.append(values)
        self.account.keep(source.file, metric)

    def place(self, architecture: Architecture, rank: int) -> None:
        """Say where an architecture stands in HW-GPT-Bench's list of its space.

        Ids follow that list, whatever the order of the files. The first word counts.
        """
        known = self._order[architecture.space]
        known.setdefault(architecture, (rank, len(known)))

    def architecture(self, made: Architecture) -> Architecture:
        """The one object that stands for an architecture, however often it is read."""
        return self._interned.setdefault(made, made)

    def count(self, architecture: Architecture, params: int, macs: int) -> None:
        """Note the parameters and multiply-accumulates that the source counted, 0 where unknown."""
        known = self._counts.get(architecture, (0, 0))
        self._counts[architecture] = (known[0] or params, known[1] or macs)

    def write(self, writer: StoreWriter) -> dict[str, int]:
        """Append everything to a store.

        Returns:
            How many architectures each space got.
        """
        used = {architecture for _, _, architecture in self._seen}
        counts = {}
        for name, known in self._order.items():
            listed = sorted(used.intersection(known), key=known.__getitem__)
            if listed:
                noted = np.array([self._counts.get(a, (0, 0)) for a in listed], np.int64)
                params, macs = (column if column.any() else None for column in noted.T)
                writer.add_architectures(ArchitectureTable.of(listed), params, macs)
                counts[name] = len(listed)
        writer.append(*(self._readings(*key) for key in sorted(self._columns, key=_rank)))
        return counts

    def _readings(self, device: str | None, name: str, metric: str, repeats: int) -> Readings:
        column = self._columns[device, name, metric, repeats]
        of = sorted(range(len(column.sources)), key=lambda i: _place(column.sources[i]))
        flat = np.concatenate([column.values[i] for i in of])
        return Readings(
            device=device,
            metric=metric,
            workload=workloads.workload(catalogue()[device], space(name), metric, repeats)
            if device is not None
            else None,
            architectures=ArchitectureTable.of([column.architectures[i] for i in of]),
            session=np.array([column.sources[i].session for i in of]),
            position=np.array([column.sources[i].position for i in of]),
            repeats=Repeats(flat, np.arange(len(of) + 1) * repeats),
        )


def _place(source: Source) -> tuple[int, int]:
    return source.session, source.position


def _rank(key: tuple[str | None, str, str, int]) -> tuple[int, int, int, int]:
    """Spaces, devices and metrics in their own orders, most repeats first."""
    device, name, metric, repeats = key
    devices = [*catalogue(), None]
    return SPACES.index(name), devices.index(device), list(UNITS).index(metric), -repeats


def _fault(values: NDArray[np.float64]) -> str:
    if not np.isfinite(values).all():
        return "not a finite value"
    return "zero" if not values.any() else "not a positive value"
