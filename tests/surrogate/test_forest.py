"""`Forest` gives XGBoost's numbers to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xgboost
from numpy.typing import NDArray

from hwbench.errors import InvalidArtifact
from hwbench.surrogate.forest import Forest


def made(
    seed: int, rounds: int = 12, levels: tuple[float, ...] = (), **parameters: Any
) -> tuple[xgboost.Booster, NDArray[np.float32]]:
    """A model of random data, and rows to predict, thresholds of its own among them."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 9, (400, 6)).astype(np.float32)
    target = np.sin(rows[:, 0]) + rows[:, 1] * rows[:, 2] / 9 + rng.standard_normal(400)
    loss: dict[str, Any] = {"objective": "reg:absoluteerror"}
    if levels:
        loss = {"objective": "reg:quantileerror", "quantile_alpha": np.array(levels)}
    fixed = {"base_score": 0.0, "nthread": 1, "tree_method": "hist", "seed": seed}
    model = xgboost.train({**fixed, **loss, **parameters}, xgboost.DMatrix(rows, target), rounds)
    return model, rng.integers(-1, 11, (300, 6)).astype(np.float32)


def agree(model: xgboost.Booster, rows: NDArray[np.float32]) -> Forest:
    forest = Forest.of(model)
    oracle = model.predict(xgboost.DMatrix(rows), output_margin=True).reshape(len(rows), -1)
    found = forest.predict(rows)
    assert found.dtype == oracle.dtype == np.float32
    assert found.tobytes() == oracle.tobytes()
    for row in (0, 17):
        assert forest.predict(rows[row : row + 1]).tobytes() == oracle[row].tobytes()
    return forest


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("levels", [(), (0.1, 0.5, 0.9), (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)])
def test_agrees_to_the_last_bit(seed: int, levels: tuple[float, ...]) -> None:
    forest = agree(*made(seed, levels=levels, max_depth=4, colsample_bynode=0.5))
    assert forest.outputs == max(1, len(levels))


@pytest.mark.parametrize("levels", [(), (0.1, 0.9)])
def test_trees_of_unequal_depth(levels: tuple[float, ...]) -> None:
    model, rows = made(
        6, levels=levels, grow_policy="lossguide", max_leaves=9, max_depth=0, min_child_weight=3
    )
    forest = agree(model, rows)
    assert forest.depth > 3


@pytest.mark.parametrize("levels", [(), (0.1, 0.9)])
def test_trees_that_are_a_leaf(levels: tuple[float, ...]) -> None:
    forest = agree(*made(7, levels=levels, min_child_weight=1e6))
    assert forest.depth == 0


def test_leaves_beside_deep_branches() -> None:
    """Some trees have a split, some have none."""
    agree(*made(8, rounds=60, max_depth=3, gamma=1.0, learning_rate=0.5))


def test_other_models_are_refused() -> None:
    for parameters in (
        {"booster": "gblinear", "tree_method": None, "updater": "coord_descent"},
        {"booster": "dart"},
    ):
        rng = np.random.default_rng(0)
        data = xgboost.DMatrix(rng.random((50, 2)), rng.random(50))
        given = {k: v for k, v in parameters.items() if v is not None}
        model = xgboost.train({**given, "nthread": 1}, data, 2)
        with pytest.raises(InvalidArtifact, match="plain trees"):
            Forest.of(model)


def test_several_trees_a_round_are_refused() -> None:
    model, _ = made(9, levels=(0.1, 0.9), num_parallel_tree=2, subsample=0.5)
    with pytest.raises(InvalidArtifact, match="a tree for each output in every round"):
        Forest.of(model)
