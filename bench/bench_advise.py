"""How long advice takes, the start of its process included: all rules and 200 ranked proposals."""

import subprocess
import sys
from collections.abc import Callable

GPT3 = [
    *("--hidden", "2560", "--heads", "32", "--layers", "32", "--vocab", "50257"),
    *("--seq", "2048", "--microbatch", "4", "--device", "a100", "--proposals", "200"),
]


def bench_advise(benchmark: Callable[..., object]) -> None:
    command = [sys.executable, "-m", "hwbench.cli", "advise", *GPT3, "--json"]
    benchmark(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)
