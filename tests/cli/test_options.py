"""The options that commands share."""

from __future__ import annotations

import pytest

from hwbench.cli.options import split_names


@pytest.mark.parametrize(
    "values, names",
    [
        (None, None),
        ([], None),
        (["h100"], ["h100"]),
        (["h100, a100", "v100", "a100"], ["h100", "a100", "v100"]),
        (["h100,"], ["h100", ""]),
    ],
)
def test_names_may_be_repeated_or_joined(values: list[str] | None, names: list[str] | None) -> None:
    assert split_names(values) == names
