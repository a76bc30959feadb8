"""Trajectory files: what a run evaluated, in order, one JSON value a line.

The first line is the header, an object; every other line is a list of the evaluation's number
(from 1), the architecture's text, the objectives' values in their units, and, where the task has
constraints, how far each is broken as a share of its bound (0 or less where it holds). The header
pins the ids of the artefacts that answered.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import SearchSpace
from hwbench.errors import HwbenchError, InvalidValue, brief
from hwbench.search.task import Task

Floats = NDArray[np.float64]

FORMAT = 1
LONGEST_LINE = 65536


def is_name(value: object) -> bool:
    """Whether something can name an optimiser, and so a file.

    >>> is_name("my-search_2"), is_name("../x"), is_name("")
    (True, False, False)
    """
    return isinstance(value, str) and re.fullmatch(r"\w[\w-]{0,59}", value, re.ASCII) is not None


NAME = "a name of at most 60 letters, digits, '-' and '_'"
"""What `is_name` allows, for errors."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a trajectory says of itself.

    Attributes:
        task: Space, objectives, constraints, noise.
        algorithm: The optimiser's name.
        seed: The run's seed.
        evaluations: How many evaluations the run has when it is complete.
        artifacts: The id of the artefact behind each objective, "" for a closed form.
    """

    task: Task
    algorithm: str
    seed: int
    evaluations: int
    artifacts: dict[str, str]

    def line(self) -> str:
        """The first line of the file, without its newline."""
        task = self.task
        values = {
            "format": FORMAT,
            "space": task.search_space.to_dict(),
            "objectives": [str(o) for o in task.objectives],
            "units": [o.of.unit for o in task.objectives],
            "constraints": [str(c) for c in task.constraints],
            "noisy": task.noisy,
            "algorithm": self.algorithm,
            "seed": self.seed,
            "evaluations": self.evaluations,
            "artifacts": self.artifacts,
        }
        return json.dumps(values, sort_keys=True)

    @classmethod
    def parse(cls, line: str) -> Header:
        """Read a first line.

        Raises:
            InvalidValue: It is no header of this format.
        """
        try:
            values = json.loads(line)
            if values["format"] != FORMAT:
                raise InvalidValue(
                    f"The header's format must be {FORMAT}. Got {brief(values['format'])} instead."
                )
            space = SearchSpace.from_dict(values["space"])
            noisy = values["noisy"]
            task = Task.of(space, values["objectives"], values["constraints"], noisy=noisy)
            named = (values["algorithm"], values["seed"], values["evaluations"])
            pins = values["artifacts"]
        except HwbenchError as error:
            raise InvalidValue(f"line 1: {error}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidValue(
                f"line 1: a trajectory must begin with its header. Got {brief(str(error))}."
            ) from None
        wanted = (str, int, int)
        if any(type(v) is not t for v, t in zip(named, wanted, strict=True)) or not isinstance(
            pins, dict
        ):
            raise InvalidValue(
                "line 1: the header's algorithm must be a text, its seed and evaluations ints and "
                "its artifacts an object."
            )
        if type(noisy) is not bool or named[1] < 0 or named[2] < 1:
            raise InvalidValue(
                "line 1: the header's noisy must be true or false, its seed at least 0 and its "
                "evaluations at least 1."
            )
        return cls(task, *named, {str(k): str(v) for k, v in pins.items()})


@dataclass(frozen=True, slots=True)
class Line:
    """One evaluation as a file has it.

    Attributes:
        number: The line's number in the file, from 1.
        evaluation: The evaluation's number, from 1.
        text: The architecture's text, not yet parsed.
        values: The objectives' values, finite.
        violations: How far each constraint is broken, finite.
    """

    number: int
    evaluation: int
    text: str
    values: list[float]
    violations: list[float]


def lines(path: Path, *, partial: bool = False) -> Iterator[Header | Line]:
    """Read a trajectory line by line: its header, then its evaluations; memory stays bounded.

    Args:
        path: The file.
        partial: Stop before a last line that was cut off, rather than refuse it.

    Raises:
        InvalidValue: A line is not as it must be; the error names it. Evaluations must count up
            from 1 and may not be more than the header says.
        OSError: The file cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline(LONGEST_LINE)
        if partial and not first.endswith("\n"):
            return
        header = Header.parse(first)
        yield header
        number = 1
        while text := file.readline(LONGEST_LINE):
            number += 1
            if partial and not text.endswith("\n"):
                return
            if number - 1 > header.evaluations:
                raise InvalidValue(
                    f"line {number}: the header says {header.evaluations} evaluations. Got more."
                )
            yield _parsed(text, number, header.task)


