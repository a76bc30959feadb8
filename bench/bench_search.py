"""How long searches take, process start included, and how much of it the benchmark takes."""

import resource
import statistics
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
    shares = []

    def run() -> None:
        evaluator.seconds, started = 0.0, time.perf_counter()
        trajectory(evaluator, Run("nsga2", 0, 1000))
        shares.append(evaluator.seconds / (time.perf_counter() - started))

    benchmark(run)
    share = statistics.median(shares)
    benchmark.extra_info["share"] = share  # type: ignore[attr-defined]
    print(f"nsga2, 1000 evaluations: {share:.1%} of the time is the benchmark's")  # noqa: T201


def _fresh(benchmark: Callable[..., object], folder: Path, name: str, evaluations: int) -> None:
    made = iter(range(10_000))
    processor_s = []

    def run() -> None:
        out = str(folder / str(next(made)))
        args = ("search", *TASK, "--algorithm", name, "--evaluations", str(evaluations))
        command = [sys.executable, "-m", "hwbench.cli", *args, "--out", out]
        before = _processor_s()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        processor_s.append(_processor_s() - before)

    benchmark.pedantic(run, rounds=5, iterations=1)  # type: ignore[attr-defined]
    benchmark.extra_info["processor_s"] = min(processor_s)  # type: ignore[attr-defined]
    print(f"{name}, {evaluations} evaluations: {min(processor_s):.2f} s of processor time")  # noqa: T201


def _processor_s() -> float:
    """Seconds that the processes started from here have computed for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
