"""Runs: an optimiser on a task for one seed, into a trajectory file.

A run can be resumed, and the same seed gives the same bytes, in another process too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from hwbench.architectures import Architecture, ArchitectureTable
from hwbench.errors import InvalidValue, brief, invalid
from hwbench.processes import held_alone
from hwbench.search.algorithms import algorithm
from hwbench.search.coding import texts
from hwbench.search.optimiser import Floats, Optimiser, Setting, front
from hwbench.search.task import Evaluator
from hwbench.search.trajectory import (
    NAME,
    Header,
    Trajectory,
    is_name,
    read,
    read_partial,
    rows,
)

Make = Callable[[Setting], Optimiser]


@dataclass(frozen=True, slots=True)
class Run:
    """What one run is: the optimiser, its seed and its budget.

    Attributes:
        algorithm: A name of `ALGORITHMS`, or the name of one's own optimiser.
        seed: The seed, >= 0.
        evaluations: How many evaluations, >= 1.
        make: Makes one's own optimiser; None for a name of `ALGORITHMS`.
    """

    algorithm: str
    seed: int
    evaluations: int
    make: Make | None = None

    def header(self, evaluator: Evaluator) -> Header:
        """The header of the run's file."""
        for name, least in (("seed", 0), ("evaluations", 1)):
            value: object = getattr(self, name)
            if type(value) is not int or value < least:
                raise invalid(name, "Run", f"an int >= {least}", value)
        if not is_name(self.algorithm):
            raise invalid("algorithm", "Run", NAME, self.algorithm)
        return Header(evaluator.task, self.algorithm, self.seed, self.evaluations, evaluator.pins)

    @property
    def file(self) -> str:
        """The name of the run's file."""
        return f"{self.algorithm}-seed-{self.seed}.jsonl"


def check_folder(folder: Path, runs: list[Run], evaluator: Evaluator) -> None:
    """Refuse a folder that holds other runs' files under the names that these runs need.

    Raises:
        InvalidValue: A file of the same name is of another run, or made with other artefacts.
    """
    for run in runs:
        for path in (folder / run.file, _beside(folder / run.file)):
            with suppress(FileNotFoundError):
                _check_same(path, run.header(evaluator))


def _check_same(path: Path, wanted: Header) -> None:
    there = read_partial(path)
    if there is None or there.header == wanted:
        return
    found = there.header
    for name, pin in wanted.artifacts.items():
        other = found.artifacts.get(name)
        if other is not None and other != pin:
            raise InvalidValue(
                f"The trajectory {path} was made with another artefact of {name}: {other} there, "
                f"{pin} here."
            )
    raise InvalidValue(
        f"The output folder must not hold another run's file {path}: its header is "
        f"{_differing(found, wanted)}. Give another folder."
    )


def _differing(found: Header, wanted: Header) -> str:
    shown = (
        ("space", lambda h: h.task.search_space.name),
        ("objectives", lambda h: ",".join(map(str, h.task.objectives))),
        ("constraints", lambda h: ",".join(map(str, h.task.constraints)) or "none"),
        ("noisy", lambda h: h.task.noisy),
        ("evaluations", lambda h: h.evaluations),
        ("seed", lambda h: h.seed),
        ("algorithm", lambda h: h.algorithm),
    )
    for name, of in shown:
        if of(found) != of(wanted):
            return f"of {name} {of(found)}, not {of(wanted)}"
    return "another"


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def run(evaluator: Evaluator, what: Run, folder: str | Path) -> Path:
    """Carry a run out into a folder: `kept`, of which this gives the file alone."""
    return kept(evaluator, what, folder)[0]


def kept(evaluator: Evaluator, what: Run, folder: str | Path) -> tuple[Path, Trajectory]:
    """Carry a run out into a folder, or go on with it, or leave it where it is complete.

    Args:
        evaluator: The task and what answers.
        what: The run.
        folder: Where the file goes; it is made. While the run goes on, the file lies beside its
            place under a name that begins with a dot.

    Returns:
        The file, and what it holds.

    Raises:
        InvalidValue: The folder holds another run's file, or an optimiser of one's own proposes
            something else than architectures of the space, or another process is at the run.
        OSError: The folder cannot be written.
    """
    folder = Path(folder)
    path, partial = folder / what.file, _beside(folder / what.file)
    check_folder(folder, [what], evaluator)
    if path.exists():
        return path, read(path)
    optimiser = _made(evaluator, what)
    folder.mkdir(parents=True, exist_ok=True)
    with partial.open("a", encoding="utf-8") as file:
        if not held_alone(file):
            raise InvalidValue(
                f"Another process writes {path}: wait for it, or give another folder."
            )
        if path.exists():  # that process has ended since
            partial.unlink(missing_ok=True)
            return path, read(path)
        known = read_partial(partial)
        steps = _steps(evaluator, what, optimiser, known if known and known.texts else None)
        found = _written(what.header(evaluator), steps, file)
        return partial.replace(path), found