def _parsed(text: str, number: int, task: Task) -> Line:
    k, c = len(task.objectives), len(task.constraints)
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidValue(f"line {number}: it must be JSON. Got {brief(text)} instead.") from None
    if not isinstance(value, list) or len(value) != 2 + k + c:
        raise InvalidValue(
            f"line {number}: it must be a list of the evaluation, the architecture and "
            f"{k + c} numbers. Got {brief(value)} instead."
        )
    evaluation, arch, *numbers = value
    if type(evaluation) is not int or evaluation != number - 1:
        raise InvalidValue(
            f"line {number}: the evaluation must be {number - 1}. Got {brief(evaluation)} instead."
        )
    if not isinstance(arch, str):
        raise InvalidValue(
            f"line {number}: the architecture must be a text. Got {brief(arch)} instead."
        )
    for one in numbers:
        if type(one) not in (int, float) or not abs(one) <= sys.float_info.max:
            raise InvalidValue(
                f"line {number}: every value must be a finite number. Got {brief(one)} instead."
            )
    found = [float(one) for one in numbers]
    return Line(number, evaluation, arch, found[:k], found[k:])


def rows(first: int, names: list[str], values: Floats, violations: Floats) -> str:
    """The lines of consecutive evaluations, each with its newline.

    Args:
        first: The first one's number, from 1.
        names: The architectures' texts.
        values: Shape (n, objectives).
        violations: Shape (n, constraints).
    """
    numbers = np.concatenate([values, violations], axis=1).tolist()
    return "".join(
        f'[{i}, "{name}", {", ".join(map(repr, row))}]\n'
        for i, (name, row) in enumerate(zip(names, numbers, strict=True), first)
    )


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A whole run.

    Attributes:
        header: What it says of itself.
        texts: The architectures' texts, in order.
        values: The objectives' values in their units, shape (n, objectives).
        violations: How far each constraint is broken, shape (n, constraints).
    """

    header: Header
    texts: list[str]
    values: Floats
    violations: Floats

    @property
    def costs(self) -> Floats:
        """Values with the sign turned where more is better, shape (n, objectives)."""
        return self.values * self.header.task.signs

    @property
    def violation(self) -> Floats:
        """How far constraints are broken in all, 0 where none is, shape (n,)."""
        return np.asarray(np.maximum(self.violations, 0.0).sum(axis=1))


def read(path: str | Path) -> Trajectory:
    """Read a trajectory.

    Args:
        path: The file.

    Raises:
        InvalidValue: The file is no trajectory, or not whole.
        OSError: The file cannot be read.
    """
    found = _gathered(Path(path), partial=False)
    if found is None or len(found.texts) != found.header.evaluations:
        said = "a header" if found is None else f"{found.header.evaluations} evaluations"
        got = "nothing" if found is None else len(found.texts)
        raise InvalidValue(f"The trajectory {path} must have {said}. Got {got} instead.")
    return found


def read_partial(path: Path) -> Trajectory | None:
    """What is there of a run that was interrupted; None where not even its header is whole.

    Raises:
        InvalidValue: A whole line is not as it must be.
        OSError: The file cannot be read.
    """
    return _gathered(path, partial=True)


def _gathered(path: Path, *, partial: bool) -> Trajectory | None:
    texts: list[str] = []
    numbers: list[list[float]] = []
    header = None
    try:
        for line in lines(path, partial=partial):
            if isinstance(line, Header):
                header = line
            else:
                texts.append(line.text)
                numbers.append(line.values + line.violations)
    except InvalidValue as error:
        raise InvalidValue(f"In the trajectory {path}: {error}") from None
    if header is None:
        return None
    k, c = len(header.task.objectives), len(header.task.constraints)
    together = np.array(numbers, np.float64).reshape(len(texts), k + c)
    return Trajectory(header, texts, together[:, :k], together[:, k:])
