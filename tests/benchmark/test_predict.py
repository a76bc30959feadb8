"""`predict`: quantiles of many architectures, row by row the same whatever stands beside a row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwbench import Benchmark, count, space, spaces
from hwbench.architectures import ArchitectureTable
from hwbench.surrogate import Card

LEVELS = (0.02, 0.05, 0.3, 0.5, 0.95, 0.99)


def cards(bench: Benchmark) -> list[Card]:
    """The cards of all artefacts of a space."""
    found = []
    for device in (*bench.devices, None):
        for metric in bench._catalogue.metrics(bench.space.name, device):
            found.append(bench.card(device, metric))
    return found


@pytest.mark.parametrize("name", ["s", "m", "l"])
def test_the_shipped_artefacts_answer_within_what_was_recorded(name: str) -> None:
    bench = Benchmark(name)
    archs = [*bench.space.sample(60, 3), bench.space.smallest, bench.space.largest]
    found = cards(bench)
    assert len(found) == 13 * 2 + 1 + 2 + 2  # with the p100's host, memory and quality
    for card in found:
        values = bench.predict(archs, card.device, card.metric, LEVELS)
        assert values.shape == (len(archs), len(LEVELS))
        assert values.dtype == np.float64
        assert (values > 0).all(), card.path
        assert (np.diff(values, axis=1) >= 0).all(), card.path
        assert np.isfinite(values[:, 1:5]).all(), card.path
        about, median = card.values["training"], values[:, 3]
        assert median.min() > 0.5 * about["smallest"], card.path
        assert median.max() < 1.5 * about["largest"], card.path


@pytest.mark.parametrize("device, metric", [("h100", "latency"), (None, "perplexity")])
@pytest.mark.parametrize("n", [2, 63, 64, 65, 2500])
def test_many_are_as_one_by_one_to_the_last_bit(
    bench: Benchmark, device: str | None, metric: str, n: int
) -> None:
    """A ridge multiplied by BLAS once gave another last bit to a row with other rows beside it."""
    archs = bench.space.sample(n, 5)
    together = bench.predict(archs, device, metric, LEVELS)
    looked_at = range(0, n, max(1, n // 50))
    alone = np.concatenate([bench.predict([archs[i]], device, metric, LEVELS) for i in looked_at])
    assert np.array_equal(together[list(looked_at)], alone)


def test_own_artefacts_give_the_same_for_many_as_for_one(own: Benchmark) -> None:
    archs = own.space.sample(100, 0)
    for device, metric in (("my-gpu", "latency"), ("my-gpu", "energy"), (None, "perplexity")):
        together = own.predict(archs, device, metric)
        alone = np.concatenate([own.predict(a, device, metric) for a in archs])
        assert np.array_equal(together, alone)


def test_rows_keep_the_order_of_the_architectures(bench: Benchmark) -> None:
    archs = bench.space.sample(200, 1)
    order = np.random.default_rng(0).permutation(200)
    for device, metric in (("rtx2080", "energy"), (None, "accuracy"), (None, "flops")):
        straight = bench.predict(archs, device, metric)
        shuffled = bench.predict([archs[i] for i in order], device, metric)
        assert np.array_equal(straight[order], shuffled)


def test_what_holds_the_architectures_does_not_matter(bench: Benchmark) -> None:
    archs = bench.space.sample(5, 1)
    as_list = bench.predict(archs, "h100")
    as_objects = np.empty(5, dtype=object)
    as_objects[:] = archs
    for given_as in (
        tuple(archs),
        iter(archs),
        (a for a in archs),
        ArchitectureTable.of(archs),
        as_objects,
        dict.fromkeys(archs),
    ):
        assert np.array_equal(bench.predict(given_as, "h100"), as_list)
    assert np.array_equal(bench.predict(archs[3], "h100"), as_list[3:4])
    assert np.array_equal(bench.predict([archs[3]] * 3, "h100"), as_list[[3, 3, 3]])


def test_levels_keep_their_order_and_may_repeat(bench: Benchmark) -> None:
    archs = bench.space.sample(3, 1)
    straight = bench.predict(archs, "h100", quantiles=[0.1, 0.5, 0.9])
    mixed = bench.predict(archs, "h100", quantiles=np.array([0.9, 0.1, 0.1, 0.5]))
    assert np.array_equal(mixed, straight[:, [2, 0, 0, 1]])
    assert np.array_equal(bench.predict(archs, "h100", quantiles=0.5), straight[:, [1]])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(0.001, 0.999), min_size=2, max_size=20).map(sorted),
    st.integers(0, 2**32),
    st.sampled_from(["h100", "rtx2080", "cpu_amd_7513"]),
    st.sampled_from(["latency", "energy"]),
)
def test_quantiles_rise_with_their_level(
    levels: list[float], seed: int, device: str, metric: str
) -> None:
    bench = Benchmark("s")
    found = bench.predict(bench.space.sample(3, seed), device, metric, levels)
    assert (found[:, 1:] >= found[:, :-1]).all()
    assert (found >= 0).all()


@pytest.mark.parametrize("name", spaces())
def test_closed_forms_are_answered_in_every_space(name: str) -> None:
    bench = Benchmark(name)
    archs = [*space(name).sample(20, 7), space(name).largest]
    for metric in ("params", "macs", "flops"):
        assert metric in bench.metrics
        found = bench.predict(archs, metric=metric, quantiles=(0.05, 0.5, 0.95))
        exact = [getattr(count(a), metric) for a in archs]
        assert (found == np.array(exact, np.float64)[:, None]).all()
    one, exact = bench.query(archs[0], metrics=["params", "macs", "flops"]), count(archs[0])
    assert [p.median for p in one.values()] == [exact.params, exact.macs, exact.flops]


def test_names_of_hw_gpt_bench_are_aliases(bench: Benchmark) -> None:
    arch = bench.space.smallest
    for alias, name in (("latencies", "latency"), ("energies", "energy")):
        there = bench.predict(arch, "p100", name)
        assert np.array_equal(bench.predict(arch, "P100", alias), there)
    for alias in ("float16_memory", "bfloat16_memory"):
        found = bench.predict(arch, "a100", alias)
        assert np.array_equal(found, bench.predict(arch, "a100", "memory"))


def test_predictions_do_not_change_what_they_are_given(bench: Benchmark) -> None:
    archs = bench.space.sample(70, 1)
    table, levels = ArchitectureTable.of(archs), np.array([0.9, 0.1])
    before = [c.copy() for c in (table.n_layer, table.n_head, table.mlp_ratio, table.bias, levels)]
    bench.predict(table, "h100", quantiles=levels)
    after = (table.n_layer, table.n_head, table.mlp_ratio, table.bias, levels)
    assert all(np.array_equal(b, a) for b, a in zip(before, after, strict=True))


def test_two_benchmarks_give_the_same(bench: Benchmark, store: Path) -> None:
    archs = bench.space.sample(3, 1)
    assert np.array_equal(bench.predict(archs, "a40"), Benchmark("s").predict(archs, "a40"))
    # A store adds measured values to answers; what a surrogate predicts stays as it is.
    assert np.array_equal(
        bench.predict(archs, "a40"), Benchmark("s", store=store).predict(archs, "a40")
    )
