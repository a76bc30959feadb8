"""Best known fronts: computed by a long run, stored with their hash, replaced only on request."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace
from hwbench.errors import HwbenchError, InvalidValue
from hwbench.search.algorithms import algorithm
from hwbench.search.coding import Coding, Genomes, texts
from hwbench.search.extremes import bounds
from hwbench.search.indicators import Frame, hypervolume
from hwbench.search.optimiser import Floats, Setting, front
from hwbench.search.task import Evaluator, Task
from hwbench.surrogate.artifact import write_file

FORMAT = 1
_ALGORITHMS = ("nsga2", "mo-rea")
_AT_ONCE = 200  # members of the front whose neighbours are evaluated in one round


@dataclass(frozen=True, slots=True, eq=False)
class BestFront:
    """The best known front of a task.

    Attributes:
        task: The task.
        artifacts: The ids of the artefacts that answered.
        frame: The task's ideal and reference points.
        texts: The architectures' texts, sorted by the first objective.
        values: The objectives' values in their units, shape (n, objectives).
        made_by: How it was computed, in words.
        id: SHA-256 of all of that.
    """

    task: Task
    artifacts: dict[str, str]
    frame: Frame
    texts: list[str]
    values: Floats
    made_by: str
    id: str

    @property
    def normalised(self) -> Floats:
        """The front's costs, 0 at the ideal and 1 at the reference point."""
        return self.frame.normalised(self.values * self.task.signs)

    @property
    def hypervolume(self) -> float:
        """The hypervolume of the front."""
        return hypervolume(self.normalised)


def best_front(
    evaluator: Evaluator,
    evaluations: int = 10_000,
    rounds: int = 40,
    known: BestFront | None = None,
) -> BestFront:
    """Search for long, and join what was found to what was known.

    NSGA-II and MO-REA run with one seed each; the descents to each objective's extreme, and then
    the neighbours of the front, are evaluated round by round until none is new.

    Args:
        evaluator: The task, without noise.
        evaluations: Of each of the two runs.
        rounds: How many rounds of neighbours at most.
        known: A front of the same objectives to be joined, its architectures evaluated anew.

    Returns:
        The front.
    """
    task = evaluator.task
    coding = Coding(task.search_space)
    ideal, reference = bounds(evaluator)
    kept = _Archive(evaluator, coding)
    ends = [task.search_space.smallest, task.search_space.largest]
    kept.add(coding.genomes(ArchitectureTable.of(ends)))
    if known is not None and known.texts:
        archs = [Architecture.parse(t, task.search_space) for t in known.texts]
        kept.add(coding.genomes(ArchitectureTable.of(archs)))
    for name in _ALGORITHMS:
        setting = Setting(task.search_space, len(task.objectives), 0)
        optimiser = algorithm(name).make(setting)
        done = 0
        while done < evaluations:
            asked = optimiser.ask()
            assert isinstance(asked, ArchitectureTable)  # noqa: S101 - a built-in optimiser's
            optimiser.tell(asked, *kept.add(coding.genomes(asked)))
            done += len(asked)
    explored: set[bytes] = set()
    for _ in range(rounds):
        near = kept.unexplored(explored)
        if not len(near):
            break
        kept.add(near)
    order = np.lexsort(kept.costs.T[::-1])
    made_by = (
        f"{' and '.join(_ALGORITHMS)} with {evaluations} evaluations each, then at most {rounds} "
        f"rounds of neighbours"
    )
    if known is not None:
        made_by += ", joined with the front that was known"
    names = texts(coding.table(kept.genomes[order]))
    values = kept.costs[order] * task.signs
    return _front(task, evaluator.pins, Frame(ideal, reference), names, values, made_by)


