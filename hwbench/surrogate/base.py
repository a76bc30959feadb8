"""The location of a metric: a table of layer costs, or a ridge over positions.

Latency, energy and memory are sums over layers: for each width, with and without biases, a constant
plus a cost for every layer's number of heads and for its MLP ratio. Perplexity and accuracy depend
on which layer has what, so their location is linear in every layer's choices.

Both are fitted robustly or with a penalty that is chosen on the training data alone, and both give
a location on the transformed scale (`hwbench.surrogate.transform`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable, SearchSpace
from hwbench.encode import Features, choice_counts
from hwbench.errors import InvalidArtifact, InvalidStore

Floats = NDArray[np.float64]

_HUBER = 1.345  # 95% efficient where errors are normal (Huber, 1964)
_ROUNDS = 50


class Base(Protocol):
    """What gives the location of a metric for a table of architectures."""

    def location(self, features: Features) -> Floats:
        """The location on the transformed scale, shape (n,)."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """What a card holds of it, ready for JSON."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LayerCost:
    """A table of layer costs, in the metric's unit.

    Attributes:
        coefficients: Shape (widths, biases, 1 + choices of heads + choices of ratio - 1): a
            constant, the cost of a layer's heads, and the cost of a layer's MLP ratio beyond that
            of the first ratio, which the costs of the heads contain.
        floor: No prediction is smaller: half the smallest value it was fitted on.
    """

    coefficients: Floats
    floor: float

    def predict(self, features: Features) -> Floats:
        """The cost in the metric's unit, shape (n,)."""
        chosen = self.coefficients[features.width, features.bias]
        cost = np.einsum("ij,ij->i", _terms(features), chosen)
        return np.asarray(np.maximum(cost, self.floor))

    def location(self, features: Features) -> Floats:
        """The logarithm of the cost, shape (n,)."""
        return np.log(self.predict(features))

    def to_dict(self) -> dict[str, Any]:
        """What a card holds of it, ready for JSON."""
        return {
            "kind": "layer-cost",
            "coefficients": self.coefficients.tolist(),
            "floor": self.floor,
        }


def _terms(features: Features) -> Floats:
    """What the coefficients multiply: all counts but one, since both kinds sum to n_layer."""
    heads = len(features.table.search_space.n_head)
    ones = np.ones((len(features), 1))
    counts = features.counts
    return np.concatenate([ones, counts[:, :heads], counts[:, heads + 1 :]], axis=1)


def fit_layer_cost(table: ArchitectureTable, values: Floats, shrink: float = 1.0) -> LayerCost:
    """Fit a table of layer costs by robust least squares on the relative error.

    Huber's weights, found by iteratively reweighted least squares; the two tables with and without
    biases are drawn towards each other by a ridge on their difference (except its constant), which
    decides where observations are few and vanishes where they are many.

    Args:
        table: The architectures, n of them; every width must occur.
        values: What was observed of each, positive, in the metric's unit, shape (n,).
        shrink: The ridge's weight, in observations.

    Returns:
        The fitted table.

    Raises:
        InvalidStore: A width of the space does not occur.
    """
    owner, features = table.search_space, Features(table)
    width, bias, terms = features.width, features.bias, _terms(features)
    found = np.zeros((len(owner.embed_dim), len(owner.bias), terms.shape[1]))
    for w, d in enumerate(owner.embed_dim):
        rows = width == w
        if not rows.any():
            raise InvalidStore(
                f"A fit needs observations at every embed_dim of space {owner.name}. "
                f"Got none at {d}."
            )
        found[w] = _fit_width(terms[rows], bias[rows], values[rows], len(owner.bias), shrink)
    return LayerCost(found, float(values.min()) / 2)


