"""What can be trained: a supernet, or one dense model, and what a step trains of either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from hwbench.architectures import Architecture, SearchSpace
from hwbench.model import Model
from hwbench.supernet.settings import TrainSettings
from hwbench.supernet.supernet import Supernet

LARGEST = "largest"
"""The role of the largest subnetwork, which teaches the others where a run distils."""

Drawn = list[tuple[str, Architecture]]
"""Subnetworks of one step with their roles."""


class Trainable(Protocol):
    """What can be trained: a supernet, or one dense model under the same interface."""

    @property
    def model(self) -> Model:
        """The weights."""

    def draw(self, settings: TrainSettings, step: int) -> Drawn:
        """The subnetworks of a step."""

    def logits_of(self, arch: Architecture, tokens: Tensor) -> Tensor:
        """Logits, (B, T, vocabulary), with gradients to the weights."""

    def card(self) -> dict[str, Any]:
        """All but the weights, ready for JSON."""

    def texts(self) -> dict[str, str]:
        """The texts that are kept beside the weights, by part."""

    def trained(self, run: Mapping[str, Any]) -> Trainable:
        """The same with one more run in its history."""


@dataclass(frozen=True, slots=True)
class Subnetworks:
    """A supernet in training.

    Attributes:
        supernet: The supernet, whose weights are changed in place.
    """

    supernet: Supernet

    @property
    def model(self) -> Model:
        """The parent."""
        return self.supernet.model

    def draw(self, settings: TrainSettings, step: int) -> Drawn:
        """The subnetworks of a step, by the strategy."""
        return draw(self.supernet.space, settings, step)

    def logits_of(self, arch: Architecture, tokens: Tensor) -> Tensor:
        """A slice's logits."""
        found: Tensor = self.supernet(arch, tokens)
        return found

    def card(self) -> dict[str, Any]:
        """The supernet's card."""
        return self.supernet.card()

    def texts(self) -> dict[str, str]:
        """The tokeniser."""
        return self.supernet.texts()

    def trained(self, run: Mapping[str, Any]) -> Subnetworks:
        """The same with one more run in its history."""
        self.supernet.history = (*self.supernet.history, run)
        return self


@dataclass(frozen=True, slots=True)
class Alone:
    """One dense model in training, such as a subnetwork that was extracted.

    Attributes:
        model: The model, whose weights are changed in place.
        arch: Its architecture.
        history: What it was trained with since it was made, one mapping a run.
    """

    model: Model
    arch: Architecture
    history: tuple[Mapping[str, Any], ...] = ()

    def draw(self, settings: TrainSettings, step: int) -> Drawn:
        """The model itself."""
        return [("alone", self.arch)]

    def logits_of(self, arch: Architecture, tokens: Tensor) -> Tensor:
        """The model's logits."""
        found: Tensor = self.model(tokens)
        return found

    def card(self) -> dict[str, Any]:
        """The model's sizes."""
        return {
            "kind": "dense",
            "model": self.model.config.to_dict(),
            "history": [dict(h) for h in self.history],
        }

    def texts(self) -> dict[str, str]:
        """None."""
        return {}

    def trained(self, run: Mapping[str, Any]) -> Alone:
        """The same with one more run in its history."""
        return Alone(self.model, self.arch, (*self.history, run))


def draw(space: SearchSpace, settings: TrainSettings, step: int) -> Drawn:
    """The subnetworks that a step trains, each with its role.

    Args:
        space: The architectures.
        settings: The strategy and the seed.
        step: The step, from 0.
    """
    if settings.strategy == "standard":
        return [(LARGEST, space.largest)]
    rng = np.random.default_rng([settings.seed, step, 1])
    if settings.strategy == "random":
        return [("random", space.sample(1, rng)[0])]
    drawn = [("random", a) for a in space.sample(2, rng)]
    return [(LARGEST, space.largest), ("smallest", space.smallest), *drawn]
