"""`TrainSettings`: all that a training run depends on besides its data and its starting point."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from hwbench.errors import InvalidValue, invalid, unknown

STRATEGIES = ("sandwich", "random", "standard")
"""What a step trains: the largest subnetwork, the smallest and two random ones (arXiv 1903.05134);
one random subnetwork; the largest alone. A step's gradient is that of the mean of their losses."""

PRECISIONS = ("auto", "float32", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """How to train.

    Attributes:
        strategy: One of `STRATEGIES`.
        distill: Whether the largest subnetwork's predictions are targets of the others, in equal
            parts with the text; needs the sandwich rule.
        steps: Optimiser steps.
        batch_size: Sequences a step, over all processes and accumulated parts.
        accumulation: Parts that a process computes its share of a step in.
        context: Tokens a sequence.
        learning_rate: After warm-up.
        final_share: Of the learning rate, where cosine decay ends, one step after the last.
        warmup_steps: Steps of linear warm-up; with as many as `steps` or more there is no decay.
        weight_decay: AdamW's, on matrices only.
        clip: The gradient's greatest norm.
        precision: "float32", "bfloat16" (autocast), or "auto": bfloat16 where the GPU has it.
        seed: Of the order of the data and of the random subnetworks.
        save_every: Steps between checkpoints.

    Raises:
        InvalidValue: A value is out of range.
        UnknownName: No such strategy or precision.
    """

    strategy: str = "sandwich"
    distill: bool = False
    steps: int = 1000
    batch_size: int = 16
    accumulation: int = 1
    context: int = 1024
    learning_rate: float = 3e-4
    final_share: float = 0.1
    warmup_steps: int = 100
    weight_decay: float = 0.1
    clip: float = 1.0
    precision: str = "auto"
    seed: int = 0
    save_every: int = 200

    def __post_init__(self) -> None:
        """Check every value."""
        if self.strategy not in STRATEGIES:
            raise unknown("training strategy", self.strategy, STRATEGIES)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        least = {"warmup_steps": 0, "seed": 0}
        counts = ("steps", "batch_size", "accumulation", "context", "save_every")
        for name in (*counts, *least):
            value = getattr(self, name)
            if type(value) is not int or value < least.get(name, 1):
                raise invalid(name, "TrainSettings", f"an int >= {least.get(name, 1)}", value)
        for name, most in (
            ("learning_rate", math.inf),
            ("final_share", 1.0),
            ("weight_decay", math.inf),
            ("clip", math.inf),
        ):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value <= most or math.isinf(value):
                allowed = "a number >= 0" if math.isinf(most) else f"a number from 0 to {most:g}"
                raise invalid(name, "TrainSettings", allowed, value)
        if self.distill and self.strategy != "sandwich":
            raise InvalidValue(
                "Distillation needs the largest subnetwork in every step: the strategy 'sandwich'. "
                f"Got {self.strategy!r} instead."
            )
        if self.batch_size % self.accumulation:
            raise invalid(
                "batch_size",
                "TrainSettings",
                f"a multiple of accumulation, {self.accumulation}",
                self.batch_size,
            )

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, ready for JSON."""
        return asdict(self)

    def rate(self, step: int) -> float:
        """The learning rate of a step, from 0.

        >>> settings = TrainSettings(steps=110, warmup_steps=10, learning_rate=1.0)
        >>> settings.rate(4), settings.rate(10), round(settings.rate(60), 3)
        (0.5, 1.0, 0.55)
        """
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        done = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        cosine = 0.5 * (1 + math.cos(math.pi * done))
        return self.learning_rate * (self.final_share + (1 - self.final_share) * cosine)
