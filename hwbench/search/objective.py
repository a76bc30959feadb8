"""`Objective` and `Constraint`: what a search looks for, and what it may not exceed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hwbench.devices import canonical
from hwbench.errors import InvalidValue, brief, invalid
from hwbench.metrics import Metric
from hwbench.metrics import metric as metric_of

_BOUND = re.compile(r"(.+?)\s*(<=|>=)\s*(\S+)")


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric on a device, at a quantile.

    Attributes:
        metric: The metric's name; an alias is resolved.
        device: The device; None for a metric that belongs to none.
        quantile: The level of the quantile that counts; 0.5 is the median.

    Raises:
        UnknownName: No such metric.
        InvalidValue: A device is given or missing wrongly, or `quantile` is not in (0, 1).

    >>> Objective.parse("latency@h100:0.95")
    Objective(metric='latency', device='h100', quantile=0.95)
    >>> str(Objective("perplexity"))
    'perplexity'
    """

    metric: str
    device: str | None = None
    quantile: float = 0.5

    def __post_init__(self) -> None:
        """Resolve the names."""
        asked = metric_of(self.metric)
        put = object.__setattr__
        put(self, "metric", asked.name)
        if asked.needs_device and self.device is None:
            raise InvalidValue(
                f"The objective {asked.name} needs a device, such as {asked.name}@h100. Got none."
            )
        if not asked.needs_device and self.device is not None:
            raise InvalidValue(
                f"The objective {asked.name} belongs to no device. Got {brief(self.device)}."
            )
        if self.device is not None:
            put(self, "device", canonical(self.device))
        level: object = self.quantile
        if not isinstance(level, float) or not 0 < level < 1:
            raise invalid("quantile", "Objective", "in (0, 1)", level)

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Read `metric`, `metric@device` or `metric@device:quantile`.

        Raises:
            InvalidValue: The text is of another form, or as the constructor says.
            UnknownName: No such metric.
        """
        given: object = text
        if not isinstance(given, str) or not given.strip():
            raise invalid(
                "text", "Objective.parse", "metric, metric@device or with :quantile", text
            )
        rest, colon, level = given.strip().partition(":")
        name, at, device = rest.partition("@")
        try:
            quantile = float(level) if colon else 0.5
        except ValueError:
            raise invalid("quantile", "Objective", "in (0, 1)", level) from None
        return cls(name.strip(), device.strip() if at else None, quantile)

    @property
    def of(self) -> Metric:
        """The metric."""
        return metric_of(self.metric)

    @property
    def sign(self) -> float:
        """1 where less is better, otherwise -1: values times it are costs."""
        return 1.0 if self.of.better == "lower" else -1.0

    @property
    def label(self) -> str:
        """The text form with the unit, for axes."""
        unit = self.of.unit
        return f"{self} [{unit}]" if unit else str(self)

    def __str__(self) -> str:
        """The text form that `parse` reads."""
        at = "" if self.device is None else f"@{self.device}"
        level = "" if self.quantile == 0.5 else f":{float(self.quantile)!r}"
        return f"{self.metric}{at}{level}"


@dataclass(frozen=True, slots=True)
class Constraint:
    """An objective's value that may not be exceeded, or not be fallen short of.

    Attributes:
        objective: What is bounded.
        bound: The bound, in the metric's unit.
        at_most: Whether the value must be at most the bound, rather than at least.

    >>> str(Constraint.parse("latency@h100:0.95 <= 20"))
    'latency@h100:0.95<=20'
    """

    objective: Objective
    bound: float
    at_most: bool = True

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Read `objective<=number` or `objective>=number`.

        Raises:
            InvalidValue: The text is of another form, or the number is not finite.
            UnknownName: No such metric.
        """
        given: object = text
        match = _BOUND.fullmatch(given.strip()) if isinstance(given, str) else None
        allowed = "an objective, <= or >=, and a finite number"
        if match is None:
            raise invalid("text", "Constraint.parse", allowed, text)
        try:
            bound = float(match[3])
        except ValueError:
            raise invalid("text", "Constraint.parse", allowed, text) from None
        if not abs(bound) < float("inf"):
            raise invalid("text", "Constraint.parse", allowed, text)
        return cls(Objective.parse(match[1]), bound, match[2] == "<=")

    def __str__(self) -> str:
        """The text form that `parse` reads."""
        return (
            f"{self.objective}{'<=' if self.at_most else '>='}{float(self.bound)!r}".removesuffix(
                ".0"
            )
        )


def parse_objectives(given: Sequence[str | Objective]) -> tuple[Objective, ...]:
    """Objectives from texts, at least two and all different.

    Raises:
        InvalidValue: They are no sequence, fewer than two, or one is named twice.
        UnknownName: No such metric.
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        allowed = "a sequence such as ['perplexity', 'latency@h100']"
        raise invalid("objectives", "Task.of", allowed, given)
    found = tuple(o if isinstance(o, Objective) else Objective.parse(o) for o in given)
    if len(found) < 2:
        listed = ", ".join(map(str, found)) or "none"
        raise InvalidValue(
            f"A search needs two objectives or more, such as perplexity,latency@h100. Got {listed}."
        )
    for i, one in enumerate(found):
        if one in found[:i]:
            raise InvalidValue(f"The objectives must be different. Got {one} twice.")
    return found
