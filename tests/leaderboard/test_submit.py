"""Submissions: what is true is added, anything else is refused with its line."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from hwbench.benchmark import Benchmark
from hwbench.errors import InvalidValue
from hwbench.leaderboard import Suite
from hwbench.leaderboard.optimisers import compare
from hwbench.leaderboard.submit import submit
from hwbench.search import Evaluator, Run, algorithm, run


@pytest.fixture
def paths(built: Suite, tmp_path: Path) -> list[Path]:
    """Trajectories of somebody else's optimiser, one a seed."""
    evaluator = Evaluator(built.parts[0].tasks()[0], Benchmark("s"))
    make = algorithm("mo-rea").make
    return [run(evaluator, Run("theirs", seed, 50, make), tmp_path) for seed in range(2)]


def test_a_true_one_is_added_and_ranked_when_whole(suite: Suite, paths: list[Path]) -> None:
    submit(suite, paths[0])
    assert compare(suite, suite.parts[0]).incomplete == ("theirs",)
    submit(suite, paths[1])
    assert compare(suite, suite.parts[0]).names == ("random", "nsga2", "theirs")
    with pytest.raises(InvalidValue, match="run with seed 0 on this task already"):
        submit(suite, paths[0])


def line(number: int, change: Callable[[list], object]) -> Callable[[list[str]], list[str]]:
    def changed(lines: list[str]) -> list[str]:
        value = json.loads(lines[number - 1])
        change(value)
        return [*lines[: number - 1], json.dumps(value), *lines[number:]]

    return changed


def header(**values: object) -> Callable[[list[str]], list[str]]:
    def changed(lines: list[str]) -> list[str]:
        return [json.dumps({**json.loads(lines[0]), **values}), *lines[1:]]

    return changed


def put(place: int, value: object) -> Callable[[list], object]:
    return lambda row: row.__setitem__(place, value)


@pytest.mark.parametrize(
    "change, says",
    [
        (line(4, lambda r: r.__setitem__(3, r[3] * 1.0001)), "line 4: the value of latency@h100"),
        (line(51, put(2, 1.0)), "line 51: the value of perplexity must be"),
        (line(4, put(2, float("nan"))), "line 4: every value must be a finite number. Got nan"),
        (line(4, put(2, 10**400)), "line 4: every value must be a finite number. Got 1000"),
        (line(4, lambda r: r.__setitem__(1, r[1].replace("gpt-s", "gpt-m"))), "line 4: "),
        (line(9, put(1, "gpt")), "line 9: An architecture's text must be of the form"),
        (line(9, put(0, 3)), "line 9: the evaluation must be 8"),
        (lambda lines: lines[:-1], "line 50: the trajectory must have 50 evaluations. Got 49"),
        (lambda lines: [*lines, lines[-1]], "line 52: the header says 50 evaluations"),
        (header(seed=2), "line 1: the seed must be from 0 to 1. Got 2"),
        (header(evaluations=60), "line 1: the evaluations must be 50 on this task. Got 60"),
        (header(noisy=True), "line 1: the task must be one of the suite's"),
        (header(objectives=["perplexity", "energy@h100"]), "line 1: the task must be one"),
        (header(algorithm="nsga2"), "must not bear the name of one of hwbench's"),
        (header(algorithm="../x"), "line 1: the algorithm must be a name"),
        (header(artifacts={"perplexity": "0" * 64}), f"Got {'0' * 64} instead"),
        (lambda lines: lines[1:], "line 1: a trajectory must begin with its header"),
        (lambda lines: [], "line 1: a trajectory must begin with its header"),
    ],
)
def test_anything_else_is_refused_and_nothing_added(
    change: Callable[[list[str]], list[str]], says: str, suite: Suite, paths: list[Path]
) -> None:
    lines = change(paths[0].read_text().splitlines())
    paths[0].write_text("".join(f"{one}\n" for one in lines))
    with pytest.raises(InvalidValue) as caught:
        submit(suite, paths[0])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(suite.folder.rglob("theirs.jsonl"))


def test_a_million_lines_take_no_more_memory(suite: Suite, paths: list[Path]) -> None:
    row = paths[0].read_text().splitlines()[-1]
    with paths[0].open("a") as file:
        for _ in range(100):
            file.write(f"{row}\n" * 10_000)
    tracemalloc.start()
    with pytest.raises(InvalidValue, match="line 52"):
        submit(suite, paths[0])
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def test_one_line_without_an_end_takes_no_more_memory(suite: Suite, paths: list[Path]) -> None:
    paths[0].write_text("[" + "1," * 20_000_000)
    tracemalloc.start()
    with pytest.raises(InvalidValue, match="line 1"):
        submit(suite, paths[0])
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
