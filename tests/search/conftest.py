"""A task on the shipped artefacts, and an evaluator that is loaded once."""

from __future__ import annotations

import pytest

from hwbench.benchmark import Benchmark
from hwbench.search import Evaluator, Task


@pytest.fixture(scope="session")
def bench() -> Benchmark:
    return Benchmark("s")


@pytest.fixture(scope="session")
def evaluator(bench: Benchmark) -> Evaluator:
    return Evaluator(Task.of(bench.space, ["perplexity", "latency@h100"]), bench)
