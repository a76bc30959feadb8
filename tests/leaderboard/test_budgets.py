"""Winners under budgets: found once, found again where they are missing, refused where damaged."""

from __future__ import annotations

import pytest

from hwbench.errors import InvalidValue
from hwbench.leaderboard import Suite
from hwbench.leaderboard.budgets import compute_winners, read_winners, winners_file


@pytest.mark.parametrize(
    "old, new, says",
    [
        (b'"device": "h100"', b'"device": "a40"', "of latency@h100 in space s"),
        (b'"space": "s"', b'"space": "m"', "of latency@h100 in space s"),
        (b'"budget": ', b'"budget": "x", "budge": ', "it is no winner"),
        (b'"budget": ', b'"budget": null, "was": ', "it is no winner"),
        (b'"gpt-s-', b'"gpt-s-999-', "it is no winner"),
        (b"{", b"\xff", "it is no winner"),
        (b"{", b"[[", "it is no winner"),
    ],
)
def test_a_damaged_file_is_named(old: bytes, new: bytes, says: str, suite: Suite) -> None:
    path = winners_file(suite, "s", "h100", "latency")
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(InvalidValue, match=r"latency@h100\.jsonl, line 1: ") as caught:
        read_winners(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_file_is_filled_again(suite: Suite) -> None:
    """It was taken for whole."""
    path = winners_file(suite, "s", "h100", "latency")
    before = path.read_bytes()
    path.write_bytes(b"")
    compute_winners(suite, jobs=1, advance=lambda: None)
    assert path.read_bytes() == before
