"""The best architectures under budgets: the lowest perplexity at five latencies and energies."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from hwbench.architectures import Architecture, space
from hwbench.benchmark import Benchmark
from hwbench.errors import HwbenchError, InvalidValue, Unsupported, brief
from hwbench.leaderboard.suite import Suite
from hwbench.processes import shared_out
from hwbench.search import Evaluator, Task
from hwbench.search.fronts import BestFront, best_front, front_file, read_front
from hwbench.surrogate.artifact import write_file

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Where budgets lie between the least and the greatest value in the space."""

METRICS = ("latency", "energy")

_EVALUATIONS, _ROUNDS = 3000, 15  # at most, of a front that no task of the suite needs


@dataclass(frozen=True, slots=True)
class Winner:
    """The architecture with the lowest perplexity under a budget.

    Attributes:
        space: The space.
        device: The device.
        metric: What the budget is of.
        budget: The budget in the metric's unit, three significant digits.
        architecture: The architecture's text.
        artifacts: The ids of the artefacts that answered.
    """

    space: str
    device: str
    metric: str
    budget: float
    architecture: str
    artifacts: dict[str, str]


def winners_file(suite: Suite, name: str, device: str, metric: str) -> Path:
    """Where the winners of a metric on a device in a space lie."""
    return suite.folder / "winners" / name / f"{metric}@{device}.jsonl"


def compute_winners(suite: Suite, *, jobs: int, advance: Callable[[], None]) -> None:
    """Find the winners of all spaces and devices of a suite that have artefacts.

    Args:
        suite: The suite; best known fronts that are there are used.
        jobs: Processes.
        advance: Called for each metric, device and space done.
    """
    waiting = []
    for name in suite.spaces:
        bench = Benchmark(name)
        for device in suite.devices:
            for metric in METRICS:
                pins = _pins(bench, device, metric)
                path = winners_file(suite, name, device, metric)
                if pins is None or _is_whole(path, pins):
                    advance()
                else:
                    waiting.append((suite, name, device, metric))
    for _ in shared_out(_compute, waiting, jobs):
        advance()


def _is_whole(path: Path, pins: dict[str, str]) -> bool:
    found = read_winners(path) if path.is_file() else []
    return found != [] and all(w.artifacts == pins for w in found)


def _pins(bench: Benchmark, device: str, metric: str) -> dict[str, str] | None:
    """The ids behind perplexity and a metric, or None where there is no artefact of it."""
    try:
        found = bench.card(device, metric).id
    except Unsupported:
        return None
    return {"perplexity": bench.card(None, "perplexity").id, f"{metric}@{device}": found}


def _compute(suite: Suite, name: str, device: str, metric: str) -> None:
    task = Task.of(space(name), ["perplexity", f"{metric}@{device}"])
    evaluator = Evaluator(task, Benchmark(name))
    path = suite.folder / "fronts" / front_file(task)
    stored = read_front(path) if path.is_file() else None
    if stored is None or stored.artifacts != evaluator.pins:
        evaluations = min(_EVALUATIONS, suite.front_evaluations)
        stored = best_front(evaluator, evaluations, min(_ROUNDS, suite.front_rounds))
    found = pick(stored, name, device, metric)
    path = winners_file(suite, name, device, metric)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, "".join(f"{json.dumps(asdict(w))}\n" for w in found).encode())


def pick(best: BestFront, name: str, device: str, metric: str) -> list[Winner]:
    """The winners of a front of perplexity and a metric."""
    low, high = best.frame.ideal[1], best.frame.reference[1]
    made = []
    for share in SHARES:
        budget = float(f"{low + share * (high - low):.3g}")
        fits = np.flatnonzero(best.values[:, 1] <= budget)
        if len(fits):
            chosen = best.texts[int(fits[np.argmin(best.values[fits, 0])])]
            made.append(Winner(name, device, metric, budget, chosen, best.artifacts))
    return made


def read_winners(path: Path) -> list[Winner]:
    """Read a file of winners.

    Raises:
        InvalidValue: A line is no winner of the space, metric and device that name the file.
    """
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            one = Winner(**json.loads(line.decode("utf-8")))
            Architecture.parse(one.architecture, space(path.parent.name))
        except (HwbenchError, ValueError, TypeError, RecursionError) as error:
            raise InvalidValue(f"{path}, line {number}: it is no winner: {error}") from None
        named = (one.space, f"{one.metric}@{one.device}")
        if named != (path.parent.name, path.stem) or not isinstance(one.budget, float):
            raise InvalidValue(
                f"{path}, line {number}: it must be a winner under a budget of {path.stem} in "
                f"space {path.parent.name}. Got {brief(one)}."
            )
        found.append(one)
    return found


def winner_rows(suite: Suite) -> list[dict[str, object]]:
    """A row a winner, its values and 90% intervals predicted anew.

    Raises:
        InvalidValue: A winner was found with other artefacts.
    """
    made: list[dict[str, object]] = []
    for name in suite.spaces:
        bench = Benchmark(name)
        for metric in METRICS:
            for device in suite.devices:
                path = winners_file(suite, name, device, metric)
                if path.is_file():
                    made += _rows(bench, read_winners(path))
    return made


def _rows(bench: Benchmark, winners: list[Winner]) -> list[dict[str, object]]:
    if not winners:
        return []
    first = winners[0]
    pins = _pins(bench, first.device, first.metric)
    for w in winners:
        if w.artifacts != pins:
            raise InvalidValue(
                f"The winners of {w.metric}@{w.device} in {w.space} were found with the artefacts "
                f"{w.artifacts}. Got {pins} here: run hwbench leaderboard fronts again."
            )
    archs = [Architecture.parse(w.architecture, bench.space) for w in winners]
    levels = (0.05, 0.5, 0.95)
    perplexity = bench.predict(archs, None, "perplexity", levels)
    cost = bench.predict(archs, first.device, first.metric, levels)
    return [
        {
            "space": w.space,
            "device": w.device,
            "budget of": w.metric,
            "unit": "ms" if w.metric == "latency" else "J",
            "budget": w.budget,
            "perplexity": float(p[1]),
            "perplexity q05": float(p[0]),
            "perplexity q95": float(p[2]),
            "value": float(c[1]),
            "value q05": float(c[0]),
            "value q95": float(c[2]),
            "architecture": w.architecture,
        }
        for w, p, c in zip(winners, perplexity, cost, strict=True)
    ]
