"""Values are the benchmark's own, noise is the run's seed's, and constraints are shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hwbench.architectures import ArchitectureTable, space
from hwbench.benchmark import Benchmark
from hwbench.errors import InvalidValue, UnknownName, Unsupported
from hwbench.search import Evaluator, Task


def test_values_are_the_predicted_quantiles(bench: Benchmark) -> None:
    task = Task.of(bench.space, ["perplexity", "latency@h100:0.95", "params"])
    archs = bench.space.sample(70, seed=0)
    found = Evaluator(task, bench).values(ArchitectureTable.of(archs))
    assert found[:, 0] == pytest.approx(bench.predict(archs, None, "perplexity", (0.5,))[:, 0])
    assert found[:, 1] == pytest.approx(bench.predict(archs, "h100", "latency", (0.95,))[:, 0])
    assert found[:, 2] == pytest.approx(bench.predict(archs, None, "params", (0.5,))[:, 0])


def test_noise_depends_on_the_evaluation_alone(bench: Benchmark) -> None:
    task = Task.of(bench.space, ["perplexity", "latency@h100"], noisy=True)
    evaluator = Evaluator(task, bench)
    table = ArchitectureTable.of(bench.space.sample(150, seed=0))
    whole = evaluator.values(table, seed=4)
    parts = [
        evaluator.values(table.take(np.arange(a, b)), seed=4, first=a)
        for a, b in ((0, 7), (7, 100), (100, 150))
    ]
    assert np.concatenate(parts) == pytest.approx(whole, rel=1e-6)
    assert (evaluator.values(table, seed=5) != whole).any(axis=0).all()


def test_noise_is_a_single_measurement(bench: Benchmark) -> None:
    task = Task.of(bench.space, ["perplexity", "latency@rtx2080"], noisy=True)
    arch = bench.space.sample(1, seed=2)[0]
    drawn = Evaluator(task, bench).values(ArchitectureTable.of([arch] * 4000))[:, 1]
    low, high = bench.query(arch, "rtx2080", "latency")["rtx2080"]["latency"].interval(0.9)
    assert ((drawn >= low) & (drawn <= high)).mean() == pytest.approx(0.9, abs=0.03)


def test_a_constraint_is_a_share_of_its_bound(bench: Benchmark) -> None:
    task = Task.of(bench.space, ["perplexity", "latency@h100"], ["params<=1e8", "params>=1e6"])
    table = ArchitectureTable.of([bench.space.largest])
    found = Evaluator(task, bench).violations(table)[0]
    exact = bench.predict(bench.space.largest, None, "params", (0.5,))[0, 0]
    assert found.tolist() == pytest.approx([exact / 1e8 - 1, 1 - exact / 1e6])


@pytest.mark.parametrize(
    "objectives, error",
    [
        (["perplexity", "latency@h10"], UnknownName),
        (["perplexity", "memory@h100"], Unsupported),
    ],
)
def test_what_cannot_be_answered_is_said_at_once(
    bench: Benchmark, objectives: list[str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Evaluator(Task.of(bench.space, objectives), bench)


def test_the_benchmark_must_be_of_the_space(bench: Benchmark) -> None:
    with pytest.raises(InvalidValue, match="must be of the task's space 'm'"):
        Evaluator(Task.of(space("m"), ["perplexity", "params"]), bench)


@pytest.mark.parametrize(
    "given, says",
    [
        ({"objectives": "perplexity"}, "'objectives' parameter of Task.of must be a sequence"),
        ({"objectives": None}, "'objectives' parameter of Task.of must be a sequence"),
        ({"constraints": None}, "'constraints' parameter of Task.of must be a sequence"),
        ({"noisy": "yes"}, "'noisy' parameter of Task.of must be True or False"),
        ({"search_space": "s"}, "'search_space' parameter of Task.of must be a SearchSpace"),
    ],
)
def test_an_argument_of_another_type(given: dict[str, Any], says: str) -> None:
    whole = {"search_space": space("s"), "objectives": ["perplexity", "params"], **given}
    with pytest.raises(InvalidValue) as caught:
        Task.of(**whole)
    assert says in str(caught.value)
