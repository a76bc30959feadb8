"""`Task`: a space, objectives and constraints; `Evaluator`: their values for many architectures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable, SearchSpace
from hwbench.benchmark import Benchmark
from hwbench.cost import count_table
from hwbench.encode import Features
from hwbench.errors import InvalidValue, Unsupported, invalid
from hwbench.search.objective import Constraint, Objective, parse_objectives
from hwbench.surrogate import Surrogate, load

Floats = NDArray[np.float64]

_DRAWN_TOGETHER = 64  # each row of a block has its own level, and is asked for all of the block's


@dataclass(frozen=True, slots=True)
class Task:
    """What is searched for, and where.

    Attributes:
        search_space: The space.
        objectives: Two or more.
        constraints: What every answer must keep to.
        noisy: Whether values are draws of a single measurement, rather than quantiles.
    """

    search_space: SearchSpace
    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...] = ()
    noisy: bool = False

    @classmethod
    def of(
        cls,
        search_space: SearchSpace,
        objectives: Sequence[str | Objective],
        constraints: Sequence[str | Constraint] = (),
        *,
        noisy: bool = False,
    ) -> Task:
        """Make a task from objectives and constraints, or from their texts.

        Raises:
            InvalidValue: Fewer than two objectives, one named twice, a text of another form, or an
                argument of another type.
            UnknownName: No such metric.
        """
        given: tuple[tuple[str, object, type, str], ...] = (
            ("search_space", search_space, SearchSpace, "a SearchSpace, such as space('s')"),
            ("constraints", constraints, Sequence, "a sequence such as ['params<=1e8']"),
            ("noisy", noisy, bool, "True or False"),
        )
        for name, value, wanted, allowed in given:
            if not isinstance(value, wanted):
                raise invalid(name, "Task.of", allowed, value)
        bounds = tuple(
            c if isinstance(c, Constraint) else Constraint.parse(c)
            for c in ([constraints] if isinstance(constraints, str) else constraints)
        )
        return cls(search_space, parse_objectives(objectives), bounds, noisy)

    @property
    def name(self) -> str:
        """The space and the objectives, which name a task without constraints.

        >>> from hwbench.architectures import space
        >>> Task.of(space("s"), ["perplexity", "latency@h100"]).name
        's: perplexity, latency@h100'
        """
        return f"{self.search_space.name}: {', '.join(map(str, self.objectives))}"

    @property
    def signs(self) -> Floats:
        """Per objective 1 where less is better, otherwise -1."""
        return np.array([o.sign for o in self.objectives])


@dataclass(eq=False)
class Evaluator:
    """Values of a task's objectives for many architectures at once.

    Every surrogate is loaded when the evaluator is made, so that what cannot be answered is said
    before a search begins.

    Attributes:
        task: The task.
        bench: Answers.
        pins: The id of the artefact behind each objective and constraint, "" for a closed form.
        seconds: Time spent in evaluations so far.
    """

    task: Task
    bench: Benchmark
    pins: dict[str, str] = field(init=False)
    seconds: float = field(init=False, default=0.0)
    _surrogates: dict[tuple[str, str | None], Surrogate] = field(init=False)

    def __post_init__(self) -> None:
        """Load what answers.

        Raises:
            UnknownName: No such device.
            Unsupported: There is no artefact for an objective or a constraint.
            InvalidValue: The benchmark is of another space.
        """
        if self.bench.space != self.task.search_space:
            raise InvalidValue(
                f"The benchmark must be of the task's space {self.task.search_space.name!r}. "
                f"Got one of {self.bench.space.name!r}."
            )
        self.pins, self._surrogates = {}, {}
        for one in (*self.task.objectives, *(c.objective for c in self.task.constraints)):
            if one.of.source == "analytic":
                self.pins[_key(one)] = ""
                continue
            card = self.bench.card(one.device, one.metric)
            self.pins[_key(one)] = card.id
            self._surrogates[one.metric, one.device] = load(card)

    def values(self, table: ArchitectureTable, *, seed: int = 0, first: int = 0) -> Floats:
        """The objectives' values in their units, shape (n, objectives).

        Args:
            table: The architectures.
            seed: For a noisy task: the run's seed.
            first: For a noisy task: the number of the first one's evaluation in the run, from 0.
                The draw of an evaluation depends on the seed and its number alone.
        """
        started = time.perf_counter()
        features, objectives = Features(table), self.task.objectives
        columns = []
        if self.task.noisy:
            uniform = _uniform(seed, first, (len(table), len(objectives)))
            columns = [self._drawn(o, features, uniform[:, i]) for i, o in enumerate(objectives)]
        else:
            columns = [self.column(o, features) for o in objectives]
        self.seconds += time.perf_counter() - started
        return np.stack(columns, axis=1)

    def costs(self, values: Floats) -> Floats:
        """Values with the sign turned where more is better, so that less is better everywhere."""
        return values * self.task.signs

    def violations(self, table: ArchitectureTable) -> Floats:
        """How far each constraint is broken, as a share of its bound, shape (n, constraints).

        0 or less where it holds; at the quantile that the constraint names, noisy or not.
        """
        if not self.task.constraints:
            return np.empty((len(table), 0))
        started = time.perf_counter()
        features, columns = Features(table), []
        for one in self.task.constraints:
            over = self.column(one.objective, features) - one.bound
            scale = abs(one.bound) or 1.0
            columns.append((over if one.at_most else -over) / scale)
        self.seconds += time.perf_counter() - started
        return np.stack(columns, axis=1)

    def column(self, one: Objective, features: Features) -> Floats:
        """One objective's quantile for every architecture, shape (n,)."""
        if one.of.source == "analytic":
            return self._counted(one, features)
        found = self._surrogates[one.metric, one.device].quantiles(
            features, np.array([one.quantile])
        )[:, 0]
        if not np.isfinite(found).all():
            raise Unsupported(
                f"Too few architectures calibrated {one.metric} to know its quantile "
                f"{one.quantile}."
            )
        return _single(found)

    def _counted(self, one: Objective, features: Features) -> Floats:
        found: Floats = getattr(count_table(features.table), one.metric).astype(np.float64)
        return found

    def _drawn(self, one: Objective, features: Features, uniform: Floats) -> Floats:
        """A single measurement of every architecture, drawn by a level in (0, 1) each."""
        if one.of.source == "analytic":
            return self._counted(one, features)
        surrogate = self._surrogates[one.metric, one.device]
        spread = surrogate.distribution(features)
        ends = np.array(
            [surrogate.calibration.support(w) for w in range(int(features.width.max()) + 1)]
        )[features.width]
        levels = np.clip(uniform, ends[:, 0], ends[:, 1])
        parts = []
        for start in range(0, len(levels), _DRAWN_TOGETHER):
            rows = np.arange(start, min(start + _DRAWN_TOGETHER, len(levels)))
            order = np.argsort(levels[rows], kind="stable")
            block = spread.take(rows).quantiles(levels[rows][order])
            inverse = np.argsort(order, kind="stable")
            parts.append(block[np.arange(len(rows)), inverse])
        return _single(np.concatenate(parts))


def _single(values: Floats) -> Floats:
    """Values as single precision has them, which is that of the boosters' leaves.

    Double precision differs in its last bits between kinds of processor, and a search that sees
    them may go another way.
    """
    return values.astype(np.float32).astype(np.float64)


def _key(one: Objective) -> str:
    return one.metric if one.device is None else f"{one.metric}@{one.device}"


def _uniform(seed: int, first: int, shape: tuple[int, int]) -> Floats:
    """Numbers in (0, 1) of evaluations from `first` on: the same whatever the batch is."""
    bits = np.random.PCG64(np.random.SeedSequence([seed, 0x6E6F6973]))
    bits.advance(first * shape[1])
    return np.clip(np.random.Generator(bits).random(shape), 1e-9, 1 - 1e-9)
