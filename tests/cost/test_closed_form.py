"""The closed forms, against sums over explicit tensors and against numbers from elsewhere."""

from __future__ import annotations

import dataclasses
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hwbench
from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace
from hwbench.cost import DTYPE_BYTES, Count, CountTable, count, count_table, weight_bytes
from hwbench.errors import InvalidArchitecture, InvalidValue, UnknownName
from hwbench.workload import BLOCKS

COLUMNS = ("params", "macs", "flops", "attention_flops", "total_flops")

seeds = st.integers(0, 2**32 - 1)
blocks = st.sampled_from(BLOCKS)


@st.composite
def own_spaces(draw: st.DrawFn) -> SearchSpace:
    """Spaces with other head sizes and sequences than the shipped ones."""

    def choices(most: int) -> st.SearchStrategy[tuple[int, ...]]:
        return st.lists(st.integers(1, most), min_size=1, max_size=3, unique=True).map(tuple)

    return SearchSpace(
        "own",
        embed_dim=draw(choices(300)),
        n_layer=draw(choices(6)),
        n_head=draw(choices(9)),
        mlp_ratio=draw(choices(5)),
        bias=draw(st.sampled_from([(True,), (False,), (True, False)])),
        head_size=draw(st.integers(1, 130)),
        batch_size=draw(st.integers(1, 9)),
        seq_len=draw(st.integers(1, 1024)),
    )


any_space = st.one_of(st.sampled_from(hwbench.spaces()).map(hwbench.space), own_spaces())


def linear(out: int, into: int, bias: bool) -> list[tuple[int, ...]]:
    return [(out, into), (out,)] if bias else [(out, into)]


def layer_linears(arch: Architecture, layer: int, block: str) -> list[tuple[int, int]]:
    """(out, in) of every linear of one layer, written down from the block's own description."""
    d, inner = arch.embed_dim, arch.search_space.head_size * arch.n_head[layer]
    hidden = arch.mlp_ratio[layer] * d
    attention = [(3 * inner, d), (d, inner)]
    up = {"gpt2": [(hidden, d)], "hwgpt": [(hidden, d), (hidden, d)]}[block]
    return [*attention, *up, (d, hidden)]


def tensors(arch: Architecture, block: str) -> list[tuple[int, ...]]:
    """The shape of every parameter tensor of the model, one by one."""
    d = arch.embed_dim
    norm = [(d,), (d,)] if arch.bias or block == "hwgpt" else [(d,)]
    found: list[tuple[int, ...]] = []
    if block == "gpt2":
        found += [(50257, d), (1024, d)]
    else:
        found += [(50254, d), (50254, d)]
    for layer in range(arch.n_layer):
        found += norm
        for out, into in layer_linears(arch, layer, block):
            found += linear(out, into, arch.bias)
        found += norm
    return found + norm


def weight_macs(arch: Architecture, block: str) -> int:
    """Multiply-accumulates of one token with every weight matrix, the head's included."""
    head = {"gpt2": 50257, "hwgpt": 50254}[block] * arch.embed_dim
    layers = (layer_linears(arch, i, block) for i in range(arch.n_layer))
    return head + sum(out * into for layer in layers for out, into in layer)


def attention_flops(arch: Architecture, tokens: int) -> int:
    """Two s x s products a head, a layer and a sequence, 2 FLOPs a multiply-accumulate."""
    space, found = arch.search_space, 0
    while tokens > 0:
        s = min(tokens, space.seq_len)
        for heads in arch.n_head:
            scores = s * s * space.head_size
            values = s * space.head_size * s
            found += 2 * heads * (scores + values)
        tokens -= s
    return found


@given(any_space, seeds, blocks, st.none() | st.integers(1, 20_000))
def test_scalar_form_equals_the_sum_over_tensors(
    space: SearchSpace, seed: int, block: str, tokens: int | None
) -> None:
    arch = space.sample(1, seed)[0]
    counted = count(arch, tokens, block)
    n = space.batch_size * space.seq_len if tokens is None else tokens
    assert counted.params == sum(prod(shape) for shape in tensors(arch, block))
    assert counted.macs == n * weight_macs(arch, block)
    assert counted.flops == 2 * counted.macs
    assert counted.attention_flops == attention_flops(arch, n)
    assert counted.total_flops == counted.flops + counted.attention_flops
    assert (counted.tokens, counted.block) == (n, block)


