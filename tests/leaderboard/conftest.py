"""A suite small enough to be run in a test, with its fronts, results and files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hwbench.leaderboard import Suite, read_suite
from hwbench.leaderboard.budgets import compute_winners
from hwbench.leaderboard.build import files, leaderboard, write
from hwbench.leaderboard.results import compute_fronts, run_suite

SUITE = """
title = "Tiny"
spaces = ["s"]
devices = ["h100", "rtx2080"]
front_evaluations = 200
front_rounds = 1

[[parts]]
name = "all"
spaces = ["s"]
devices = ["h100"]
objectives = ["perplexity,latency@{device}"]
algorithms = ["random", "nsga2"]
seeds = 2
evaluations = 50
scored_at = [10, 20, 50]
"""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """A suite that was built; a test that changes it takes `suite`, a copy."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "suite.toml").write_text(SUITE)
    suite = read_suite(folder)
    compute_fronts(suite, jobs=1, update=False, advance=lambda: None)
    compute_winners(suite, jobs=1, advance=lambda: None)
    run_suite(suite, jobs=1, advance=lambda: None)
    write(folder, files(leaderboard(suite)))
    return suite


@pytest.fixture
def suite(built: Suite, tmp_path: Path) -> Suite:
    return read_suite(shutil.copytree(built.folder, tmp_path / "suite"))
