"""The measuring process: replaced after a crash, ended with its parent, deaf to interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hwbench.architectures import Architecture, SearchSpace
from hwbench.errors import HwbenchError, InvalidValue
from hwbench.measure.setup import Absent, Reading, Setup
from hwbench.measure.worker import Worker
from tests.measure import benches

SPACE = SearchSpace("w", (8,), (1, 2, 3, 4, 5, 6), (1,), (2,), (True,), head_size=8, seq_len=8)
SETUP = Setup(batch_size=1, seq_len=8)
ROOT = Path(__file__).parents[2]


def arch(n_layer: int) -> Architecture:
    made = SPACE.largest
    return made.replace(n_layer=n_layer, n_head=(1,) * n_layer, mlp_ratio=(2,) * n_layer)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "zombie" not in Path(f"/proc/{pid}/status").read_text()


def reason(worker: Worker, n_layer: int) -> str:
    absent = worker.measure(arch(n_layer)).readings["latency_ms"]
    assert isinstance(absent, Absent)
    assert absent.status == "failed"
    return absent.reason


def test_one_process_measures_everything_and_is_replaced_when_it_must() -> None:
    with Worker(SETUP, benches.fragile) as worker:
        first = worker.card()["pid"]
        for _ in range(2):
            reading = worker.measure(arch(1)).readings["latency_ms"]
            assert isinstance(reading, Reading)
            assert len(reading.values) == 5
        assert (worker.starts, worker.card()["pid"]) == (1, first)
        assert reason(worker, 2) == "out of memory: too large"
        assert worker.card()["pid"] != first
        assert worker.starts == 2
        assert "SIGKILL, as the kernel does when memory runs out" in reason(worker, 3)
        assert reason(worker, 4) == "the measuring process ended with status 7"
        with pytest.raises(InvalidValue, match="fifth layer"):
            worker.measure(arch(5))
        assert reason(worker, 6) == "CUDA error: misaligned address"
        assert isinstance(worker.measure(arch(1)).readings["latency_ms"], Reading)
        last = worker.card()["pid"]
    assert not alive(last)


def test_a_fresh_process_for_each_architecture_where_peaks_are_asked_for() -> None:
    setup = Setup(batch_size=1, seq_len=8, peak_memory=True)
    with Worker(setup, benches.fake) as worker:
        for _ in range(3):
            worker.measure(arch(1))
        assert worker.starts == 3


def test_what_is_wrong_with_the_setup_is_told() -> None:
    with Worker(SETUP, benches.refusing) as worker, pytest.raises(InvalidValue, match="device"):
        worker.card()
    said = r"^The measuring process could not start: The driver is too old\.$"
    with Worker(SETUP, benches.undriven) as worker, pytest.raises(HwbenchError, match=said):
        worker.card()
    with Worker(SETUP, benches.dying) as worker, pytest.raises(HwbenchError, match="status 3"):
        worker.measure(arch(1))


def test_an_interrupt_of_the_terminal_does_not_end_it() -> None:
    with Worker(SETUP, benches.fake) as worker:
        pid = worker.card()["pid"]
        os.kill(pid, signal.SIGINT)
        assert isinstance(worker.measure(arch(1)).readings["latency_ms"], Reading)
        assert worker.card()["pid"] == pid


def test_it_ends_with_a_parent_that_was_killed() -> None:
    code = (
        "from tests.measure import benches\n"
        "from hwbench.measure.setup import Setup\n"
        "from hwbench.measure.worker import Worker\n"
        "import time\n"
        "if __name__ == '__main__':\n"
        "    worker = Worker(Setup(batch_size=1, seq_len=8), benches.fake)\n"
        "    print(worker.card()['pid'], flush=True)\n"
        "    time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)
