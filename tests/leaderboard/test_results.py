"""Results: a run's line comes back, what is there is kept, and other fronts are refused."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from hwbench.benchmark import Benchmark
from hwbench.errors import InvalidValue
from hwbench.leaderboard import Suite
from hwbench.leaderboard.results import (
    Result,
    compute_fronts,
    front_of,
    read_results,
    result_file,
    run_suite,
)
from hwbench.search import Evaluator, Run, Task, run
from hwbench.search.fronts import front_file, read_front, write_front


def test_a_trajectory_file_has_the_hash_of_its_result(built: Suite, tmp_path: Path) -> None:
    part = built.parts[0]
    task = part.tasks()[0]
    evaluator = Evaluator(task, Benchmark("s"))
    for one in read_results(built, part):
        path = run(evaluator, Run(one.algorithm, one.seed, 50), tmp_path)
        assert hashlib.sha256(path.read_bytes()).hexdigest() == one.trajectory
        assert Result.parse(one.line()).line() == one.line()


def test_what_is_there_is_left_alone(suite: Suite) -> None:
    part = suite.parts[0]
    path = result_file(suite, part, part.tasks()[0], "nsga2")
    before, lines = path.stat().st_mtime_ns, path.read_text()
    other = path.with_name("random.jsonl")
    other.unlink()
    compute_fronts(suite, jobs=1, update=False, advance=lambda: None)
    run_suite(suite, jobs=1, advance=lambda: None)
    assert path.stat().st_mtime_ns == before
    assert other.is_file()
    compute_fronts(suite, jobs=1, update=True, advance=lambda: None)
    run_suite(suite, jobs=1, advance=lambda: None)
    assert path.read_text() != lines or front_of(suite, part.tasks()[0]).id in lines


def test_results_against_another_front_are_refused(suite: Suite) -> None:
    part = suite.parts[0]
    path = result_file(suite, part, part.tasks()[0], "random")
    path.write_text(path.read_text().replace(front_of(suite, part.tasks()[0]).id, "0" * 64))
    with pytest.raises(InvalidValue, match="line 1: it must be of"):
        read_results(suite, part)


def test_a_front_of_other_artefacts_is_refused_with_both_ids(suite: Suite) -> None:
    task = suite.parts[0].tasks()[0]
    best = front_of(suite, task)
    path = write_front(best, suite.folder / "fronts")
    other = {**best.artifacts, "perplexity": "0" * 64}
    path.unlink()
    text = _with_artifacts(best, other)
    path.write_text(text)
    assert read_front(path).artifacts == other
    with pytest.raises(InvalidValue) as caught:
        run_suite(suite, jobs=1, advance=lambda: None)
    assert "0" * 64 in str(caught.value)
    assert best.artifacts["perplexity"] in str(caught.value)


def _with_artifacts(best: object, artifacts: dict[str, str]) -> str:
    import json

    from hwbench.search.fronts import BestFront, _text

    assert isinstance(best, BestFront)
    parts = (best.task, artifacts, best.frame, best.texts, best.values, best.made_by)
    text = _text(*parts)
    return text + json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest()}) + "\n"


def test_a_front_of_another_task_is_refused(suite: Suite) -> None:
    task = suite.parts[0].tasks()[0]
    other = Task.of(task.search_space, ["perplexity", "energy@h100"])
    path = suite.folder / "fronts" / front_file(task)
    path.rename(path.parent / "perplexity,energy@h100.jsonl")
    with pytest.raises(InvalidValue, match=r"must be of s: perplexity, energy@h100\. Got one of"):
        front_of(suite, other)


def test_a_missing_front_says_what_to_run(suite: Suite) -> None:
    import shutil

    shutil.rmtree(suite.folder / "fronts")
    with pytest.raises(InvalidValue, match="Run hwbench leaderboard fronts"):
        run_suite(suite, jobs=1, advance=lambda: None)


@pytest.mark.parametrize(
    "old, new, says",
    [
        (b'"seed": 0', b'"seed": "0"', "seed and marks ints"),
        (b'"hypervolume": [', b'"hypervolume": [NaN, ', "a score at every mark"),
        (b'"hypervolume": [0', b'"hypervolume": [NaN, 0', "a score at every mark"),
        (b'"at": [10, 20', b'"at": [10, 20.5', "seed and marks ints"),
        (b'"epsilon": [', b'"epsilon": ["x", ', "no result"),
        (b'"epsilon"', b'"epsilo"', "must have the fields"),
        (b'"task"', b"\xff", "no result"),
        (b'{"task"', b'[[{"task"', "no result"),
        (b'"algorithm": "random"', b'"algorithm": "nsga2"', "the algorithm must be random"),
    ],
)
def test_a_damaged_file_is_named(old: bytes, new: bytes, says: str, suite: Suite) -> None:
    """Some ended in a traceback, and what was cut off was taken for whole."""
    part = suite.parts[0]
    path = result_file(suite, part, part.tasks()[0], "random")
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(InvalidValue, match="line 1: ") as caught:
        read_results(suite, part)
    assert says in str(caught.value)
    with pytest.raises(InvalidValue, match="line 1: "):
        run_suite(suite, jobs=1, advance=lambda: None)


@pytest.mark.parametrize("lines", [0, 1])
def test_a_file_that_lacks_runs_is_run_again(lines: int, suite: Suite) -> None:
    part = suite.parts[0]
    path = result_file(suite, part, part.tasks()[0], "nsga2")
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))
    run_suite(suite, jobs=1, advance=lambda: None)
    assert path.read_bytes() == whole


def test_results_at_other_marks_are_refused_and_run_again(suite: Suite) -> None:
    other = replace(suite.parts[0], scored_at=(25, 50))
    with pytest.raises(InvalidValue, match=r"scored at \[25, 50\] against"):
        read_results(suite, other)
    run_suite(suite, jobs=1, advance=lambda: None, parts=[other])
    assert {one.at for one in read_results(suite, other)} == {(25, 50)}
