"""The markers do what they say, seen from a test run of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

TESTS = """
import pytest

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.network
def test_network(): pass

@pytest.mark.recorded
def test_recorded(recorded_store): assert (recorded_store / "store.toml").is_file()

def test_plain(): pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    tests = tmp_path / "checkout/tests"
    tests.mkdir(parents=True)
    (tests / "conftest.py").write_text((HERE / "conftest.py").read_text())
    (tests / "test_marked.py").write_text(TESTS)
    (tmp_path / "checkout/pyproject.toml").write_text((HERE.parent / "pyproject.toml").read_text())
    return tmp_path


def run(project: Path, *args: str, **env: str) -> str:
    kept = {k: v for k, v in os.environ.items() if k not in ("CI", "HWBENCH_RECORDED")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "tests", *args]
    done = subprocess.run(
        command,
        cwd=project / "checkout",
        env=kept | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_marked_tests_are_skipped_with_the_reason(project: Path) -> None:
    out = run(project)
    assert "1 passed, 3 skipped" in out
    assert "slow: give --slow" in out
    assert "reaches a package registry: give --network" in out
    assert "no recorded store at" in out


def test_options_switch_them_on(project: Path) -> None:
    assert "3 passed, 1 skipped" in run(project, "--slow", "--network")


def test_ci_reaches_the_network(project: Path) -> None:
    assert "2 passed, 2 skipped" in run(project, CI="true")


def test_the_store_is_found_beside_the_checkout_or_where_told(project: Path) -> None:
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "store.toml").touch()
    assert "2 passed, 2 skipped" in run(project, HWBENCH_RECORDED=str(elsewhere))

    beside = project / "shared/data/hw-gpt-bench"
    beside.mkdir(parents=True)
    (beside / "store.toml").touch()
    assert "2 passed, 2 skipped" in run(project)
