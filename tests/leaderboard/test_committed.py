"""The committed suites are what is built from them, and the small one what a run gives now."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hwbench.leaderboard import read_suite
from hwbench.leaderboard.budgets import compute_winners
from hwbench.leaderboard.build import check
from hwbench.leaderboard.results import compute_fronts, run_suite

ROOT = Path(__file__).parents[2] / "leaderboards"


@pytest.mark.parametrize("name", ["small", "full"])
def test_tables_are_up_to_date(name: str) -> None:
    assert check(read_suite(ROOT / name)) == []


def test_the_small_suite_runs_to_the_same_tables(tmp_path: Path) -> None:
    kept = shutil.ignore_patterns("fronts", "results", "winners", "index.html")
    suite = read_suite(shutil.copytree(ROOT / "small", tmp_path / "small", ignore=kept))
    compute_fronts(suite, jobs=1, update=False, advance=lambda: None)
    compute_winners(suite, jobs=1, advance=lambda: None)
    run_suite(suite, jobs=1, advance=lambda: None)
    assert check(suite) == []
