"""The plan: a design that determines every cost, uniform draws beside it, in a random order."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace, space, spaces
from hwbench.campaign.plan import Item, Plan, d_optimal, design_terms, make_plan
from hwbench.encode import Features
from hwbench.errors import InvalidStore, InvalidValue
from hwbench.surrogate.base import fit_layer_cost


def of_role(plan: Plan, role: str) -> list[Architecture]:
    return [item.architecture for item in plan.items if item.role == role]


@pytest.mark.parametrize("name", spaces())
def test_44_designed_and_20_drawn_in_every_space(name: str) -> None:
    owner = space(name)
    plan = make_plan(owner)
    designed, drawn = of_role(plan, "designed"), of_role(plan, "random")
    assert (len(designed), len(drawn), len(plan.items)) == (44, 20, 64)
    assert len({*designed, *drawn}) == 64
    for d in owner.embed_dim:
        own = [a for a in designed if a.embed_dim == d]
        assert len(own) >= 12
        # The ends, with layers that are all alike, are among them.
        assert owner.smallest.replace(embed_dim=d) in own
        assert owner.largest.replace(embed_dim=d) in own
        for field in ("n_head", "mlp_ratio"):
            counts = Counter(c for a in own for c in getattr(a, field))
            assert set(counts) == set(getattr(owner, field))
        assert Counter(a.bias for a in own).keys() == {True, False}
    assert owner.contains(plan.anchor)


def test_every_cost_is_well_determined() -> None:
    # Costs that no arithmetic suggests come back exactly from 44 noiseless measurements.
    owner = space("s")
    designed = ArchitectureTable.of(of_role(make_plan(owner), "designed"))
    queries = ArchitectureTable.of(owner.sample(500, seed=3))
    heads, ratios = np.array([1.0, 5.0, 2.0]), np.array([3.0, 2.0, 9.0])

    def cost(table: ArchitectureTable) -> np.ndarray:
        counts = Features(table).counts
        per_width = np.array([1.0, 4.0, 2.0])[Features(table).width]
        return 7.0 + per_width * (counts[:, :3] @ heads + counts[:, 3:] @ ratios)

    base = fit_layer_cost(designed, cost(designed))
    np.testing.assert_allclose(base.predict(Features(queries)), cost(queries), rtol=1e-6)


def test_the_design_is_better_than_chance() -> None:
    table = ArchitectureTable.of(space("m").sample(600, seed=1))
    terms = design_terms(table)

    def log_det(rows: list[int]) -> float:
        information = terms[rows].T @ terms[rows] + 0.05 * np.eye(terms.shape[1])
        return float(np.linalg.slogdet(information)[1])

    rng = np.random.default_rng(0)
    chosen = d_optimal(table, 44, [3, 5], rng)
    assert chosen[:2] == [3, 5]
    assert len(set(chosen)) == 44
    by_chance = [log_det(rng.choice(600, 44, replace=False).tolist()) for _ in range(50)]
    assert log_det(chosen) > max(by_chance) + 5


def test_the_order_is_random_and_the_seed_decides() -> None:
    one, again, other = (make_plan(space("s"), seed=s) for s in (1, 1, 2))
    assert one == again
    assert one != other
    places = [i for i, item in enumerate(one.items) if item.role == "random"]
    assert places[0] < 16
    assert places[-1] > 48


def test_test_architectures_stand_among_the_others_once_in_each_half() -> None:
    plan = make_plan(space("s"), budget=64, tests=40)
    halves = plan.items[:72], plan.items[72:]
    first, second = ([i.architecture for i in half if i.role == "test"] for half in halves)
    assert first != second
    assert set(first) == set(second)
    assert len(set(first)) == 40
    others = [i.architecture for i in plan.items if i.role != "test"]
    assert len(set(others)) == 64
    assert not set(first) & set(others)
    places = [i for i, item in enumerate(plan.items) if item.role == "test"]
    assert max(b - a for a, b in pairwise(places)) < 16


def test_a_plan_comes_back_from_json() -> None:
    own = SearchSpace("own", (32, 64), (2, 3, 4), (1, 2), (2, 4))
    plan = make_plan(own, budget=16, tests=3, seed=5)
    assert Plan.from_dict(plan.to_dict(), own) == plan
    assert isinstance(plan.items[0], Item)
    with pytest.raises(InvalidStore, match="incomplete"):
        Plan.from_dict({"items": []}, own)


@pytest.mark.parametrize(
    "budget, tests, said", [(23, 0, "24, eight for each"), (64, -1, "tests"), (2.5, 0, "budget")]
)
def test_what_is_too_little_is_refused(budget: int, tests: int, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        make_plan(space("s"), budget, tests)


def test_a_space_that_is_too_small_is_refused() -> None:
    few = SearchSpace("few", (32,), (1,), (1, 2), (2, 4))
    with pytest.raises(InvalidValue, match="at most half of the 8"):
        make_plan(few, 8)
