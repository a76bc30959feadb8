"""Roles in a campaign become labels, whatever the order and whatever else was measured."""

from __future__ import annotations

import pytest

from hwbench import space
from hwbench.architectures import ArchitectureTable
from hwbench.errors import InvalidStore
from hwbench.records.roles import labels_of_roles


def test_each_role_has_its_label_and_the_anchor_trains() -> None:
    drawn = space("s").sample(5, seed=0)
    roles = ("designed", "random", "test", "random")
    items = [{"role": r, "architecture": str(a)} for r, a in zip(roles, drawn[:4], strict=True)]
    table = ArchitectureTable.of([drawn[4], *drawn[3::-1], drawn[2]])
    labels = labels_of_roles({"plan": {"items": items}}, table)
    assert labels.tolist() == ["train", "both", "test", "both", "train", "test"]


@pytest.mark.parametrize("said", [{}, {"plan": None}, {"plan": {"items": [{"role": "x"}]}}])
def test_a_campaign_without_a_plan_is_refused(said: dict[str, object]) -> None:
    table = ArchitectureTable.of(space("s").sample(1, seed=0))
    with pytest.raises(InvalidStore, match="plan is incomplete"):
        labels_of_roles(said, table)