class _Archive:
    """The non-dominated of all that was evaluated."""

    def __init__(self, evaluator: Evaluator, coding: Coding) -> None:
        self._evaluator, self._coding = evaluator, coding
        self.genomes = np.empty((0, len(coding.choices)), np.int64)
        self.costs = np.empty((0, len(evaluator.task.objectives)))

    def add(self, genomes: Genomes) -> tuple[Floats, Floats]:
        """Evaluate rows and keep what is not dominated; their costs and violations."""
        table = self._coding.table(genomes)
        costs = self._evaluator.costs(self._evaluator.values(table))
        violation = np.maximum(self._evaluator.violations(table), 0.0).sum(axis=1)
        fits = violation <= 0
        joined = np.concatenate([self.costs, costs[fits]])
        rows = np.concatenate([self.genomes, genomes[fits]])
        good = front(joined, np.zeros(len(joined)))
        self.genomes, self.costs = rows[good], joined[good]
        return costs, violation

    def unexplored(self, explored: set[bytes]) -> Genomes:
        """The neighbours of some members of the front, spread along it, not seen before."""
        order = np.lexsort(self.costs.T[::-1])
        open_ = [i for i in order.tolist() if self.genomes[i].tobytes() not in explored]
        if len(open_) > _AT_ONCE:
            open_ = [open_[i] for i in np.linspace(0, len(open_) - 1, _AT_ONCE).astype(int)]
        explored.update(self.genomes[i].tobytes() for i in open_)
        parts = [self._coding.neighbours(self.genomes[i]) for i in open_]
        return np.concatenate(parts) if parts else self.genomes[:0]


def _front(
    task: Task,
    artifacts: dict[str, str],
    frame: Frame,
    names: list[str],
    values: Floats,
    made_by: str,
) -> BestFront:
    text = _text(task, artifacts, frame, names, values, made_by)
    identity = hashlib.sha256(text.encode()).hexdigest()
    return BestFront(task, artifacts, frame, names, values, made_by, identity)


def _text(
    task: Task,
    artifacts: dict[str, str],
    frame: Frame,
    names: list[str],
    values: NDArray[np.float64],
    made_by: str,
) -> str:
    """Everything that the hash is of: a header's line, then a line a point."""
    header: dict[str, Any] = {
        "format": FORMAT,
        "space": task.search_space.to_dict(),
        "objectives": [str(o) for o in task.objectives],
        "constraints": [str(c) for c in task.constraints],
        "artifacts": artifacts,
        "ideal": frame.ideal.tolist(),
        "reference": frame.reference.tolist(),
        "made_by": made_by,
    }
    points = (json.dumps([name, *row]) for name, row in zip(names, values.tolist(), strict=True))
    return "\n".join((json.dumps(header, sort_keys=True), *points)) + "\n"


def front_file(task: Task) -> Path:
    """Where a task's best known front lies in a folder of fronts.

    >>> from hwbench.architectures import space
    >>> front_file(Task.of(space("s"), ["perplexity", "latency@h100"])).as_posix()
    's/perplexity,latency@h100.jsonl'
    """
    return Path(task.search_space.name) / f"{','.join(map(str, task.objectives))}.jsonl"


def write_front(found: BestFront, folder: Path) -> Path:
    """Write a front below a folder, beside its place and then renamed; its hash is its last line.

    Raises:
        OSError: The folder cannot be written.
    """
    path = folder / front_file(found.task)
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = (found.task, found.artifacts, found.frame, found.texts, found.values, found.made_by)
    write_file(path, f"{_text(*parts)}{json.dumps({'sha256': found.id})}\n".encode())
    return path


def read_front(path: Path) -> BestFront:
    """Read a front and check its hash.

    Raises:
        InvalidValue: The file is no front, or its hash does not fit.
        OSError: It cannot be read.
    """
    content = path.read_bytes()
    try:
        lines = content.decode("utf-8").splitlines()
        header, last = json.loads(lines[0]), json.loads(lines[-1])
        rows = [json.loads(line) for line in lines[1:-1]]
        space = SearchSpace.from_dict(header["space"])
        task = Task.of(space, header["objectives"], header["constraints"])
        frame = Frame(np.array(header["ideal"]), np.array(header["reference"]))
        values = np.array([row[1:] for row in rows], np.float64)
        found = _front(
            task, header["artifacts"], frame, [r[0] for r in rows], values, header["made_by"]
        )
        named = last["sha256"]
    except HwbenchError as error:
        raise InvalidValue(f"The file {path} is no best known front: {error}") from None
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise InvalidValue(f"The file {path} is no best known front: {error}.") from None
    if found.id != named:
        raise InvalidValue(
            f"The best known front {path} must have the hash {named} that it names. "
            f"Got {found.id}: it was changed by hand, or is damaged."
        )
    return found
