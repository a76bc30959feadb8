"""Transforms of a metric to the scale on which surrogates are fitted, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hwbench.errors import unknown

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Transform:
    """A strictly increasing map from a metric's range to the whole line.

    Attributes:
        name: What a card calls it.
        forward: From the metric's unit to the line.
        inverse: Back; minus and plus infinity give the ends of the metric's range.
        slope: The derivative of `inverse`, as a function of the metric's value.
        allowed: The metric's range in words, for an error.
        inside: Whether values lie in the metric's range.
    """

    name: str
    forward: Callable[[Floats], Floats]
    inverse: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]
    allowed: str
    inside: Callable[[Floats], NDArray[np.bool_]]

    def __reduce__(self) -> tuple[Callable[[str], Transform], tuple[str]]:
        """Travels between processes by its name: its functions cannot."""
        return transform, (self.name,)


def _logit(values: Floats) -> Floats:
    return np.log(values) - np.log1p(-values)


def _expit(line: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-line)))


_ALL = (
    Transform(
        "log",
        np.log,
        np.exp,
        lambda value: value,
        "finite and positive",
        lambda value: np.isfinite(value) & (value > 0),
    ),
    Transform(
        "logit",
        _logit,
        _expit,
        lambda value: value * (1 - value),
        "between 0 and 1, both excluded",
        lambda value: (value > 0) & (value < 1),
    ),
)

TRANSFORMS: Mapping[str, Transform] = MappingProxyType({t.name: t for t in _ALL})
"""All transforms by name: the logarithm, and the logit for a fraction."""


def transform(name: str) -> Transform:
    """The transform of that name.

    Raises:
        UnknownName: No transform bears the name.

    >>> float(transform("logit").inverse(np.array(0.0)))
    0.5
    """
    found = TRANSFORMS.get(name)
    if found is None:
        raise unknown("transform", name, TRANSFORMS)
    return found
