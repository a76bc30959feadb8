"""The comparison of optimisers: mean rank and regret at equal evaluations, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from hwbench.errors import InvalidValue
from hwbench.leaderboard.results import Result, front_of, read_results
from hwbench.leaderboard.suite import Part, Suite
from hwbench.search import ALGORITHMS
from hwbench.search.indicators import regret

Floats = NDArray[np.float64]

RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs of some optimisers on the same tasks with the same seeds.

    Attributes:
        part: The part of the suite.
        names: The optimisers, n of them.
        tasks: The tasks' names, m of them.
        at: Numbers of evaluations, k of them.
        regret: Normalised, shape (n, m, seeds, k).
        igd_plus: Of the same shape.
        epsilon: Of the same shape.
        incomplete: Optimisers that lack runs, and so are not compared.
    """

    part: Part
    names: tuple[str, ...]
    tasks: tuple[str, ...]
    at: tuple[int, ...]
    regret: Floats
    igd_plus: Floats
    epsilon: Floats
    incomplete: tuple[str, ...]

    def mean_rank(self, k: int) -> Floats:
        """The mean over tasks of each optimiser's rank by mean regret, 1 is best, shape (n,)."""
        found: Floats = _ranks(self.regret[..., k].mean(axis=2)).mean(axis=1)
        return found

    def rank_interval(self, k: int) -> Floats:
        """The bootstrap interval of each mean rank at a mark, shape (n, 2)."""
        return _ends(_ranks(self._resampled(k)).mean(axis=2))

    def regret_interval(self, k: int) -> Floats:
        """The bootstrap interval of each mean regret at a mark, shape (n, 2)."""
        return _ends(self._resampled(k).mean(axis=2))

    def excess(self, other: str, k: int) -> tuple[Floats, Floats]:
        """How far each mean regret lies above that of another optimiser at a mark.

        Returns:
            The differences, shape (n,), and their bootstrap intervals, shape (n, 2).
        """
        i = self.names.index(other)
        means, drawn = self.regret[..., k].mean(axis=(1, 2)), self._resampled(k).mean(axis=2)
        return means - means[i], _ends(drawn - drawn[:, [i]])

    def _resampled(self, k: int) -> Floats:
        """Mean regrets over seeds drawn anew, shape (RESAMPLES, n, m).

        Seeds are drawn within every task, tasks are kept: the suite's tasks are fixed.
        """
        if k not in self._drawn:
            values = self.regret[..., k]
            _, m, seeds = values.shape
            drawn = np.random.default_rng(0).integers(seeds, size=(RESAMPLES, m, seeds))
            means = [values[:, np.arange(m)[:, None], one].mean(axis=2) for one in drawn]
            self._drawn[k] = np.stack(means)
        return self._drawn[k]

    @cached_property
    def _drawn(self) -> dict[int, Floats]:
        return {}


def _ranks(means: Floats) -> Floats:
    """Ranks of optimisers on each task, ties shared, of shape (..., optimisers, tasks)."""
    found: Floats = rankdata(means, axis=-2)
    return found


def _ends(drawn: Floats) -> Floats:
    """The interval that holds `LEVEL` of what was drawn, of shape (n, 2) from (draws, n)."""
    found: Floats = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0).T
    return found


