"""`Suite`: the tasks, seeds and budgets on which optimisers are compared, read from one file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwbench.architectures import space
from hwbench.devices import device
from hwbench.errors import HwbenchError, InvalidValue, UnknownName, brief, unknown
from hwbench.search import Task, algorithm
from hwbench.search.trajectory import NAME, is_name

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
            Task.of(space(name), objectives.replace("{device}", each).split(","))
            for name in self.spaces
            for objectives in self.objectives
            for each in self.devices
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
        UnknownName: It names a field, space, device or optimiser that nothing bears.
    """
    path = Path(folder) / FILE
    try:
        table = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise InvalidValue(f"Cannot read the suite {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"The suite {path} is not TOML: {error}.") from None
    try:
        return _suite(Path(folder), table)
    except UnknownName as error:
        raise UnknownName(f"In the suite {path}: {error}") from None
    except HwbenchError as error:
        raise InvalidValue(f"In the suite {path}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Field:
    """What a field of a suite's file must be."""

    allowed: str
    fits: Callable[[Any], bool]
    needed: bool = True


def _is_count(value: object, least: int = 1) -> bool:
    return type(value) is int and value >= least


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and value != [] and all(map(fits, value))


_COUNT = _Field("an int of at least 1", _is_count)
_NAMES = _Field("a list of names", _list_of(_is_text))

_OF_SUITE = {
    "title": _Field("a text", _is_text),
    "spaces": _NAMES,
    "devices": _NAMES,
    "front_evaluations": replace(_COUNT, needed=False),
    "front_rounds": _Field("an int of at least 0", lambda v: _is_count(v, 0), needed=False),
    "parts": _Field("a list of tables", _list_of(lambda part: isinstance(part, dict))),
}

_OF_PART = {
    "name": _Field(NAME, is_name),
    "spaces": _NAMES,
    "devices": _NAMES,
    "objectives": _Field("a list of texts", _list_of(_is_text)),
    "algorithms": _NAMES,
    "seeds": _COUNT,
    "evaluations": _COUNT,
    "scored_at": _Field("a list of ints of at least 1", _list_of(_is_count)),
}


def _fields(of: str, table: Mapping[str, Any], wanted: Mapping[str, _Field]) -> dict[str, Any]:
    """The fields of a table, lists as tuples, each as it must be."""
    for name in table:
        if name not in wanted:
            raise unknown(f"field of {of}", name, wanted)
    for name, field in wanted.items():
        if name not in table and field.needed:
            raise InvalidValue(f"{name} of {of} must be {field.allowed}. Got nothing.")
        if name in table and not field.fits(table[name]):
            got = brief(table[name])
            raise InvalidValue(f"{name} of {of} must be {field.allowed}. Got {got} instead.")
    return {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}


def _suite(folder: Path, table: Mapping[str, Any]) -> Suite:
    fields = _fields("the suite", table, _OF_SUITE)
    for name in fields["spaces"]:
        space(name)
    fields["devices"] = tuple(device(name).name for name in fields["devices"])
    fields["parts"] = tuple(map(_part, fields["parts"]))
    names = [part.name for part in fields["parts"]]
    if len(set(names)) < len(names):
        raise InvalidValue(f"The parts must have different names. Got {', '.join(names)}.")
    return Suite(folder=folder, **fields)


def _part(table: Mapping[str, Any]) -> Part:
    name = table.get("name")
    part = Part(**_fields(f"part {name}" if is_name(name) else "a part", table, _OF_PART))
    for each in part.algorithms:
        algorithm(each)
    marks = part.scored_at
    if list(marks) != sorted(set(marks)) or marks[-1] != part.evaluations:
        raise InvalidValue(
            f"scored_at of part {part.name} must rise and end with {part.evaluations}. "
            f"Got {list(marks)} instead."
        )
    for task in part.tasks():
        for objective in task.objectives:
            if objective.device is not None:
                device(objective.device)
    return part
