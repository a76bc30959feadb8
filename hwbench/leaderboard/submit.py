"""Submissions: a foreign trajectory is recomputed line by line, and added only if it is true."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np

from hwbench.architectures import Architecture, ArchitectureTable
from hwbench.benchmark import Benchmark
from hwbench.errors import HwbenchError, InvalidValue, brief
from hwbench.leaderboard.results import (
    Result,
    front_of,
    read_file,
    result_file,
    scored,
    write_results,
)
from hwbench.leaderboard.suite import Part, Suite
from hwbench.search import ALGORITHMS, Evaluator, Task, Trajectory
from hwbench.search.trajectory import NAME, Header, Line, is_name, lines

_TOGETHER = 1000  # lines that are recomputed at once
TOLERANCE = 1e-6
"""How far a value may be from the recomputed one, as a share of it: single-precision sums of trees
differ by less between batches."""


def submit(suite: Suite, path: Path) -> Result:
    """Check a trajectory and add its result to a suite.

    Args:
        suite: The suite, which has a part with the trajectory's task and budget.
        path: The trajectory.

    Returns:
        The result that was added.

    Raises:
        InvalidValue: A line is wrong, the trajectory was made with other artefacts, its task,
            budget or seed is not the suite's, or its optimiser has that run already. Nothing is
            added then.
        OSError: The file cannot be read.
    """
    try:
        return _submit(suite, path)
    except HwbenchError as error:
        raise InvalidValue(f"{path}, {error}") from None


def _submit(suite: Suite, path: Path) -> Result:
    found = lines(path)
    header = next(found)
    if not isinstance(header, Header):  # the first is always one
        raise InvalidValue("line 1: a trajectory must begin with its header.")
    part, task = _place(suite, header)
    best = front_of(suite, task)
    evaluator = Evaluator(task, Benchmark(task.search_space))
    for name, pin in evaluator.pins.items():
        if header.artifacts.get(name) != pin:
            raise InvalidValue(
                f"line 1: the trajectory must be made with the artefact {pin} of {name}. "
                f"Got {header.artifacts.get(name)} instead."
            )
    target = result_file(suite, part, task, header.algorithm)
    there = _there(target, header)
    texts: list[str] = []
    values = np.empty((header.evaluations, len(task.objectives)))
    while some := [line for line in islice(found, _TOGETHER) if isinstance(line, Line)]:
        values[len(texts) : len(texts) + len(some)] = _recomputed(evaluator, some)
        texts += [line.text for line in some]
    if len(texts) != header.evaluations:
        raise InvalidValue(
            f"line {len(texts) + 1}: the trajectory must have {header.evaluations} evaluations. "
            f"Got {len(texts)}."
        )
    whole = Trajectory(header, texts, values, np.empty((len(texts), 0)))
    result = scored(whole, best, part.scored_at)
    write_results(target, [*there, result])
    return result


def _place(suite: Suite, header: Header) -> tuple[Part, Task]:
    """The part and the task of a submission; its optimiser's name, budget and seed are checked."""
    if not is_name(header.algorithm):
        raise InvalidValue(
            f"line 1: the algorithm must be {NAME}. Got {brief(header.algorithm)} instead."
        )
    if header.algorithm in ALGORITHMS:
        raise InvalidValue(
            f"line 1: the algorithm must not bear the name of one of hwbench's. "
            f"Got {header.algorithm!r} instead."
        )
    budgets = sorted({part.evaluations for part in suite.parts})
    for part in suite.parts:
        for task in part.tasks():
            if task == header.task and part.evaluations == header.evaluations:
                if header.seed >= part.seeds:
                    raise InvalidValue(
                        f"line 1: the seed must be from 0 to {part.seeds - 1}. "
                        f"Got {header.seed} instead."
                    )
                return part, task
    if header.task not in suite.tasks():
        raise InvalidValue(
            f"line 1: the task must be one of the suite's, without constraints or noise. "
            f"Got {header.task.name} instead."
        )
    raise InvalidValue(
        f"line 1: the evaluations must be {' or '.join(map(str, budgets))} on this task. "
        f"Got {header.evaluations} instead."
    )


def _there(target: Path, header: Header) -> list[Result]:
    if not target.is_file():
        return []
    there = read_file(target)
    if any(one.seed == header.seed for one in there):
        raise InvalidValue(
            f"line 1: {header.algorithm} must not have been run with seed {header.seed} on this "
            f"task already. Got it again."
        )
    return there


def _recomputed(evaluator: Evaluator, some: list[Line]) -> np.ndarray:
    """The values of lines, computed here; refused where the file has others."""
    archs = []
    for line in some:
        try:
            archs.append(Architecture.parse(line.text, evaluator.task.search_space))
        except HwbenchError as error:
            raise InvalidValue(f"line {line.number}: {error}") from None
    found = evaluator.values(ArchitectureTable.of(archs))
    given = np.array([line.values for line in some])
    wrong = np.abs(given - found) > TOLERANCE * np.abs(found)
    if wrong.any():
        i, k = (int(x[0]) for x in np.nonzero(wrong))
        objective = evaluator.task.objectives[k]
        raise InvalidValue(
            f"line {some[i].number}: the value of {objective} must be {found[i, k]:.9g}. "
            f"Got {given[i, k]:.9g} instead."
        )
    return found
