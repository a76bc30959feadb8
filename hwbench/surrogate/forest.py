"""`Forest`: an XGBoost model laid out as arrays, for a handful of rows at a time.

XGBoost takes a quarter of a millisecond to be called, whatever it then does, and a query asks two
models on each device. A few rows walk down all trees at once in a fraction of that. The numbers are
XGBoost's own to the last bit: the same comparisons, and leaves added up in its order in float32.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from hwbench.errors import InvalidArtifact


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """All trees of a model as complete binary trees of one depth.

    Node i has the children 2 i + 1 and 2 i + 2; below a leaf that ends early, every descendant is a
    copy of it. Trees stand in the model's order, one a round for each output.

    Attributes:
        feature: The feature that each inner node compares, shape (trees, inner nodes).
        threshold: What it compares with: smaller goes left, float32, as `feature`.
        leaf: The values at the bottom, float32, shape (trees, inner nodes + 1).
        outputs: How many outputs the model has.
        depth: How many comparisons lead to a leaf.
    """

    feature: NDArray[np.intp]
    threshold: NDArray[np.float32]
    leaf: NDArray[np.float32]
    outputs: int
    depth: int

    @classmethod
    def of(cls, model: xgboost.Booster) -> Forest:
        """Lay a model out.

        Raises:
            InvalidArtifact: The model is not one of trees on numbers, as fits here make them.
        """
        learner = json.loads(model.save_raw("json"))["learner"]
        booster = learner["gradient_booster"]
        try:
            trees, groups = booster["model"]["trees"], booster["model"]["tree_info"]
        except KeyError:
            raise InvalidArtifact("A booster must be made of plain trees. Got another.") from None
        outputs = max(groups, default=0) + 1
        if groups != list(range(outputs)) * (len(groups) // outputs):
            raise InvalidArtifact("A booster must have a tree for each output in every round.")
        depth = max((_depth(tree, 0) for tree in trees), default=0)
        inner = 2**depth - 1
        feature = np.zeros((len(trees), inner), np.intp)
        threshold = np.full((len(trees), inner), np.inf, np.float32)
        leaf = np.zeros((len(trees), inner + 1), np.float32)
        for t, tree in enumerate(trees):
            _lay_out(tree, 0, 0, feature[t], threshold[t], leaf[t])
        return cls(feature, threshold, leaf, outputs, depth)

    def predict(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """The model's raw predictions: leaves summed up, no base score.

        Args:
            features: Shape (n, columns).

        Returns:
            float32, shape (n, outputs).
        """
        n, trees = len(features), np.arange(len(self.leaf))
        rows = np.arange(n)[:, None]
        node = np.zeros((n, len(trees)), np.intp)
        for _ in range(self.depth):
            value = features[rows, self.feature[trees, node]]
            node = 2 * node + 2 - (value < self.threshold[trees, node])
        values = self.leaf[trees, node - (2**self.depth - 1)].reshape(n, -1, self.outputs)
        # A running sum adds in the order of the rounds, which a plain sum does not promise.
        return np.cumsum(values, axis=1, dtype=np.float32)[:, -1]


def _depth(tree: dict[str, Any], node: int) -> int:
    left = tree["left_children"][node]
    if left < 0:
        return 0
    return 1 + max(_depth(tree, left), _depth(tree, tree["right_children"][node]))


def _lay_out(
    tree: dict[str, Any],
    node: int,
    place: int,
    feature: NDArray[np.intp],
    threshold: NDArray[np.float32],
    leaf: NDArray[np.float32],
) -> None:
    """Lay the tree below a node out at a place; a leaf's value is its split condition."""
    ends = tree["left_children"][node] < 0
    if place >= len(feature):
        leaf[place - len(feature)] = tree["split_conditions"][node]
        return
    if not ends:
        feature[place] = tree["split_indices"][node]
        threshold[place] = tree["split_conditions"][node]
    left = node if ends else tree["left_children"][node]
    right = node if ends else tree["right_children"][node]
    _lay_out(tree, left, 2 * place + 1, feature, threshold, leaf)
    _lay_out(tree, right, 2 * place + 2, feature, threshold, leaf)
