"""`ArchitectureTable`: columns and back."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hwbench
from hwbench.architectures import ArchitectureTable, SearchSpace
from hwbench.architectures.table import padded
from hwbench.errors import InvalidArchitecture

names = st.sampled_from(hwbench.spaces())
seeds = st.integers(0, 2**32)


@given(names, seeds, st.integers(1, 30))
def test_round_trip(name: str, seed: int, n: int) -> None:
    archs = hwbench.space(name).sample(n, seed)
    table = ArchitectureTable.of(archs)
    back = table.architectures()
    assert back == archs
    assert list(map(repr, back)) == list(map(repr, archs))
    assert len(table) == n
    assert table.search_space == hwbench.space(name)


@given(names, seeds)
def test_columns_are_the_values_row_by_row(name: str, seed: int) -> None:
    space = hwbench.space(name)
    archs = space.sample(7, seed)
    table = ArchitectureTable.of(archs)
    deepest = max(space.n_layer)
    for i, a in enumerate(archs):
        fill = [0] * (deepest - a.n_layer)
        assert (table.n_layer[i], table.embed_dim[i]) == (a.n_layer, a.embed_dim)
        assert table.bias[i] == a.bias
        assert table.n_head[i].tolist() == [*a.n_head, *fill]
        assert table.mlp_ratio[i].tolist() == [*a.mlp_ratio, *fill]
        assert table.heads[i] == sum(a.n_head)
        assert table.ratios[i] == sum(a.mlp_ratio)
    integers = (table.n_layer, table.embed_dim, table.n_head, table.mlp_ratio)
    assert {c.dtype for c in (*integers, table.heads, table.ratios)} == {np.dtype(np.int64)}
    assert table.bias.dtype == np.bool_
    assert table.n_head.shape == table.mlp_ratio.shape == (7, deepest)


@pytest.mark.parametrize(
    "rows", [[3, 0, 3], np.array([4, 1]), np.arange(5) % 2 == 0, np.zeros(5, bool), slice(1, 3)]
)
def test_take(rows: Any) -> None:
    archs = hwbench.space("s").sample(5, seed=9)
    taken = ArchitectureTable.of(archs).take(rows)
    indices = np.arange(5)[rows]
    assert taken.architectures() == [archs[i] for i in indices]
    assert len(taken) == len(indices)


def test_any_iterable_will_do() -> None:
    archs = hwbench.space("m").sample(4, seed=0)
    for given_ in (tuple(archs), iter(archs), (a for a in archs), np.array(archs, dtype=object)):
        assert ArchitectureTable.of(given_).architectures() == archs


def test_spaces_that_are_equal_are_one_space() -> None:
    s = hwbench.space("s")
    twin = dataclasses.replace(s)
    assert len(ArchitectureTable.of([s.smallest, twin.largest])) == 2


TINY = SearchSpace("tiny", (64,), (1,), (1,), (1,))


@pytest.mark.parametrize(
    "wrong, message",
    [
        ([], "There must be at least one architecture. Got none."),
        (iter([]), "There must be at least one architecture. Got none."),
        (None, "Architectures must come in a list or the like. Got None instead."),
        (7, "Architectures must come in a list or the like. Got 7 instead."),
        ("gpt-s", "Architectures must come in a list or the like. Got 'gpt-s' instead."),
        (["gpt-s"], "Each of the architectures must be an Architecture. Got 'gpt-s' instead."),
        ([TINY.largest, None], "Each of the architectures must be an Architecture. Got None"),
        (
            [TINY.largest, hwbench.space("s").smallest],
            "All architectures must be of one space. Got 'tiny' and 's'.",
        ),
    ],
    ids=range(8),
)
def test_what_is_no_list_of_architectures_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(InvalidArchitecture) as caught:
        ArchitectureTable.of(wrong)
    assert str(caught.value).startswith(message)


def test_one_architecture_alone_is_refused() -> None:
    with pytest.raises(
        InvalidArchitecture, match=r"^Architectures must come in a list or the like"
    ):
        ArchitectureTable.of(TINY.largest)  # type: ignore[arg-type]


def test_spaces_of_one_name_with_different_choices_are_told_apart() -> None:
    other = dataclasses.replace(TINY, head_size=32)
    with pytest.raises(
        InvalidArchitecture, match=r"one space\. Got 'tiny' and 'tiny' with other choices\.$"
    ):
        ArchitectureTable.of([TINY.largest, other.largest])


def test_padded() -> None:
    rows = padded([[1, 2], [], [3]], np.array([2, 0, 1]), 3)
    assert rows.tolist() == [[1, 2, 0], [0, 0, 0], [3, 0, 0]]
    assert padded([], np.zeros(0, np.int64), 3).shape == (0, 3)


def test_frozen() -> None:
    table = ArchitectureTable.of([TINY.largest])
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.bias = table.bias  # type: ignore[misc]
