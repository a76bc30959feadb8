"""Extremes and best known fronts: nothing lies beyond them, and a changed file is seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwbench.architectures import ArchitectureTable, SearchSpace
from hwbench.benchmark import Benchmark
from hwbench.errors import InvalidValue, Unsupported
from hwbench.search import Evaluator, Task
from hwbench.search.coding import Coding
from hwbench.search.extremes import bounds, check_feasible, least
from hwbench.search.fronts import BestFront, best_front, read_front, write_front


@pytest.fixture(scope="module")
def found(evaluator: Evaluator) -> BestFront:
    return best_front(evaluator, evaluations=400, rounds=2)


def test_the_least_of_a_sum_over_layers_is_exact() -> None:
    space = SearchSpace("tiny", (64, 128), (1, 2, 3), (1, 2), (2, 4), (True,))
    rng = np.random.default_rng(0)
    worth = {choice: rng.normal() for choice in (1, 2, 4)}

    def of(table: ArchitectureTable) -> np.ndarray:
        layers = np.vectorize(lambda c: worth.get(c, 0.0))
        total = layers(table.n_head) + 10 * layers(table.mlp_ratio)
        return np.asarray(total.sum(axis=1) + table.embed_dim / 64)

    value, genes = least(Coding(space), of)
    every = ArchitectureTable.of(space.sample(5000, 0))
    assert value == pytest.approx(of(every).min())
    assert of(Coding(space).table(genes))[0] == value


def test_nothing_lies_beyond_the_bounds(evaluator: Evaluator) -> None:
    ideal, reference = bounds(evaluator)
    table = ArchitectureTable.of(evaluator.task.search_space.sample(5000, seed=9))
    costs = evaluator.costs(evaluator.values(table))
    assert (costs >= ideal - 1e-9).all()
    assert (costs <= reference + 1e-9).all()


def test_a_front_comes_back(found: BestFront, tmp_path: Path) -> None:
    path = write_front(found, tmp_path)
    there = read_front(path)
    assert there.id == found.id
    assert there.texts == found.texts
    assert there.hypervolume == found.hypervolume


def test_a_front_is_the_same_again_and_grows(evaluator: Evaluator, found: BestFront) -> None:
    assert best_front(evaluator, evaluations=400, rounds=2).id == found.id
    more = best_front(evaluator, evaluations=400, rounds=4, known=found)
    assert more.hypervolume > found.hypervolume


def test_a_front_changed_by_hand_is_refused(found: BestFront, tmp_path: Path) -> None:
    path = write_front(found, tmp_path)
    path.write_text(path.read_text().replace(found.made_by, "a guess"))
    with pytest.raises(InvalidValue, match="must have the hash"):
        read_front(path)
    for damaged in (b"{}\n{}\n", b"", b"\xff", b'{"space": 3}\n{}\n', b"[1]\n[2]\n"):
        path.write_bytes(damaged)
        with pytest.raises(InvalidValue, match=r"h100\.jsonl is no best known front"):
            read_front(path)


def feasible(bench: Benchmark, *constraints: str) -> None:
    task = Task.of(bench.space, ["perplexity", "latency@h100"], constraints)
    check_feasible(Evaluator(task, bench))


def test_a_constraint_that_cannot_hold_is_told_with_what_is_reachable(bench: Benchmark) -> None:
    feasible(bench, "latency@h100<=1000")
    with pytest.raises(
        Unsupported, match=r"latency@h100<=0.1 cannot hold .* reachable is [\d.]+ ms"
    ):
        feasible(bench, "latency@h100<=0.1")
    with pytest.raises(Unsupported, match=r"accuracy>=0\.99 cannot hold"):
        feasible(bench, "accuracy>=0.99")


def test_constraints_that_exclude_each_other(bench: Benchmark) -> None:
    with pytest.raises(Unsupported, match="not found to hold together"):
        feasible(bench, "params<=3e7", "params>=1e8")