def _fit_width(
    terms: Floats, bias: NDArray[np.intp], values: Floats, biases: int, shrink: float
) -> Floats:
    """The coefficients of one width, shape (biases, terms): one shared table plus differences."""
    blocks = [terms] + [terms * (bias == b)[:, None] for b in range(1, biases)]
    design = np.concatenate(blocks, axis=1) / values[:, None]
    target = np.ones(len(values))
    k = terms.shape[1]
    # The unit of the penalty is one observation of average size, so that it has no unit of its own.
    # The constants' difference is almost free; where one table has no observations it is nothing.
    penalty = np.full(design.shape[1], shrink)
    penalty[: k * biases : k] = 1e-4
    penalty[:k] = 1e-9
    ridge = np.sqrt(penalty * np.mean((np.tile(terms, biases) / values[:, None]) ** 2, axis=0))
    weights = np.ones(len(values))
    solution = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)
        system = np.concatenate([design * root[:, None], np.diag(ridge)])
        right = np.concatenate([target * root, np.zeros(design.shape[1])])
        solution = np.linalg.lstsq(system, right, rcond=None)[0]
        error = np.abs(target - design @ solution)
        scale = 1.4826 * np.median(error) + 1e-12
        updated = np.minimum(1.0, _HUBER * scale / np.maximum(error, 1e-15))
        if np.abs(updated - weights).max() < 1e-4:
            break
        weights = updated
    shared = solution[:k]
    return np.stack([shared, *(shared + solution[k * b : k * b + k] for b in range(1, biases))])


@dataclass(frozen=True, slots=True, eq=False)
class PositionRidge:
    """A linear function of every layer's choices for each width, on the transformed scale.

    Attributes:
        intercepts: Shape (widths,).
        coefficients: Shape (widths, terms), for the terms of `position_terms`.
        penalties: The penalty that cross-validation chose for each width.
    """

    intercepts: Floats
    coefficients: Floats
    penalties: Floats

    def location(self, features: Features) -> Floats:
        """The location on the transformed scale, shape (n,)."""
        result = np.empty(len(features))
        for w in range(len(self.intercepts)):
            rows = features.width == w
            if rows.any():
                terms = position_terms(features.table.take(rows))
                # Row by row: a product by BLAS rounds otherwise when there are other rows.
                slopes = np.einsum("ij,j->i", terms, self.coefficients[w])
                result[rows] = self.intercepts[w] + slopes
        return result

    def to_dict(self) -> dict[str, Any]:
        """What a card holds of it, ready for JSON."""
        return {
            "kind": "position-ridge",
            "intercepts": self.intercepts.tolist(),
            "coefficients": self.coefficients.tolist(),
            "penalties": self.penalties.tolist(),
        }


def position_terms(table: ArchitectureTable) -> Floats:
    """Every layer's choices as indicators, with their interactions with depth and bias.

    For each choice of heads and of ratio but the first: one indicator a layer, the same for each
    depth and with biases alone, and the products of the choices' counts. The depth and bias have
    columns of their own.

    Returns:
        float64, shape (n, terms).
    """
    owner = table.search_space
    bias = table.bias.astype(np.float64)[:, None]
    depth = (table.n_layer[:, None] == np.asarray(owner.n_layer)[None, 1:]).astype(np.float64)
    layers = np.concatenate(
        [table.n_head == h for h in owner.n_head[1:]]
        + [table.mlp_ratio == r for r in owner.mlp_ratio[1:]],
        axis=1,
    ).astype(np.float64)
    counts = np.delete(choice_counts(table), [0, len(owner.n_head)], axis=1)
    upper = np.triu_indices(counts.shape[1])
    products = (counts[:, :, None] * counts[:, None, :])[:, upper[0], upper[1]]
    by_depth = [layers * column[:, None] for column in depth.T]
    return np.concatenate(
        [bias, depth, depth * bias, layers, *by_depth, layers * bias, products, counts * bias],
        axis=1,
    )


_PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_FOLDS = 5