def compare(suite: Suite, part: Part) -> Comparison:
    """Gather the results of a part.

    Raises:
        InvalidValue: A file is damaged, a best known front is missing, or no optimiser has all its
            runs.
    """
    tasks = tuple(task.name for task in part.tasks())
    best = {task.name: front_of(suite, task).hypervolume for task in part.tasks()}
    found: dict[str, dict[tuple[str, int], Result]] = {}
    for one in read_results(suite, part):
        found.setdefault(one.algorithm, {})[one.task, one.seed] = one
    wanted = [(task, seed) for task in tasks for seed in range(part.seeds)]
    order = [*(a for a in ALGORITHMS if a in found), *sorted(set(found) - set(ALGORITHMS))]
    whole = [a for a in order if all(key in found[a] for key in wanted)]
    if not whole:
        raise InvalidValue(
            f"No optimiser has all its runs in part {part.name} of {suite.folder}. "
            f"Run hwbench leaderboard run {suite.folder}."
        )

    def cube(of: Callable[[Result], Sequence[float] | Floats]) -> Floats:
        return np.array(
            [[[of(found[a][t, s]) for s in range(part.seeds)] for t in tasks] for a in whole]
        )

    return Comparison(
        part,
        tuple(whole),
        tasks,
        part.scored_at,
        cube(lambda r: [regret(v, best[r.task]) for v in r.hypervolume.tolist()]),
        cube(lambda r: r.igd_plus),
        cube(lambda r: r.epsilon),
        tuple(a for a in order if a not in whole),
    )


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the optimisers' table: to add one, add an entry to `COLUMNS`.

    Attributes:
        name: The heading.
        of: The values of all optimisers, from the comparison and the place of the mark.
    """

    name: str
    of: Callable[[Comparison, int], Sequence[Any]]


def _mean(of: Callable[[Comparison], Floats]) -> Callable[[Comparison, int], Sequence[Any]]:
    return lambda c, k: of(c)[..., k].mean(axis=(1, 2)).tolist()


def _below_random(c: Comparison, k: int) -> Sequence[Any]:
    means = c.regret[..., k].mean(axis=(1, 2))
    if "random" not in c.names:
        return [None] * len(c.names)
    random = means[c.names.index("random")]
    return [
        None if n == "random" else bool(m < random) for n, m in zip(c.names, means, strict=True)
    ]


def _tasks_below_random(c: Comparison, k: int) -> Sequence[Any]:
    means = c.regret[..., k].mean(axis=2)
    if "random" not in c.names:
        return [None] * len(c.names)
    below = (means < means[c.names.index("random")]).sum(axis=1)
    return [
        None if n == "random" else f"{b} of {len(c.tasks)}"
        for n, b in zip(c.names, below.tolist(), strict=True)
    ]


COLUMNS = (
    Column("rank", lambda c, k: c.mean_rank(k).tolist()),
    Column("rank_low", lambda c, k: c.rank_interval(k)[:, 0].tolist()),
    Column("rank_high", lambda c, k: c.rank_interval(k)[:, 1].tolist()),
    Column("regret", _mean(lambda c: c.regret)),
    Column("regret_low", lambda c, k: c.regret_interval(k)[:, 0].tolist()),
    Column("regret_high", lambda c, k: c.regret_interval(k)[:, 1].tolist()),
    Column("igd_plus", _mean(lambda c: c.igd_plus)),
    Column("epsilon", _mean(lambda c: c.epsilon)),
    Column("below_random", _below_random),
    Column("tasks_below_random", _tasks_below_random),
)
"""What is said of each optimiser after a number of evaluations."""


def optimiser_rows(c: Comparison, marks: Sequence[int]) -> list[dict[str, Any]]:
    """A row for each optimiser and mark, the best rank first.

    Args:
        c: The comparison.
        marks: Numbers of evaluations, among those of the comparison.
    """
    made = []
    for mark in marks:
        k = c.at.index(mark)
        values = {column.name: column.of(c, k) for column in COLUMNS}
        order = np.argsort(values["regret"], kind="stable").tolist()
        made += [
            {
                "part": c.part.name,
                "evaluations": mark,
                "algorithm": c.names[i],
                "title": ALGORITHMS[c.names[i]].title if c.names[i] in ALGORITHMS else c.names[i],
                "submitted": c.names[i] not in ALGORITHMS,
                **{name: column[i] for name, column in values.items()},
            }
            for i in order
        ]
    return made


def task_rows(c: Comparison) -> list[dict[str, Any]]:
    """A row for each task and optimiser at the last mark: mean regret and its spread."""
    values = c.regret[..., -1]
    return [
        {
            "part": c.part.name,
            "task": task,
            "algorithm": name,
            "evaluations": c.at[-1],
            "regret": float(values[i, j].mean()),
            "regret_std": float(values[i, j].std(ddof=1)) if values.shape[2] > 1 else None,
        }
        for j, task in enumerate(c.tasks)
        for i, name in enumerate(c.names)
    ]
