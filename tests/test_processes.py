"""Processes start light, share work out, and end with their parent, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hwbench.benchmark import Benchmark
from hwbench.processes import shared_out
from hwbench.search import Evaluator, Run, Task, trajectory
from hwbench.search.trajectory import read_partial

TASK = ("perplexity", "latency@h100")
COMMAND = (
    *("search", "--space", "s", "--objectives", ",".join(TASK), "--algorithm", "random"),
    *("--evaluations", "10000000", "--seeds", "0-1", "--jobs", "2"),
)  # takes longer than patience
PATIENCE_S = 60.0

# As from a terminal: what runs in the background of a shell inherits that SIGINT is ignored.
INTERRUPTIBLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from hwbench.cli import main
sys.exit(main())
"""


def _until(true: Callable[[], bool]) -> bool:
    """Whether something becomes true before patience ends."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def _gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(number: signal.Signals, tmp_path: Path) -> None:
    """They outlived a killed parent, and each said by a traceback that it was interrupted."""
    command = [sys.executable, "-c", INTERRUPTIBLE, *COMMAND, "--out", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert process.stderr is not None
        try:
            written = tmp_path / ".random-seed-0.jsonl.partial"
            assert _until(lambda: written.exists() and written.stat().st_size > 10_000)
            if number == signal.SIGINT:  # what a terminal does
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
            status = process.wait(PATIENCE_S)
            assert _until(lambda: _gone(process.pid))
            said = process.stderr.read().decode()
        finally:
            if not _gone(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
    assert status == (130 if number == signal.SIGINT else -number)
    assert said == "Interrupted.\n" if number == signal.SIGINT else "Traceback" not in said
    assert {p.name[0] for p in tmp_path.iterdir()} == {"."}  # nothing that looks complete
    _goes_on(written)


def _goes_on(written: Path) -> None:
    """What an interrupted run has written is the beginning of a whole one."""
    found = read_partial(written)
    assert found is not None
    bench = Benchmark("s")
    evaluator = Evaluator(Task.of(bench.space, TASK), bench)
    whole = trajectory(evaluator, Run("random", 0, len(found.texts)))
    assert found.texts == whole.texts
    assert (found.values == whole.values).all()


def test_an_error_in_one_process_ends_all() -> None:
    """Only those that had not begun were given up, and the others ran to their end."""
    before = set(multiprocessing.active_children())
    with pytest.raises(TypeError):
        list(shared_out(time.sleep, [("no number",), (10 * PATIENCE_S,)], 2))
    assert _until(lambda: set(multiprocessing.active_children()) <= before)


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_from_every_call(jobs: int) -> None:
    assert sorted(shared_out(pow, [(2, 3), (3, 2), (5, 1)], jobs)) == [5, 8, 9]
    assert list(shared_out(pow, [], jobs)) == []


@pytest.mark.parametrize("own", [True, False])
def test_a_command_imports_xgboost_alone(own: bool) -> None:
    """scikit-learn took most of the time before a search began; later imports still find it."""
    script = f"""
import sys
from hwbench.processes import start_sooner
if {own}:
    start_sooner()
import hwbench.surrogate
print("xgboost" in sys.modules, "sklearn" in sys.modules)
import sklearn.metrics
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().split() == ["True", str(not own)]
