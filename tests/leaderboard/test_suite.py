"""A suite's file: its tasks, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwbench.errors import HwbenchError, InvalidValue
from hwbench.leaderboard import read_suite

ROOT = Path(__file__).parents[2]
PART = """title = "t"
spaces = ["s"]
devices = ["h100"]
[[parts]]
name = "all"
spaces = ["s"]
devices = ["h100"]
objectives = ["perplexity,latency@{device}"]
algorithms = ["random"]
seeds = 1
evaluations = 10
scored_at = [10]
"""


def test_the_full_suite_is_as_large_as_it_says() -> None:
    suite = read_suite(ROOT / "leaderboards/full")
    part, models = suite.part("all"), suite.part("model-based")
    assert len(part.tasks()) == 24
    assert (len(part.spaces), len(part.devices), len(part.objectives)) == (3, 4, 2)
    assert (part.seeds, part.evaluations) == (10, 1000)
    assert 200 in part.scored_at
    assert len(models.tasks()) == 4
    assert (models.seeds, models.evaluations) == (3, 60)
    assert {t.name for t in models.tasks()} <= {t.name for t in part.tasks()}


@pytest.mark.parametrize(
    "old, new, says",
    [
        ('"random"', '"rando"', "Did you mean 'random'"),
        (
            'spaces = ["s"]\ndevices = ["h100"]\nobj',
            'spaces = ["x"]\ndevices = ["h100"]\nobj',
            "space",
        ),
        ("[10]", "[20, 10]", "scored_at of part all must rise"),
        ("seeds = 1", "seeds = 0", "seeds of part all"),
        ("perplexity,latency", "latency", "two objectives"),
        ("title", "titel", "Unknown field of the suite 'titel'. Did you mean 'title'?"),
        ('title = "t"\n', "", "title of the suite must be a text. Got nothing."),
        ('devices = ["h100"]\n[[', 'devices = ["h10"]\n[[', "Did you mean 'h100'"),
        ('spaces = ["s"]\ndevices = ["h100"]\n[[', 'spaces = "s"\ndevices = ["h100"]\n[[', "names"),
        ("[[parts]]", "front_evaluations = -1\n[[parts]]", "front_evaluations of the suite must"),
        ("[[parts]]", "front_rounds = 1.5\n[[parts]]", "Got 1.5 instead"),
        ("[[parts]]", "[parts]", "parts of the suite must be a list of tables"),
        ('name = "all"', 'name = "../x"', "name of a part must be a name of at most 60"),
        ("seeds = 1", 'seeds = "1"', "seeds of part all must be an int of at least 1. Got '1'"),
        ("evaluations = 10", "evaluations = true", "evaluations of part all must be an int"),
        ('["random"]', "[]", "algorithms of part all must be a list of names. Got [] instead"),
        ("scored_at = [10]", "scored_at = [nan]", "scored_at of part all must be a list of ints"),
        ("{device}", "{", "Unknown device '{'"),
        ("[10]\n", "[10]\n" + PART[PART.index("[[") :], "must have different names. Got all, all"),
        ("[[parts]]", "[parts", "is not TOML"),
    ],
)
def test_a_wrong_suite_is_one_line(old: str, new: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(PART.replace(old, new, 1))
    with pytest.raises(HwbenchError) as caught:
        read_suite(tmp_path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_suite(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="Cannot read the suite"):
        read_suite(tmp_path)
