"""Results of a suite's runs: one line a run, in one file for each task and optimiser.

A line holds the run's indicators at every mark, the values of its final front, and the SHA-256 of
its trajectory file, which `hwbench search` writes again, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwbench.benchmark import Benchmark
from hwbench.errors import InvalidValue, brief
from hwbench.leaderboard.suite import Part, Suite
from hwbench.processes import shared_out
from hwbench.search import Evaluator, Run, Task, Trajectory, trajectory
from hwbench.search.fronts import BestFront, best_front, front_file, read_front, write_front
from hwbench.search.indicators import of_trajectory
from hwbench.search.trajectory import rows
from hwbench.surrogate.artifact import write_file

Floats = NDArray[np.float64]
Advance = Callable[[], None]


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What one run came to.

    Attributes:
        task: The task's name.
        algorithm: The optimiser's name.
        seed: The run's seed.
        at: Numbers of evaluations.
        hypervolume: At each of these.
        igd_plus: At each of these.
        epsilon: At each of these.
        front: The values of the final front in their units, shape (n, objectives).
        best: The id of the best known front that it was scored against.
        trajectory: SHA-256 of the trajectory file.
    """

    task: str
    algorithm: str
    seed: int
    at: tuple[int, ...]
    hypervolume: Floats
    igd_plus: Floats
    epsilon: Floats
    front: Floats
    best: str
    trajectory: str

    def line(self) -> str:
        """The result as a line of its file, numbers with nine significant digits."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({k: _plain(v) for k, v in values.items()})

    @classmethod
    def parse(cls, line: str) -> Result:
        """Read a line.

        Raises:
            ValueError: It is none.
        """
        values = json.loads(line)
        if not isinstance(values, dict) or set(values) != set(cls.__slots__):
            raise ValueError(f"it must have the fields {', '.join(cls.__slots__)}")
        texts = (values["task"], values["algorithm"], values["best"], values["trajectory"])
        numbers = (values["seed"], *values["at"])
        if {type(v) for v in texts} != {str} or {type(v) for v in numbers} != {int}:
            raise ValueError("its names must be texts, its seed and marks ints")
        scores = ("hypervolume", "igd_plus", "epsilon")
        arrays = {name: np.array(values[name], np.float64) for name in (*scores, "front")}
        shapes = {arrays[name].shape for name in scores}
        if shapes != {(len(values["at"]),)} or arrays["front"].ndim != 2:
            raise ValueError("it must have a score at every mark, and a front")
        if not all(np.isfinite(each).all() for each in arrays.values()):
            raise ValueError("every score must be a finite number")
        return cls(**{**values, **arrays, "at": tuple(values["at"])})


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (
            [[float(f"{x:.9g}") for x in row] for row in value]
            if value.ndim > 1
            else [float(f"{x:.9g}") for x in value]
        )
    return list(value) if isinstance(value, tuple) else value


def digest(found: Trajectory) -> str:
    """SHA-256 of the file that the trajectory is written as."""
    text = f"{found.header.line()}\n{rows(1, found.texts, found.values, found.violations)}"
    return hashlib.sha256(text.encode()).hexdigest()


def scored(found: Trajectory, best: BestFront, at: Sequence[int]) -> Result:
    """The result of a trajectory."""
    scores = of_trajectory(found, best.frame, best.normalised, at)
    header = found.header
    return Result(
        header.task.name,
        header.algorithm,
        header.seed,
        scores.at,
        scores.hypervolume,
        scores.igd_plus,
        scores.epsilon,
        found.values[scores.rows],
        best.id,
        digest(found),
    )


def result_file(suite: Suite, part: Part, task: Task, name: str) -> Path:
    """Where the results of an optimiser on a task lie."""
    objectives = ",".join(map(str, task.objectives))
    folder = suite.folder / "results" / part.name / task.search_space.name
    return folder / objectives / f"{name}.jsonl"


def read_results(suite: Suite, part: Part) -> list[Result]:
    """All results of a part, those of submitted optimisers among them, in a fixed order.

    Raises:
        InvalidValue: A file is damaged, or was scored at other marks or against another front.
    """
    found: list[Result] = []
    for task in part.tasks():
        best = front_of(suite, task)
        for path in sorted(result_file(suite, part, task, "any").parent.glob("*.jsonl")):
            for number, one in enumerate(read_file(path), 1):
                if (one.task, one.best, one.at) != (task.name, best.id, part.scored_at):
                    raise InvalidValue(
                        f"{path}, line {number}: it must be of {task.name}, scored at "
                        f"{_marks(part.scored_at)} against the best known front {best.id}. "
                        f"Got {one.task}, {_marks(one.at)} and {one.best}."
                    )
                found.append(one)
    return found


def _marks(at: Sequence[int]) -> str:
    return brief(list(at))


def read_file(path: Path) -> list[Result]:
    """The lines of a file of results.

    Raises:
        InvalidValue: A line is no result, or of another optimiser than the file is named for.
    """
    found: list[Result] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            found.append(Result.parse(line.decode("utf-8")))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise InvalidValue(f"{path}, line {number}: it is no result: {error}.") from None
        if found[-1].algorithm != path.stem:
            raise InvalidValue(
                f"{path}, line {number}: the algorithm must be {path.stem}. "
                f"Got {brief(found[-1].algorithm)} instead."
            )
    return found


def write_results(path: Path, results: Sequence[Result]) -> None:
    """Write the results of an optimiser on a task, beside their place and then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(results, key=lambda r: r.seed)
    write_file(path, "".join(f"{r.line()}\n" for r in ordered).encode())