@given(any_space, seeds, blocks, st.none() | st.integers(1, 20_000))
def test_vectorised_form_equals_the_scalar_form(
    space: SearchSpace, seed: int, block: str, tokens: int | None
) -> None:
    archs = [*space.sample(5, seed), space.smallest, space.largest]
    columns = count_table(ArchitectureTable.of(archs), tokens, block)
    one_by_one = [count(a, tokens, block) for a in archs]
    for name in COLUMNS:
        column = getattr(columns, name)
        assert column.dtype == np.int64
        assert column.tolist() == [getattr(c, name) for c in one_by_one]
    assert {(columns.tokens, columns.block)} == {(c.tokens, c.block) for c in one_by_one}


@pytest.mark.parametrize(
    "name, shape, params",
    [
        ("s", (12, 768, 12), 124_439_808),
        ("m", (24, 1024, 16), 354_823_168),
        ("l", (36, 1280, 20), 774_030_080),
        ("xl", (48, 1600, 25), 1_557_611_200),
    ],
)
def test_gpt2_with_its_own_sizes_has_the_parameters_of_hugging_face(
    name: str, shape: tuple[int, int, int], params: int
) -> None:
    layers, d, heads = shape
    arch = Architecture(name, layers, d, (heads,) * layers, (4,) * layers, True)
    assert count(arch, block="gpt2").params == params


def test_gpt2_small_takes_the_flops_known_for_it() -> None:
    # Per token: 12 layers of 12 d^2 and the head; per sequence and layer: two 1024 x 1024 x d.
    arch = Architecture("s", 12, 768, (12,) * 12, (4,) * 12, True)
    counted = count(arch, 1024, "gpt2")
    assert counted.macs == 1024 * (12 * 12 * 768**2 + 50257 * 768)
    assert counted.attention_flops == 12 * 2 * (2 * 1024 * 1024 * 768)


@pytest.mark.parametrize(
    "name, tokens", [("s", 8192), ("m", 4096), ("l", 1024), ("xl", 1024)], ids=str
)
def test_default_tokens(name: str, tokens: int) -> None:
    for space in (hwbench.space(name), hwbench.space(f"{name}-wide")):
        arch = space.largest
        assert count(arch).tokens == tokens
        assert count(arch) == count(arch, tokens) == count(arch, np.int64(tokens))  # type: ignore[arg-type]
        assert count_table(ArchitectureTable.of([arch])).tokens == tokens


def test_what_is_left_over_makes_a_shorter_sequence() -> None:
    arch = hwbench.space("s").largest
    whole, rest, both = (count(arch, n).attention_flops for n in (1024, 100, 2148))
    assert both == 2 * whole + rest


def test_counts_are_exact_python_ints() -> None:
    counted = count(hwbench.space("xl").largest, 10**30 + 1)
    assert all(type(getattr(counted, name)) is int for name in (*COLUMNS, "tokens"))
    assert counted.macs == (10**30 + 1) * count(hwbench.space("xl").largest, 1).macs


@pytest.mark.parametrize("tokens", [True, False, 0, -1, 1024.0, float("nan"), "1024", [1]])
@pytest.mark.parametrize("block", BLOCKS)
def test_bad_tokens_are_refused(tokens: Any, block: str) -> None:
    arch = hwbench.space("s").smallest
    with pytest.raises(InvalidValue, match=r"^The 'tokens' parameter of count must be an int >= 1"):
        count(arch, tokens, block)
    with pytest.raises(InvalidValue, match=r"^The 'tokens' parameter of count_table must be an "):
        count_table(ArchitectureTable.of([arch]), tokens, block)


def test_bad_architectures_tables_and_blocks_are_refused() -> None:
    arch = hwbench.space("s").smallest
    for wrong in (str(arch), None, [arch]):
        with pytest.raises(InvalidArchitecture, match=r"^The 'arch' parameter of count must be an"):
            count(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidValue, match=r"^The 'table' parameter of count_table must be an"):
            count_table(wrong)  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match=r"Did you mean 'hwgpt'\?"):
        count(arch, block="HWGPT")
    with pytest.raises(UnknownName):
        count_table(ArchitectureTable.of([arch]), block="bert")


def test_sequences_longer_than_the_learned_positions_are_refused() -> None:
    space = SearchSpace("long", (64,), (1,), (1,), (1,), seq_len=1025)
    arch = space.largest
    assert count(arch, block="hwgpt").tokens == 1025
    assert count(arch, 1024, "gpt2").tokens == 1024
    with pytest.raises(InvalidValue, match=r"at most 1024 tokens\. Got 1025"):
        count(arch, block="gpt2")
    with pytest.raises(InvalidValue, match=r"at most 1024 tokens\. Got 1025"):
        count_table(ArchitectureTable.of([arch]), block="gpt2")


