"""What the page says of optimisers that do not beat random search, on runs whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwbench.leaderboard import Part, Suite
from hwbench.leaderboard.optimisers import Comparison, compare
from hwbench.leaderboard.remarks import not_below_random, remarks


@pytest.fixture
def random_alone(built: Suite) -> Comparison:
    """Four seeds of random search on one task, scored at three marks."""
    c = compare(built, built.parts[0])
    regret = np.array([[[[0.9, 0.6, 0.3]] * 4]]) + 0.01 * np.arange(4)[:, None]
    return replace(c, names=("random",), regret=regret, igd_plus=regret, epsilon=regret)


def _with(c: Comparison, name: str, added: list[float]) -> Comparison:
    """The comparison with an optimiser that has so much more regret than random search has."""
    regret = np.concatenate([c.regret, c.regret[:1] + np.array(added)])
    return replace(c, names=(*c.names, name), regret=regret)


def test_who_is_below_is_not_mentioned(random_alone: Comparison) -> None:
    c = _with(random_alone, "better", [0.0, 0.0, -0.1])
    assert not_below_random(c) == []
    assert "better" not in remarks([c])


def test_who_is_not_below_is_named_with_what_the_runs_show(random_alone: Comparison) -> None:
    short = _with(random_alone, "late", [0.0, 0.0, 0.0])
    long = replace(_with(random_alone, "late", [0.0, -0.1, -0.2]), part=_named(short, "long"))
    said = remarks([short, long]).split("\n\n")
    assert said[1].endswith("Not below random search at the end: late.")
    assert said[2] == (
        "**late**, all: after 50 evaluations its mean regret is that of random search. "
        "Seed by seed its runs score what random search's do up to 50 evaluations, so they are "
        "random until then, which leaves none to learn from. In part long the difference's "
        "interval lies below 0 from 20 evaluations on."
    )
    assert len(said) == 4


def test_a_difference_that_the_runs_show_is_not_called_none(random_alone: Comparison) -> None:
    c = _with(_with(random_alone, "local", [0.0, 0.3, 0.2]), "noisy", [0.1, 0.1, 0.0])
    c.regret[2, 0, :, 2] += [0.2, -0.2, 0.1, 0.0]
    text = remarks([c, replace(c, part=_named(c, "again"))])
    assert "**local**, all: after 50 evaluations its mean regret lies 0.2 above" in text
    assert "interval from 0.2 to 0.2. Seed by seed" in text
    assert "up to 10 evaluations, so they are random until then, which leaves 40" in text
    assert "In part again the difference's interval lies below 0 at no mark. It is" in text
    noisy = next(p for p in text.split("\n\n") if p.startswith("**noisy**"))
    assert "the runs show no difference." in noisy
    assert "Seed by seed" not in noisy


def test_without_random_search_nothing_is_said(random_alone: Comparison) -> None:
    c = replace(random_alone, names=("other",))
    assert not_below_random(c) == []
    assert "random" not in remarks([c])


def _named(c: Comparison, name: str) -> Part:
    return replace(c.part, name=name)
