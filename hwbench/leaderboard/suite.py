"""`Suite`: the tasks, seeds and budgets on which optimisers are compared, read from one file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hwbench.architectures import space
from hwbench.errors import HwbenchError, InvalidValue, UnknownName, unknown
from hwbench.search import Task, algorithm

FILE = "suite.toml"


@dataclass(frozen=True, slots=True)
class Part:
    """Tasks on which some optimisers run with the same seeds and budget.

    Attributes:
        name: The part's name, which is that of a folder.
        spaces: Names of spaces.
        devices: Names of devices.
        objectives: Sets of objectives, joined by commas; `{device}` stands for each device.
        algorithms: Names of optimisers.
        seeds: How many seeds, from 0.
        evaluations: Of each run.
        scored_at: Numbers of evaluations after which runs are scored, rising; the last is
            `evaluations`.
    """

    name: str
    spaces: tuple[str, ...]
    devices: tuple[str, ...]
    objectives: tuple[str, ...]
    algorithms: tuple[str, ...]
    seeds: int
    evaluations: int
    scored_at: tuple[int, ...]

    def tasks(self) -> list[Task]:
        """All tasks: spaces by sets of objectives by devices."""
        made = [
            Task.of(space(name), objectives.format(device=device).split(","))
            for name in self.spaces
            for objectives in self.objectives
            for device in self.devices
        ]
        return list({task.name: task for task in made}.values())


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite and the folder in which everything about it lies.

    Attributes:
        folder: The folder, which holds `suite.toml`.
        title: What the leaderboard is called.
        parts: Where optimisers are compared.
        spaces: Spaces of the tables of surrogates, architectures and devices.
        devices: Devices of the tables of architectures and devices.
        front_evaluations: Evaluations of each of the long runs behind a best known front.
        front_rounds: Rounds of neighbours after these.
    """

    folder: Path
    title: str
    parts: tuple[Part, ...]
    spaces: tuple[str, ...]
    devices: tuple[str, ...]
    front_evaluations: int = 10_000
    front_rounds: int = 40

    def part(self, name: str) -> Part:
        """The part of that name.

        Raises:
            UnknownName: There is none.
        """
        for one in self.parts:
            if one.name == name:
                return one
        raise unknown("part of the suite", name, [one.name for one in self.parts])

    def tasks(self) -> list[Task]:
        """The tasks of all parts, each once."""
        return list({task.name: task for part in self.parts for task in part.tasks()}.values())


def read_suite(folder: str | Path) -> Suite:
    """Read the suite of a folder.

    Raises:
        InvalidValue: There is no such file, or it is no suite.
        UnknownName: It names a space or an optimiser that nothing bears.
    """
    path = Path(folder) / FILE
    try:
        table = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise InvalidValue(f"Cannot read the suite {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"The suite {path} is not TOML: {error}.") from None
    try:
        parts = tuple(_part(part) for part in table.pop("parts"))
        return Suite(folder=Path(folder), parts=parts, **_tuples(table))
    except UnknownName as error:
        raise UnknownName(f"In the suite {path}: {error}") from None
    except HwbenchError as error:
        raise InvalidValue(f"In the suite {path}: {error}") from None
    except (TypeError, KeyError, AttributeError) as error:
        known = [f.name for f in (*fields(Suite)[1:], *fields(Part))]
        raise InvalidValue(
            f"The suite {path} must have the fields {', '.join(known)}. Got an error: {error}."
        ) from None


def _tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}


def _part(table: Mapping[str, Any]) -> Part:
    part = Part(**_tuples(table))
    for name in part.algorithms:
        algorithm(name)
    marks = part.scored_at
    if not marks or list(marks) != sorted(set(marks)) or marks[-1] != part.evaluations:
        raise InvalidValue(
            f"scored_at of part {part.name} must rise and end with {part.evaluations}. "
            f"Got {list(marks)} instead."
        )
    if part.seeds < 1:
        raise InvalidValue(f"seeds of part {part.name} must be at least 1. Got {part.seeds}.")
    part.tasks()
    return part