def _made(evaluator: Evaluator, what: Run) -> Optimiser:
    setting = Setting(evaluator.task.search_space, len(evaluator.task.objectives), what.seed)
    return (what.make or algorithm(what.algorithm).make)(setting)


def _written(header: Header, steps: Any, file: TextIO) -> Trajectory:
    """Write steps into an open file, one by one as they come."""
    parts = []
    file.truncate(0)
    file.write(f"{header.line()}\n")
    for names, first, values, violations in steps:
        file.write(rows(first, names, values, violations))
        file.flush()
        parts.append((names, first, values, violations))
    return _joined(header, parts)


def trajectory(evaluator: Evaluator, what: Run) -> Trajectory:
    """Carry a run out in memory.

    Args:
        evaluator: The task and what answers.
        what: The run.

    Returns:
        What the file would hold.
    """
    header = what.header(evaluator)
    return _joined(header, list(_steps(evaluator, what, _made(evaluator, what), None)))


def _joined(header: Header, parts: list[Any]) -> Trajectory:
    return Trajectory(
        header,
        [name for names, *_ in parts for name in names],
        np.concatenate([values for _, _, values, _ in parts]),
        np.concatenate([violations for *_, violations in parts]),
    )


def _steps(evaluator: Evaluator, what: Run, optimiser: Optimiser, known: Trajectory | None) -> Any:
    """Names, number of the first, values and violations of each step; known ones come first."""
    done = 0
    if known is not None and hasattr(optimiser, "restore"):
        archs = [Architecture.parse(t, evaluator.task.search_space) for t in known.texts]
        done = len(archs)
        optimiser.restore(ArchitectureTable.of(archs), known.costs, known.violation)
        yield known.texts, 1, known.values, known.violations
        known = None
    while done < what.evaluations:
        asked = _table(optimiser.ask(), evaluator)
        n = min(len(asked), what.evaluations - done)
        whole, asked = n == len(asked), asked if n == len(asked) else asked.take(np.arange(n))
        names = texts(asked)
        if known is not None and done < len(known.texts):
            values, violations = _replayed(known, names, done, asked, evaluator, what.seed)
        else:
            values = evaluator.values(asked, seed=what.seed, first=done)
            violations = evaluator.violations(asked)
        yield names, done + 1, values, violations
        done += n
        if whole and done < what.evaluations:
            broken = np.maximum(violations, 0.0).sum(axis=1)
            optimiser.tell(asked, evaluator.costs(values), broken)


def _replayed(
    known: Trajectory,
    names: list[str],
    done: int,
    asked: ArchitectureTable,
    evaluator: Evaluator,
    seed: int,
) -> tuple[Floats, Floats]:
    """Recorded values of a step, as far as they go, and new ones for the rest."""
    have = min(len(known.texts) - done, len(names))
    if known.texts[done : done + have] != names[:have]:
        raise InvalidValue(
            f"Cannot resume: at evaluation {done + 1} the optimiser proposes other architectures "
            f"than the file has. Remove the file, whose name begins with a dot."
        )
    if have < len(names):
        # A step is evaluated as a whole, or its last bits could differ from an unbroken run's.
        values = evaluator.values(asked, seed=seed, first=done)
        return values, evaluator.violations(asked)
    at = slice(done, done + have)
    return known.values[at], known.violations[at]


def _table(asked: object, evaluator: Evaluator) -> ArchitectureTable:
    space = evaluator.task.search_space
    if not isinstance(asked, ArchitectureTable):
        if isinstance(asked, Architecture):
            asked = [asked]
        if isinstance(asked, str) or not hasattr(asked, "__iter__"):
            raise InvalidValue(
                f"An optimiser's ask must give architectures. Got {brief(asked)} instead."
            )
        asked = ArchitectureTable.of(asked)
    if asked.search_space != space:
        raise InvalidValue(
            f"An optimiser's ask must give architectures of {space.name}. "
            f"Got some of {asked.search_space.name}."
        )
    return asked


def summary(found: Trajectory) -> dict[str, Any]:
    """What a run came to, in one row: how many are feasible and on its front, and the best values.

    Args:
        found: The trajectory.

    Returns:
        Algorithm, seed, evaluations, feasible, front, and the best value of each objective among
        the feasible, None where there is none.
    """
    violation, header = found.violation, found.header
    feasible = violation <= 0
    row: dict[str, Any] = {
        "algorithm": header.algorithm,
        "seed": header.seed,
        "evaluations": len(found.texts),
        "feasible": int(feasible.sum()),
        "front": int(front(found.costs, violation).sum()),
    }
    for i, one in enumerate(header.task.objectives):
        costs = found.costs[feasible, i]
        row[f"best {one.label}"] = float(costs.min() * one.sign) if len(costs) else None
    return row