def front_of(suite: Suite, task: Task) -> BestFront:
    """The stored best known front of a task.

    Raises:
        InvalidValue: There is none, or it is damaged, or of another task.
    """
    path = suite.folder / "fronts" / front_file(task)
    if not path.is_file():
        raise InvalidValue(
            f"There is no best known front of {task.name}: {path} is missing. "
            f"Run hwbench leaderboard fronts {suite.folder}."
        )
    found = read_front(path)
    if found.task != task:
        raise InvalidValue(
            f"The best known front {path} must be of {task.name}. Got one of {found.task.name}."
        )
    return found


def compute_fronts(suite: Suite, *, jobs: int, update: bool, advance: Advance) -> None:
    """Compute the best known fronts that are missing, or all of them anew.

    Args:
        suite: The suite.
        jobs: Processes.
        update: Also search again where there is a front, and join the two.
        advance: Called for each task done.
    """
    waiting = []
    for task in suite.tasks():
        path = suite.folder / "fronts" / front_file(task)
        if update or not path.is_file() or read_front(path).artifacts != _pins(task):
            waiting.append((suite, task))
        else:
            advance()
    for _ in shared_out(_compute_front, waiting, jobs):
        advance()


def _pins(task: Task) -> dict[str, str]:
    return Evaluator(task, Benchmark(task.search_space)).pins


def _compute_front(suite: Suite, task: Task) -> None:
    path = suite.folder / "fronts" / front_file(task)
    known = read_front(path) if path.is_file() else None
    evaluator = Evaluator(task, Benchmark(task.search_space))
    found = best_front(evaluator, suite.front_evaluations, suite.front_rounds, known)
    write_front(found, suite.folder / "fronts")


def run_suite(
    suite: Suite, *, jobs: int, advance: Advance, parts: Sequence[Part] | None = None
) -> None:
    """Run every optimiser on every task of a suite; what is there already is not run again.

    Args:
        suite: The suite, whose best known fronts are there.
        parts: Only these parts.
        jobs: Processes.
        advance: Called for each optimiser and task done.

    Raises:
        InvalidValue: A best known front is missing, or was made with other artefacts, or a file of
            results is damaged.
    """
    waiting = []
    for part in suite.parts if parts is None else parts:
        for task in part.tasks():
            best = front_of(suite, task)
            check_pins(best, _pins(task))
            for name in part.algorithms:
                path = result_file(suite, part, task, name)
                if path.is_file() and _is_whole(read_file(path), part, best):
                    advance()
                else:
                    waiting.append((suite, part, task, name))
    for _ in shared_out(_run_all_seeds, waiting, jobs):
        advance()


def _is_whole(found: Sequence[Result], part: Part, best: BestFront) -> bool:
    fits = {r.seed for r in found if r.best == best.id and r.at == part.scored_at}
    return fits >= set(range(part.seeds))


def check_pins(best: BestFront, pins: dict[str, str]) -> None:
    """Refuse a best known front that was made with other artefacts.

    Raises:
        InvalidValue: An id differs; the error names both.
    """
    for name, pin in pins.items():
        if best.artifacts.get(name) != pin:
            raise InvalidValue(
                f"The best known front of {best.task.name} was made with another artefact of "
                f"{name}: {best.artifacts.get(name)} there, {pin} here."
            )


def _run_all_seeds(suite: Suite, part: Part, task: Task, name: str) -> None:
    evaluator = Evaluator(task, Benchmark(task.search_space))
    best = front_of(suite, task)
    found = [
        scored(trajectory(evaluator, Run(name, seed, part.evaluations)), best, part.scored_at)
        for seed in range(part.seeds)
    ]
    write_results(result_file(suite, part, task, name), found)
