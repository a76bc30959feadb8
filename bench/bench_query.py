"""How long answers take: one, one for all devices, a hundred thousand, and a process's first.

`make bench` measures all but the fitting of every artefact, which takes minutes and is measured
where HWBENCH_BENCH_FIT is set and the recorded store is at hand.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hwbench
from hwbench import Benchmark
from hwbench.records import Store
from hwbench.surrogate.fit_all import fit_all, tasks

ROOT = Path(__file__).parent.parent
RECORDED = Path(os.environ.get("HWBENCH_RECORDED", ROOT / "../shared/data/hw-gpt-bench"))
PROCESSES = 5

# What any process that answers has to import stands before the clock.
FIRST = """
import json, sys, time
import pandas, xgboost
start, used = time.perf_counter(), time.process_time()
import hwbench
bench = hwbench.Benchmark("s")
arch = hwbench.space("s").sample(1, 0)[0]
bench.query(arch, "h100", "latency")["h100"]["latency"].median
report = {
    "beyond_imports_s": time.perf_counter() - start,
    "beyond_imports_cpu_s": time.process_time() - used,
    "torch_imported": "torch" in sys.modules,
}
if sys.platform == "linux":  # not getrusage, which counts what the parent held at the start
    status = open("/proc/self/status").read()
    report["peak_mb"] = int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6
print(json.dumps(report))
"""


@pytest.fixture(scope="module")
def bench() -> Benchmark:
    return Benchmark("s")


@pytest.fixture
def archs() -> Any:
    """One architecture after the other, none twice in a row."""
    return itertools.cycle(hwbench.space("s").sample(1000, 0))


def bench_one_answer(benchmark: Any, bench: Benchmark, archs: Any) -> None:
    """One architecture, device and metric."""

    def answer() -> float:
        return bench.query(next(archs), "h100", "latency")["h100"]["latency"].median

    assert benchmark(answer) > 0


def bench_predict_one(benchmark: Any, bench: Benchmark, archs: Any) -> None:
    """The same by `predict`, three quantiles."""
    assert benchmark(lambda: bench.predict([next(archs)], "h100", "latency")).shape == (1, 3)


def bench_13_devices(benchmark: Any, bench: Benchmark, archs: Any) -> None:
    """One architecture on 13 devices, latency and energy."""

    def answer() -> list[float]:
        found = bench.query(next(archs), bench.published, ["latency", "energy"])
        return [p.median for p in found.predictions()]

    assert len(benchmark(answer)) == 26


def bench_everything_as_a_frame(benchmark: Any, bench: Benchmark, archs: Any) -> None:
    """One architecture on all devices, all metrics, with moments and intervals."""
    assert len(benchmark(lambda: bench.query(next(archs)).to_frame())) == 47


def bench_100_000_architectures(benchmark: Any, bench: Benchmark) -> None:
    """100,000 architectures on one device, three quantiles, from a list of them."""
    many = bench.space.sample(100_000, 1)
    found = benchmark.pedantic(
        lambda: bench.predict(many, "h100", "latency", (0.05, 0.5, 0.95)),
        rounds=5,
        warmup_rounds=1,
    )
    assert found.shape == (100_000, 3)


def bench_first_answer(benchmark: Any) -> None:
    """The first answer of a fresh process; what it takes beyond `import pandas, xgboost` beside."""
    reports: list[dict[str, float]] = []

    def answer() -> None:
        command = [sys.executable, "-c", FIRST]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        reports.append(json.loads(done.stdout))

    benchmark.pedantic(answer, rounds=PROCESSES, warmup_rounds=1)
    torch = any(report.pop("torch_imported") for report in reports)
    benchmark.extra_info["torch_imported"] = torch
    for name in reports[0]:
        benchmark.extra_info[name] = statistics.median(report[name] for report in reports)


@pytest.mark.skipif("HWBENCH_BENCH_FIT" not in os.environ, reason="minutes: set HWBENCH_BENCH_FIT")
@pytest.mark.skipif(not (RECORDED / "store.toml").is_file(), reason=f"no store at {RECORDED}")
def bench_fit_everything(benchmark: Any, tmp_path: Path) -> None:
    """Fitting every artefact from the recorded store, one process a core."""
    store, cores = Store.open(RECORDED), os.cpu_count() or 1

    def fit() -> int:
        return len(list(fit_all(store, tmp_path / "out", tasks(store), workers=cores)))

    fitted = benchmark.pedantic(fit, rounds=1)
    size = sum(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file())
    benchmark.extra_info |= {"artefacts": fitted, "size_mb": size / 1e6, "workers": cores}
    shutil.rmtree(tmp_path / "out")
