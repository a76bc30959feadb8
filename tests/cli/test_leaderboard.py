"""`hwbench leaderboard`: the small suite through the commands, and mistakes in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hwbench.cli.app import run

SMALL = Path(__file__).parents[2] / "leaderboards/small"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SMALL, tmp_path / "small"))


def test_check_passes_and_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["leaderboard", "check", str(folder)]) == 0
    (folder / "tasks.csv").write_text("")
    assert run(["leaderboard", "check", str(folder)]) == 2
    err = capsys.readouterr().err
    assert "tasks.csv differs" in err
    assert err.count("\n") == 1


def test_score(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = ["--space", "s", "--objectives", "perplexity,latency@h100", "--evaluations", "200"]
    assert run(["search", *task, "--out", str(tmp_path / "runs")]) == 0
    capsys.readouterr()
    file = str(tmp_path / "runs/nsga2-seed-0.jsonl")
    assert run(["leaderboard", "score", file, "--suite", str(folder), "--json"]) == 0
    (scored,) = json.loads(capsys.readouterr().out)
    assert run(["leaderboard", "score", file, "--json"]) == 0
    (alone,) = json.loads(capsys.readouterr().out)
    assert scored["hypervolume"] == pytest.approx(alone["hypervolume"])
    assert 0 < scored["regret"] < 1


@pytest.mark.parametrize(
    "args, says",
    [
        (["check", "nowhere"], "Cannot read the suite"),
        (["plot", "device", "{suite}", "--out", "x"], "Did you mean 'devices'"),
        (["plot", "front", "{suite}", "--task", "s: x", "--out", "x"], "Unknown task 's: x'"),
        (["plot", "front", "{suite}", "--part", "al", "--out", "x"], "Did you mean 'all'"),
        (["submit", "nothing.jsonl", "--suite", "{suite}"], "No such file"),
        (["score", "nothing.jsonl"], "No such file"),
    ],
)
def test_a_mistake_is_one_line(
    args: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["leaderboard", *(a.replace("{suite}", str(folder)) for a in args)]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
