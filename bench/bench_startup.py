"""How long a fresh process takes before it can do anything."""

import subprocess
import sys
from collections.abc import Callable


def bench_import(benchmark: Callable[..., object]) -> None:
    _fresh(benchmark, "-c", "import hwbench")


def bench_command_line(benchmark: Callable[..., object]) -> None:
    _fresh(benchmark, "-m", "hwbench.cli", "--version")


def _fresh(benchmark: Callable[..., object], *args: str) -> None:
    benchmark(subprocess.run, [sys.executable, *args], check=True, stdout=subprocess.DEVNULL)
