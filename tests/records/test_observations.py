"""Ragged repeats behave as lists of lists do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwbench.errors import InvalidStore
from hwbench.records import Repeats

RAGGED = st.lists(st.lists(st.floats(0.1, 100), max_size=6), max_size=8)


def ragged(rows: list[list[float]]) -> Repeats:
    return Repeats(
        np.array([v for row in rows for v in row], np.float64),
        np.cumsum([0, *map(len, rows)]),
    )


def rows_of(repeats: Repeats) -> list[list[float]]:
    return [repeats.of(i).tolist() for i in range(len(repeats))]


@given(RAGGED, st.integers(0, 7))
def test_leaving_out_the_first(rows: list[list[float]], count: int) -> None:
    assert rows_of(ragged(rows).without_first(count)) == [row[count:] for row in rows]


@given(RAGGED, st.data())
def test_taking_rows(rows: list[list[float]], data: st.DataObject) -> None:
    mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), bool
    )
    taken = ragged(rows).take(mask)
    assert rows_of(taken) == [row for row, kept in zip(rows, mask, strict=True) if kept]
    assert np.array_equal(taken.flat, ragged(rows).take(np.flatnonzero(mask)).flat)


@given(RAGGED)
def test_statistics_of_each_row(rows: list[list[float]]) -> None:
    repeats = ragged(rows)
    assert repeats.lengths.tolist() == list(map(len, rows))
    assert repeats.row.tolist() == [i for i, row in enumerate(rows) for _ in row]
    for row, median, spread in zip(rows, repeats.medians, repeats.relative_std, strict=True):
        assert np.isnan(median) if not row else median == np.median(row)
        if len(row) < 2:
            assert np.isnan(spread)
        else:
            assert spread == pytest.approx(np.std(row, ddof=1) / np.mean(row), abs=1e-12)


def test_the_matrix_of_equal_rows_and_of_none() -> None:
    assert ragged([[1, 2], [3, 4]]).matrix.tolist() == [[1, 2], [3, 4]]
    assert ragged([]).matrix.shape == (0, 0)
    assert ragged([[], []]).matrix.shape == (2, 0)
    with pytest.raises(InvalidStore, match=r"as many repeats. Got 1 to 2"):
        _ = ragged([[1], [2, 3]]).matrix


def test_inputs_are_not_changed() -> None:
    flat, offsets = np.array([3.0, 1.0, 2.0]), np.array([0, 2, 3])
    flat.flags.writeable = offsets.flags.writeable = False
    repeats = Repeats(flat, offsets)
    assert repeats.medians.tolist() == [2.0, 2.0]
    assert rows_of(repeats.without_first(1)) == [[1.0], []]
