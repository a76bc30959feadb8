"""Rows as a table and as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hwbench.cli.output import print_json, print_rows, table


def test_columns_are_aligned_and_numbers_stand_right() -> None:
    rows = [
        {"name": "a", "ms": 1 / 3, "n": 7, "on": False, "of": (1, 2), "no": None},
        {"name": "long", "ms": 1234.5, "n": 1234567890123, "on": True, "of": [], "no": ""},
    ]
    assert table(rows).splitlines() == [
        "name        ms              n  on   of   no",
        "a     0.333333              7  no   1 2  -",
        "long    1234.5  1234567890123  yes       -",
    ]


def test_json_takes_numpy_values_and_refuses_what_json_has_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows([{"a": np.int64(1), "b": np.array([1.5, 2.5])}], as_json=True)
    assert json.loads(capsys.readouterr().out) == [{"a": 1, "b": [1.5, 2.5]}]
    with pytest.raises(ValueError, match="JSON"):
        print_json(float("nan"))
    with pytest.raises(TypeError, match="JSON has no form for a set"):
        print_json({1})


def test_no_rows_are_an_empty_list_and_an_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], as_json=True)
    assert capsys.readouterr().out == "[]\n"
    print_rows([], as_json=False)
    assert capsys.readouterr().out == ""