def fit_position_ridge(table: ArchitectureTable, transformed: Floats, seed: int) -> PositionRidge:
    """Fit a `PositionRidge`, its penalty chosen by cross-validation.

    Every width has coefficients and a penalty of its own. Where one occurs less than ten times, all
    widths share theirs, and only the intercept is a width's own.

    Args:
        table: The architectures, n >= 10 of them; every width must occur.
        transformed: What was observed, on the transformed scale, shape (n,).
        seed: Deals the architectures to the folds.

    Returns:
        The fitted ridge.

    Raises:
        InvalidStore: There are less than ten, or a width of the space does not occur.
    """
    owner, width = table.search_space, Features(table).width
    groups = [width == w for w in range(len(owner.embed_dim))]
    for d, rows in zip(owner.embed_dim, groups, strict=True):
        if len(table) < 2 * _FOLDS or not rows.any():
            raise InvalidStore(
                f"A fit needs {2 * _FOLDS} observations, and some at every embed_dim of space "
                f"{owner.name}. Got {len(table)}, and {rows.sum()} at {d}."
            )
    rng, terms = np.random.default_rng(seed), position_terms(table)
    if min(rows.sum() for rows in groups) < 2 * _FOLDS:
        levels = np.array([transformed[rows].mean() for rows in groups])
        means = np.stack([terms[rows].mean(axis=0) for rows in groups])
        _, slopes, best = _fit_ridge(terms - means[width], transformed - levels[width], rng)
        n = len(groups)
        return PositionRidge(levels - means @ slopes, np.tile(slopes, (n, 1)), np.full(n, best))
    fitted = [_fit_ridge(terms[rows], transformed[rows], rng) for rows in groups]
    columns = [np.asarray(column) for column in zip(*fitted, strict=True)]
    return PositionRidge(columns[0], columns[1], columns[2])


def _fit_ridge(
    terms: Floats, target: Floats, rng: np.random.Generator
) -> tuple[float, Floats, float]:
    """Intercept, slopes, and the penalty whose cross-validated error is the least."""
    fold = rng.permutation(len(target)) % _FOLDS
    errors = np.zeros(len(_PENALTIES))
    for f in range(_FOLDS):
        intercept, slopes = _ridge(terms[fold != f], target[fold != f], _PENALTIES)
        miss = target[fold == f][:, None] - intercept - terms[fold == f] @ slopes
        errors += np.abs(miss).sum(axis=0)
    best = _PENALTIES[int(errors.argmin())]
    intercept, slopes = _ridge(terms, target, (best,))
    return float(intercept[0]), slopes[:, 0], best


def _ridge(terms: Floats, target: Floats, penalties: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Intercepts (k,) and slopes (terms, k) for k penalties on standardised terms."""
    mean, spread = terms.mean(axis=0), terms.std(axis=0)
    used = spread > 0
    scaled = (terms[:, used] - mean[used]) / spread[used]
    gram = scaled.T @ scaled
    values, vectors = np.linalg.eigh(gram)
    projected = vectors.T @ (scaled.T @ (target - target.mean()))
    slopes = np.zeros((terms.shape[1], len(penalties)))
    for i, penalty in enumerate(penalties):
        solved = vectors @ (projected / (np.maximum(values, 0) + penalty))
        slopes[used, i] = solved / spread[used]
    return target.mean() - mean @ slopes, slopes


def base_from_dict(values: Mapping[str, Any], owner: SearchSpace) -> Base:
    """The base that `to_dict` wrote.

    Raises:
        InvalidArtifact: The values are none of a known base, or not of the space's shape.
    """
    kind = values.get("kind")
    shape = (len(owner.embed_dim), len(owner.bias))
    try:
        coefficients = np.asarray(values["coefficients"], np.float64)
        if kind == "layer-cost":
            fitting = coefficients.shape == (*shape, len(owner.n_head) + len(owner.mlp_ratio))
            made: Base = LayerCost(coefficients, float(values["floor"]))
        elif kind == "position-ridge":
            fitting = coefficients.ndim == 2 and len(coefficients) == shape[0]
            columns = (np.asarray(values[k], np.float64) for k in ("intercepts", "penalties"))
            intercepts, penalties = columns
            made = PositionRidge(intercepts, coefficients, penalties)
        else:
            raise InvalidArtifact(f"A card's base must be of a known kind. Got {kind!r} instead.")
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArtifact(f"A card's base of kind {kind!r} is incomplete: {error}.") from None
    if not fitting:
        raise InvalidArtifact(
            f"A card's base must have coefficients for space {owner.name}. "
            f"Got shape {coefficients.shape} instead."
        )
    return made
