"""The least and the greatest value that an objective takes in a space, by a fixed procedure.

Thousands of random architectures, the smallest and the largest begin it; from the best few, the
best of all neighbours is taken until none is better. For a metric that is a sum over layers this
ends at the true extreme; otherwise at one that no single change improves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable
from hwbench.encode import Features
from hwbench.errors import Unsupported
from hwbench.search.coding import Coding, Genomes
from hwbench.search.task import Evaluator

Floats = NDArray[np.float64]
Of = Callable[[ArchitectureTable], Floats]

_DRAWN = 4000
_STARTS = 4


def least(coding: Coding, of: Of) -> tuple[float, Genomes]:
    """The least value that the procedure finds, and the architecture's genes, shape (1, genes)."""
    smallest, largest = coding.search_space.smallest, coding.search_space.largest
    ends = coding.genomes(ArchitectureTable.of([smallest, largest]))
    start = np.concatenate([ends, coding.sample(_DRAWN, np.random.default_rng(0))])
    values = of(coding.table(start))
    best = [
        _descend(coding, of, start[i], float(values[i]))
        for i in np.argsort(values, kind="stable")[:_STARTS]
    ]
    value, genome = min(best, key=lambda found: found[0])
    return value, genome[None]


def _descend(
    coding: Coding, of: Of, genome: NDArray[np.int64], value: float
) -> tuple[float, NDArray[np.int64]]:
    while True:
        near = coding.neighbours(genome)
        if not len(near):
            return value, genome
        values = of(coding.table(near))
        i = int(np.argmin(values))
        if values[i] >= value:
            return value, genome
        value, genome = float(values[i]), near[i]


def bounds(evaluator: Evaluator) -> tuple[Floats, Floats]:
    """The ideal and the reference point of a task, as costs, each of shape (objectives,).

    The ideal point is the least cost of each objective in the space, the reference point the
    greatest: every front lies between them.
    """
    task = evaluator.task
    coding = Coding(task.search_space)
    found = []
    for one in task.objectives:

        def cost(table: ArchitectureTable, one: object = one, turned: float = 1.0) -> Floats:
            column = evaluator.column(one, Features(table))  # type: ignore[arg-type]
            return np.asarray(column * turned)

        ends = (
            least(coding, lambda t, c=cost, s=one.sign: c(t, turned=s))[0],  # type: ignore[misc]
            -least(coding, lambda t, c=cost, s=one.sign: c(t, turned=-s))[0],  # type: ignore[misc]
        )
        found.append(ends)
    ideal, reference = np.array(found).T
    return ideal, reference


def check_feasible(evaluator: Evaluator) -> None:
    """Refuse constraints that nothing in the space keeps to.

    Raises:
        Unsupported: One cannot hold, or all together cannot; the error says what is reachable.
    """
    task = evaluator.task
    coding = Coding(task.search_space)
    for i, one in enumerate(task.constraints):
        value, genes = least(coding, lambda t, i=i: evaluator.violations(t)[:, i])  # type: ignore[misc]
        if value > 0:
            reached = evaluator.column(one.objective, Features(coding.table(genes)))[0]
            unit = one.objective.of.unit
            raise Unsupported(
                f"The constraint {one} cannot hold in space {task.search_space.name}: the best "
                f"value reachable is {reached:.6g}{' ' if unit else ''}{unit}."
            )
    if len(task.constraints) > 1:
        value, _ = least(coding, lambda t: np.maximum(evaluator.violations(t), 0.0).sum(axis=1))
        if value > 0:
            listed = " and ".join(map(str, task.constraints))
            raise Unsupported(
                f"The constraints {listed} were not found to hold together in space "
                f"{task.search_space.name}: the best reachable breaks them by {value:.2%} in all."
            )