@pytest.mark.parametrize("bias", [True, False])
def test_a_table_whose_counts_do_not_fit_64_bits_is_refused(bias: bool) -> None:
    huge = SearchSpace("huge", (32767,), (999,), (32767,), (32767,), (bias,), head_size=10**18)
    table = ArchitectureTable.of([huge.largest])
    with pytest.raises(InvalidValue, match=r"^The counts of count_table must fit 64 bits"):
        count_table(table)
    assert count(huge.largest).params > 2**63
    archs = hwbench.space("s").sample(3, seed=0)
    limit = max(2**63 // count(a, 1).total_flops for a in archs)
    with pytest.raises(InvalidValue, match=r"fit 64 bits"):
        count_table(ArchitectureTable.of(archs), limit)


def test_empty_table_gives_empty_columns() -> None:
    empty = ArchitectureTable.of([hwbench.space("s").smallest]).take(np.zeros(1, bool))
    columns = count_table(empty)
    assert all(getattr(columns, name).shape == (0,) for name in COLUMNS)


def test_counts_are_frozen_values_and_tables_are_not_changed() -> None:
    arch = hwbench.space("s").smallest
    counted = count(arch)
    assert counted == count(arch)
    assert hash(counted) == hash(count(arch))
    assert not hasattr(counted, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        counted.params = 1  # type: ignore[misc]
    table = ArchitectureTable.of(hwbench.space("s").sample(50, seed=3))
    before = [getattr(table, f.name) for f in dataclasses.fields(table)]
    copies = [c.copy() for c in before[1:]]
    first, second = count_table(table), count_table(table)
    assert all(np.array_equal(a, b) for a, b in zip(before[1:], copies, strict=True))
    assert all(np.array_equal(getattr(first, n), getattr(second, n)) for n in COLUMNS)


def test_both_count_types_have_the_same_fields() -> None:
    names = [[f.name for f in dataclasses.fields(t)] for t in (Count, CountTable)]
    assert names[0] == names[1] == [*COLUMNS, "tokens", "block"]


@given(seeds)
def test_every_count_grows_with_every_choice(seed: int) -> None:
    # What count_table's guard against overflow rests on.
    arch = hwbench.space("s-wide").sample(1, seed)[0]
    for block in BLOCKS:
        most = count(hwbench.space("s-wide").largest, block=block)
        here = count(arch, block=block)
        assert all(getattr(here, name) <= getattr(most, name) for name in COLUMNS)


def test_weight_bytes() -> None:
    assert {d: weight_bytes(3, d) for d in DTYPE_BYTES} == {
        "float64": 24,
        "float32": 12,
        "bfloat16": 6,
        "float16": 6,
        "int8": 3,
    }
    assert weight_bytes(np.array([1, 2]), "float16").tolist() == [2, 4]
    with pytest.raises(UnknownName, match=r"^Unknown dtype 'bf16'\. Did you mean 'bfloat16'\?"):
        weight_bytes(1, "bf16")
    with pytest.raises(UnknownName, match=r"^Unknown dtype None\. Known: float64"):
        weight_bytes(1, None)  # type: ignore[arg-type]


@pytest.mark.recorded
@pytest.mark.parametrize("name", ["s", "m", "l"])
def test_every_recorded_count_is_reproduced(recorded_store: Path, name: str) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    rows = pq.read_table(recorded_store / "architectures" / f"{name}.parquet").to_pylist()
    # The file of m holds strangers from space s, numbered from 10,000, counted at m's tokens.
    groups = {name: [r for r in rows if r["arch_id"] < 10_000]}
    assert len(groups[name]) == 9_000
    strangers = [r for r in rows if r["arch_id"] >= 10_000]
    assert (name == "m") == bool(strangers)
    if strangers:
        groups["s"] = strangers
    for of, group in groups.items():
        keys = ("n_layer", "embed_dim", "n_head", "mlp_ratio", "bias")
        archs = [Architecture.from_dict({k: r[k] for k in keys}, space=of) for r in group]
        columns = count_table(ArchitectureTable.of(archs), hwbench.space(name).tokens)
        for column in ("params", "macs"):
            recorded = np.array([r[f"recorded_{column}"] for r in group], dtype=np.int64)
            assert np.count_nonzero(getattr(columns, column) != recorded) == 0
