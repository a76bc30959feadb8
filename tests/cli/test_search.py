"""`hwbench search`: files and rows on success, one line and status 2 on a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hwbench.cli.app import run
from hwbench.cli.manual import help_text
from hwbench.cli.search import parse_seeds
from hwbench.errors import InvalidValue

TASK = ["--space", "s", "--objectives", "perplexity,latency@h100"]


def search(out: Path, *more: str) -> int:
    return run(["search", *TASK, "--evaluations", "40", "--out", str(out), *more])


def test_a_file_and_a_row_a_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search(tmp_path, "--seeds", "0-1", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["seed"] for row in rows] == [0, 1]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "nsga2-seed-0.jsonl",
        "nsga2-seed-1.jsonl",
    ]


def test_jobs_write_the_same_files(tmp_path: Path) -> None:
    assert search(tmp_path / "one", "--seeds", "0-1", "--algorithm", "mo-rea") == 0
    assert search(tmp_path / "two", "--seeds", "0-1", "--algorithm", "mo-rea", "--jobs", "2") == 0
    for path in (tmp_path / "one").iterdir():
        assert (tmp_path / "two" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "more, says",
    [
        (["--algorithm", "nsga"], "Did you mean 'nsga2'"),
        (["--evaluations", "0"], "--evaluations must be an int of at least 1. Got 0"),
        (["--seeds", "3-1"], "ranges that rise"),
        (["--seeds", "x"], "--seeds must be numbers and ranges"),
        (["--constraint", "latency@h100<=0.1"], "cannot hold in space s: the best value reachable"),
        (["--constraint", "latency@h100"], "an objective, <= or >=, and a finite number"),
        (["--objectives", "perplexity"], "must be different. Got perplexity twice"),
        (["--objectives", "energy@h10"], "Unknown device 'h10'"),
        (["--objectives", "latenc@h100"], "Did you mean 'latency'?"),
    ],
)
def test_a_mistake_is_one_line(
    more: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(tmp_path / "out", *more) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_one_objective_is_too_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["search", "--space", "s", "--objectives", "perplexity", "--out", str(tmp_path)]
    assert run(args) == 2
    assert "two objectives or more" in capsys.readouterr().err


def test_another_runs_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search(tmp_path) == 0
    assert search(tmp_path, "--noisy") == 2
    assert "must not hold another run's file" in capsys.readouterr().err


def test_seeds() -> None:
    assert parse_seeds("0-3,7, 2") == [0, 1, 2, 3, 7]
    for text in ("", "-1", "1-", "a", "0-99999", "²"):
        with pytest.raises(InvalidValue):
            parse_seeds(text)


def test_the_help_names_every_algorithm_and_picture() -> None:
    pytest.importorskip("moocore")
    from hwbench.leaderboard.pictures import KINDS
    from hwbench.search import ALGORITHMS

    for command, names in (("hwbench search", ALGORITHMS), ("hwbench leaderboard plot", KINDS)):
        words = help_text(command).replace(",", " ").replace(".", " ").split()
        assert set(names) <= set(words)
