"""Trajectory files: what was written is read, and what is wrong is named by its line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hwbench.errors import InvalidValue
from hwbench.search import Evaluator, Run, read, run, trajectory


@pytest.fixture
def path(evaluator: Evaluator, tmp_path: Path) -> Path:
    return run(evaluator, Run("random", 0, 12), tmp_path)


def test_a_file_comes_back_exactly(evaluator: Evaluator, path: Path) -> None:
    here, there = trajectory(evaluator, Run("random", 0, 12)), read(path)
    assert there.header == here.header
    assert there.texts == here.texts
    assert (there.values == here.values).all()


def test_every_line_is_json_and_the_header_pins_artefacts(evaluator: Evaluator, path: Path) -> None:
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert header["artifacts"] == evaluator.pins
    assert header["units"] == ["", "ms"]
    assert [line[0] for line in lines] == list(range(1, 13))


def changed(path: Path, number: int, new: str | None) -> None:
    lines = path.read_text().splitlines()
    lines[number - 1 : number] = [] if new is None else [new]
    path.write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    "number, new, says",
    [
        (1, "[]", "line 1"),
        (1, "{}", "line 1"),
        (3, "[2, 3", "line 3: it must be JSON"),
        (3, '[2, "a", 1.0]', "line 3: it must be a list of the evaluation, the architecture and 2"),
        (3, '[7, "a", 1.0, 2.0]', "line 3: the evaluation must be 2. Got 7"),
        (3, "[2, 5, 1.0, 2.0]", "line 3: the architecture must be a text"),
        (3, '[2, "a", NaN, 2.0]', "line 3: every value must be a finite number. Got nan"),
        (3, '[2, "a", Infinity, 2.0]', "line 3: every value must be a finite number"),
        (3, '[2, "a", true, 2.0]', "line 3: every value must be a finite number. Got True"),
        (13, None, "must have 12 evaluations. Got 11"),
        (13, '[12, "a", 1, 2]\n[13, "a", 1, 2]', "line 14: the header says 12 evaluations"),
    ],
)
def test_a_wrong_line_is_named(path: Path, number: int, new: str | None, says: str) -> None:
    changed(path, number, new)
    with pytest.raises(InvalidValue) as caught:
        read(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "key, value",
    [
        ("format", 2),
        ("seed", -1),
        ("seed", "0"),
        ("evaluations", 0),
        ("noisy", "yes"),
        ("objectives", ["perplexity"]),
        ("space", {}),
        ("artifacts", []),
        ("algorithm", None),
    ],
)
def test_a_wrong_header_is_refused(path: Path, key: str, value: object) -> None:
    header = json.loads(path.read_text().splitlines()[0])
    changed(path, 1, json.dumps({**header, key: value}))
    with pytest.raises(InvalidValue, match="line 1"):
        read(path)


def test_a_line_without_an_end_is_read_no_further(path: Path) -> None:
    changed(path, 3, "[" * 100_000)
    with pytest.raises(InvalidValue, match="line 3: it must be JSON"):
        read(path)


def test_constraints_and_signs(evaluator: Evaluator) -> None:
    from hwbench.search import Task

    task = Task.of(evaluator.bench.space, ["accuracy", "params"], ["params<=4e7"])
    found = trajectory(Evaluator(task, evaluator.bench), Run("random", 0, 50))
    assert (found.costs[:, 0] == -found.values[:, 0]).all()
    assert ((found.violation > 0) == (found.values[:, 1] > 4e7)).all()
    assert np.ptp(found.violation) > 0
