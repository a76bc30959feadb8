"""Layer costs are found again, outliers or not; positions are found where they matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from hwbench import space
from hwbench.architectures import ArchitectureTable
from hwbench.encode import Features
from hwbench.errors import InvalidArtifact, InvalidStore
from hwbench.surrogate import base
from hwbench.surrogate.base import (
    LayerCost,
    PositionRidge,
    base_from_dict,
    fit_layer_cost,
    fit_position_ridge,
    position_terms,
)
from tests.surrogate.synthetic import TINY, draw, layer_costs, space_s

Floats = NDArray[np.float64]

TRUTH = layer_costs(space("s"), 0)


def relative_error(fitted: LayerCost, truth: LayerCost, table: ArchitectureTable) -> float:
    """The largest relative error over architectures."""
    right = truth.predict(Features(table))
    return float(np.abs(fitted.predict(Features(table)) / right - 1).max())


def test_the_cost_is_a_sum_over_layers() -> None:
    drawn = space("s").sample(20, 0)
    found = TRUTH.predict(Features(ArchitectureTable.of(drawn)))
    heads, ratios = (4, 8, 12), (2, 3, 4)
    for architecture, cost in zip(drawn, found, strict=True):
        width = (192, 384, 768).index(architecture.embed_dim)
        own = TRUTH.coefficients[width, (True, False).index(architecture.bias)]
        expected = own[0]
        for h, r in zip(architecture.n_head, architecture.mlp_ratio, strict=True):
            expected += own[1 + heads.index(h)]
            expected += 0 if r == 2 else own[3 + ratios.index(r)]
        assert cost == pytest.approx(expected, rel=1e-12)


def test_finds_the_coefficients_of_exact_observations() -> None:
    table = space_s(600)
    found = fit_layer_cost(table, TRUTH.predict(Features(table)), shrink=0.0)
    assert found.coefficients == pytest.approx(TRUTH.coefficients, rel=1e-4)


def test_outliers_do_not_move_it() -> None:
    """One observation in eight took twice as long: least squares is off by more than a tenth."""
    table, rng = space_s(1200), np.random.default_rng(1)
    values = TRUTH.predict(Features(table)) * np.exp(0.002 * rng.standard_normal(len(table)))
    values[rng.random(len(table)) < 0.125] *= 2.0
    fresh = space_s(300, seed=9)
    assert relative_error(fit_layer_cost(table, values), TRUTH, fresh) < 0.01
    mean_ratio = np.mean(values / TRUTH.predict(Features(table)))
    assert mean_ratio > 1.1


def test_the_error_falls_with_the_noise_and_the_observations() -> None:
    fresh, errors = space_s(300, seed=9), []
    for n in (100, 1000, 10_000):
        table, rng = space_s(n, seed=2), np.random.default_rng(3)
        values = TRUTH.predict(Features(table)) * np.exp(0.02 * rng.standard_normal(n))
        errors.append(relative_error(fit_layer_cost(table, values), TRUTH, fresh))
    assert errors[0] > 2 * errors[1] > 3 * errors[2]


def difference(fitted: LayerCost) -> float:
    """How far the tables with and without biases are apart, constants left out."""
    return float(np.abs(np.diff(fitted.coefficients[:, :, 1:], axis=1)).max())


def test_the_shrink_draws_the_tables_with_and_without_biases_together() -> None:
    table, rng = space_s(80), np.random.default_rng(4)
    values = TRUTH.predict(Features(table)) * np.exp(0.02 * rng.standard_normal(len(table)))
    apart = [difference(fit_layer_cost(table, values, shrink=s)) for s in (0.0, 1.0, 100.0, 1e6)]
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < 1e-3 * apart[0]


def test_the_shrink_vanishes_where_observations_are_many() -> None:
    table = space_s(10_000)
    found = fit_layer_cost(table, TRUTH.predict(Features(table)))
    assert relative_error(found, TRUTH, space_s(300, seed=9)) < 1e-3


@pytest.mark.parametrize("there", [True, False])
def test_a_table_without_observations_is_the_other_one(there: bool) -> None:
    """Where biases were never on (or off) half of the constant used to be missing."""
    table = space_s(900)
    seen = table.take(table.bias == there)
    found = fit_layer_cost(seen, TRUTH.predict(Features(seen)))
    assert found.coefficients[:, 0] == pytest.approx(found.coefficients[:, 1], rel=1e-3)


def test_every_width_must_be_observed() -> None:
    table = space_s(100)
    some = table.take(table.embed_dim != 384)
    with pytest.raises(InvalidStore, match=r"every embed_dim of space s\. Got none at 384"):
        fit_layer_cost(some, np.ones(len(some)))


def test_a_cost_is_never_below_its_floor() -> None:
    table = space_s(50)
    values = TRUTH.predict(Features(table))
    assert fit_layer_cost(table, values).floor == values.min() / 2
    negative = LayerCost(-TRUTH.coefficients, 0.25)
    assert (negative.predict(Features(table)) == 0.25).all()
    assert (negative.location(Features(table)) == np.log(0.25)).all()


def test_the_unit_does_not_matter() -> None:
    """Milliseconds or seconds: the same relative fit."""
    table, rng = space_s(60), np.random.default_rng(5)
    values = TRUTH.predict(Features(table)) * np.exp(0.05 * rng.standard_normal(len(table)))
    milli, whole = fit_layer_cost(table, values), fit_layer_cost(table, values / 1000)
    assert whole.coefficients * 1000 == pytest.approx(milli.coefficients, rel=1e-6)


# Positions


def quality(table: ArchitectureTable) -> Floats:
    """A line that depends on which layer has what, and on pairs with depth and biases."""
    layer = np.arange(table.n_head.shape[1])
    heads, ratios = (table.n_head == 12) * np.exp(-layer / 3), (table.mlp_ratio == 4) * layer / 50
    line = 0.05 * heads.sum(axis=1) + 0.05 * ratios.sum(axis=1) + 0.1 * table.bias
    return np.asarray(3.0 - line - 0.02 * table.n_layer - table.embed_dim / 2000)


def test_position_terms_are_what_they_say() -> None:
    drawn = space("s").sample(8, 1)
    found = position_terms(ArchitectureTable.of(drawn))
    for a, row in zip(drawn, found, strict=True):
        deep = [float(a.n_layer == n) for n in (11, 12)]
        padded = [0] * (12 - a.n_layer)
        heads, ratios = [*a.n_head, *padded], [*a.mlp_ratio, *padded]
        layers = [float(h == c) for c in (8, 12) for h in heads]
        layers += [float(r == c) for c in (3, 4) for r in ratios]
        counts = [a.n_head.count(c) for c in (8, 12)] + [a.mlp_ratio.count(c) for c in (3, 4)]
        expected = [float(a.bias), *deep, *(d * a.bias for d in deep), *layers]
        expected += [d * x for d in deep for x in layers] + [x * a.bias for x in layers]
        expected += [counts[i] * counts[j] for i in range(4) for j in range(i, 4)]
        expected += [c * a.bias for c in counts]
        assert row.tolist() == expected


def test_finds_what_depends_on_the_position() -> None:
    table, fresh, rng = space_s(2400), space_s(400, seed=9), np.random.default_rng(6)
    line = quality(table) + 0.002 * rng.standard_normal(len(table))
    found = fit_position_ridge(table, line, seed=0).location(Features(fresh))
    assert np.std(found - quality(fresh)) < 0.002
    # A table of layer costs cannot tell one order of the same layers from another.
    costs = fit_layer_cost(table, np.exp(line)).location(Features(fresh))
    assert np.std(costs - quality(fresh)) > 0.01


def test_noise_asks_for_the_largest_penalty_and_a_clear_signal_for_a_small_one() -> None:
    table, rng = space_s(900), np.random.default_rng(7)
    noise = fit_position_ridge(table, rng.standard_normal(len(table)), seed=0)
    assert (noise.penalties == 300.0).all()
    clear = fit_position_ridge(table, quality(table), seed=0)
    assert (clear.penalties <= 1.0).all()


def test_where_a_width_is_scarce_all_share_their_slopes() -> None:
    """45 subnetworks, 9 of one width, could not be fitted at all."""
    table, fresh = space_s(45, seed=3), space_s(300, seed=4)
    scarce = Features(table).width == 2
    kept = np.flatnonzero(~scarce | (np.cumsum(scarce) <= 6))
    found = fit_position_ridge(table.take(kept), quality(table.take(kept)), seed=0)
    assert (found.coefficients == found.coefficients[0]).all()
    assert len(set(found.intercepts)) == 3
    missed = quality(fresh) - found.location(Features(fresh))
    assert np.std(missed) < 0.5 * np.std(quality(fresh))
    single = np.flatnonzero(~scarce | (np.cumsum(scarce) <= 1))
    fit_position_ridge(table.take(single), quality(table.take(single)), seed=0)


@pytest.mark.parametrize("kept", ["few", "no 768"])
def test_a_ridge_needs_ten_and_every_width(kept: str) -> None:
    table = space_s(60)
    rows = np.arange(9) if kept == "few" else np.flatnonzero(Features(table).width != 2)
    with pytest.raises(InvalidStore, match="A fit needs 10 observations, and some at every emb"):
        fit_position_ridge(table.take(rows), quality(table.take(rows)), seed=0)


def test_the_ridge_is_scikit_learns() -> None:
    rng = np.random.default_rng(8)
    terms, target = rng.random((60, 9)), rng.random(60)
    terms[:, 4] = 1.0  # a term that never varies has no slope
    intercepts, slopes = base._ridge(terms, target, (0.5, 20.0))
    spread = np.where(terms.std(axis=0) > 0, terms.std(axis=0), 1.0)
    for i, penalty in enumerate((0.5, 20.0)):
        oracle = Ridge(alpha=penalty).fit((terms - terms.mean(axis=0)) / spread, target)
        assert slopes[:, i] * spread == pytest.approx(oracle.coef_, abs=1e-12)
        expected = oracle.intercept_ - (terms.mean(axis=0) / spread) @ oracle.coef_
        assert intercepts[i] == pytest.approx(expected)


def test_a_location_does_not_depend_on_the_other_rows() -> None:
    """A product of matrices used to add up in another order for another number of rows."""
    table = space_s(300)
    fitted = fit_position_ridge(table, quality(table), seed=0)
    whole = fitted.location(Features(table))
    for rows in ([0], [7, 3], list(range(100, 250))):
        assert (fitted.location(Features(table.take(np.array(rows)))) == whole[rows]).all()


def test_the_seed_deals_the_folds() -> None:
    table, rng = space_s(120), np.random.default_rng(9)
    line = quality(table) + 0.05 * rng.standard_normal(len(table))
    once, again = (fit_position_ridge(table, line, seed=3).to_dict() for _ in range(2))
    assert once == again


# Cards


def test_round_trips() -> None:
    table = draw(TINY, 100, 0)
    costs = layer_costs(TINY, 1)
    again = base_from_dict(costs.to_dict(), TINY)
    assert again.to_dict() == costs.to_dict()
    assert (again.location(Features(table)) == costs.location(Features(table))).all()
    ridge = fit_position_ridge(table, np.log(costs.predict(Features(table))), seed=0)
    back = base_from_dict(ridge.to_dict(), TINY)
    assert isinstance(back, PositionRidge)
    assert (back.location(Features(table)) == ridge.location(Features(table))).all()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"kind": "magic"}, "known kind. Got 'magic'"),
        ({"coefficients": [[1.0]]}, "coefficients for space tiny"),
        ({"coefficients": "x"}, "incomplete"),
        ({"floor": None}, "incomplete"),
    ],
)
def test_what_is_no_base_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArtifact, match=message):
        base_from_dict({**layer_costs(TINY, 0).to_dict(), **changes}, TINY)
