"""How long searches take, process start included, and how much of it the benchmark takes."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hwbench.benchmark import Benchmark
from hwbench.search import Evaluator, Run, Task, trajectory

TASK = ("--space", "s", "--objectives", "perplexity,latency@h100")


def bench_nsga2(benchmark: Callable[..., object], tmp_path: Path) -> None:
    _fresh(benchmark, tmp_path, "nsga2", 1000)


def bench_random_search(benchmark: Callable[..., object], tmp_path: Path) -> None:
    _fresh(benchmark, tmp_path, "random", 100_000)


def bench_share_of_the_benchmark(benchmark: Callable[..., object]) -> None:
    bench = Benchmark("s")
    evaluator = Evaluator(Task.of(bench.space, ["perplexity", "latency@h100"]), bench)
    trajectory(evaluator, Run("nsga2", 0, 100))
    evaluator.seconds, started = 0.0, time.perf_counter()
    benchmark(trajectory, evaluator, Run("nsga2", 0, 1000))
    share = evaluator.seconds / (time.perf_counter() - started)
    benchmark.extra_info["share"] = share  # type: ignore[attr-defined]
    print(f"share of the benchmark: {share:.1%}")  # noqa: T201


def _fresh(benchmark: Callable[..., object], folder: Path, name: str, evaluations: int) -> None:
    made = iter(range(10_000))

    def run() -> None:
        out = str(folder / str(next(made)))
        args = ("search", *TASK, "--algorithm", name, "--evaluations", str(evaluations))
        command = [sys.executable, "-m", "hwbench.cli", *args, "--out", out]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    benchmark.pedantic(run, rounds=3, iterations=1)  # type: ignore[attr-defined]
