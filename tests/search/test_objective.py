"""Objectives and constraints are read from text and refuse what means nothing."""

from __future__ import annotations

import pytest

from hwbench.errors import InvalidValue, UnknownName
from hwbench.search import Constraint, Objective
from hwbench.search.objective import parse_objectives


@pytest.mark.parametrize(
    "text", ["perplexity", "latency@h100", "energy@rtx2080:0.95", "memory@a100", "accuracy"]
)
def test_text_comes_back(text: str) -> None:
    assert str(Objective.parse(text)) == text


def test_aliases_are_resolved() -> None:
    assert Objective.parse(" latencies@P100 ") == Objective("latency", "p100")


def test_accuracy_is_maximised() -> None:
    assert Objective("accuracy").sign == -1
    assert Objective("perplexity").sign == 1


@pytest.mark.parametrize(
    "text, error, says",
    [
        ("latenc@h100", UnknownName, "Did you mean 'latency'?"),
        ("latency", InvalidValue, "needs a device"),
        ("perplexity@h100", InvalidValue, "belongs to no device"),
        ("latency@h100:1.5", InvalidValue, "in (0, 1)"),
        ("latency@h100:nan", InvalidValue, "in (0, 1)"),
        ("latency@h100:x", InvalidValue, "Got 'x'"),
        ("", InvalidValue, "metric@device"),
    ],
)
def test_a_wrong_objective_is_refused(text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        Objective.parse(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["latency@h100<=20", "accuracy>=0.3", "latency@h100:0.95<=7.5"])
def test_a_constraint_comes_back(text: str) -> None:
    assert str(Constraint.parse(text)) == text
    assert Constraint.parse(str(Constraint.parse(text))) == Constraint.parse(text)


@pytest.mark.parametrize("text", ["latency@h100", "latency@h100<=nan", "latency@h100<=x", "<=3"])
def test_a_wrong_constraint_is_refused(text: str) -> None:
    with pytest.raises((InvalidValue, UnknownName)):
        Constraint.parse(text)


def test_texts_keep_every_digit() -> None:
    """A quantile was shown with six, so that a run did not know its own file again."""
    for one in (Objective("latency", "h100", 0.123456789), Objective("latency", "h100", 1e-7)):
        assert Objective.parse(str(one)) == one
    one = Constraint.parse("params<=123456789.5")
    assert Constraint.parse(str(one)) == one


def test_two_different_objectives_are_needed() -> None:
    with pytest.raises(InvalidValue, match="two objectives or more"):
        parse_objectives(["perplexity"])
    with pytest.raises(InvalidValue, match="Got latency@p100 twice"):
        parse_objectives(["latency@p100", "latencies@P100"])
