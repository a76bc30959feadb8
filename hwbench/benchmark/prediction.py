"""`Prediction`: one metric of one architecture on one device, as a distribution."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwbench.architectures import generator
from hwbench.errors import Unsupported, invalid, unknown
from hwbench.metrics import Metric
from hwbench.surrogate import Distribution
from hwbench.workload import Workload

Floats = NDArray[np.float64]
Source = Literal["surrogate", "analytic", "measured"]

_MOST_DRAWN = 10**8  # measurements in one call, most of a gigabyte

# Moments are averages over quantiles: every share between two of these levels is cut in four, so
# that the tails, where a few measurements lie far out, are looked at as closely as they need.
_TAIL = np.array([1e-5, 1e-4, 2.5e-4, 5e-4, 0.001, 0.0015, 0.002, 0.0025, 0.005, 0.01, 0.02, 0.03])
_HALF = np.concatenate([[0.0], _TAIL, np.arange(0.05, 0.5, 0.025)])
_EDGES = np.concatenate([_HALF, [0.5], 1 - _HALF[::-1]])
MOMENT_SHARES: Floats = np.repeat(np.diff(_EDGES) / 4, 4)
MOMENT_LEVELS: Floats = np.cumsum(MOMENT_SHARES) - MOMENT_SHARES / 2


def moments_of(quantiles: Floats) -> Floats:
    """Mean and standard deviation of distributions given by their quantiles at `MOMENT_LEVELS`.

    Args:
        quantiles: Shape (n, levels).

    Returns:
        Shape (n, 2).
    """
    mean = (quantiles * MOMENT_SHARES).sum(axis=1)
    variance = ((quantiles - mean[:, None]) ** 2 * MOMENT_SHARES).sum(axis=1)
    return np.stack([mean, np.sqrt(variance)], axis=1)


@dataclass(frozen=True, slots=True)
class Components(Mapping[str, float | None]):
    """What a prediction is unsure about, as standard deviations in the metric's unit.

    Each is an attribute, and a key.

    Attributes:
        repeat: Repeats of one architecture on the same machine; None where the source holds a
            single value, or a mean, for each architecture.
        drift: The machine over a session; None where it cannot be told.
        model: The model's own error on an architecture; None where there is no model.
    """

    repeat: float | None
    drift: float | None
    model: float | None

    def __getitem__(self, key: str) -> float | None:
        """The standard deviation of a part."""
        if key not in tuple(self):
            raise unknown("component", key, self)
        found: float | None = getattr(self, key)
        return found

    def __iter__(self) -> Iterator[str]:
        """The names of the parts."""
        return (field.name for field in fields(self))

    def __len__(self) -> int:
        """How many parts there are."""
        return len(fields(self))


class _Source(ABC):
    """Where a prediction's numbers come from."""

    kind: Source

    @abstractmethod
    def quantiles(self, levels: Floats) -> Floats:
        """Quantiles in the metric's unit, as of `levels`, shape (m,)."""

    @abstractmethod
    def support(self) -> tuple[float, float]:
        """The outermost levels with a finite quantile."""

    def calibrated(self) -> int | None:
        """How many architectures decide the support; None where every level has a quantile."""
        return None

    @abstractmethod
    def components(self) -> Components:
        """The standard deviations of the parts."""

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation, over the levels that have a finite quantile."""
        levels = np.clip(MOMENT_LEVELS, *self.support())
        mean, std = moments_of(self.quantiles(levels)[None, :])[0].tolist()
        return mean, std


class FromSurrogate(_Source):
    """One row of a surrogate's distributions."""

    kind: Source = "surrogate"

    def __init__(self, distribution: Distribution) -> None:
        """Take the distribution of one architecture."""
        self._distribution = distribution

    def quantiles(self, levels: Floats) -> Floats:
        """Quantiles in the metric's unit."""
        found: Floats = self._distribution.quantiles(levels)[0]
        return found

    def support(self) -> tuple[float, float]:
        """The outermost levels that the calibration architectures support."""
        return self._distribution.support(0)

    def calibrated(self) -> int:
        """The calibration architectures of this one's group."""
        return self._distribution.calibrated(0)

    def components(self) -> Components:
        """As the calibration architectures showed them, scaled to this median."""
        return Components(**self._distribution.components(0))


class FromForm(_Source):
    """A closed form's exact value."""

    kind: Source = "analytic"

    def __init__(self, value: int) -> None:
        """Take the value."""
        self._value = value

    def quantiles(self, levels: Floats) -> Floats:
        """The value, at every level."""
        return np.full(len(levels), float(self._value))

    def support(self) -> tuple[float, float]:
        """Every level has the value."""
        return 0.0, 1.0

    def components(self) -> Components:
        """Nothing is unsure."""
        return Components(0.0, 0.0, 0.0)

    def moments(self) -> tuple[float, float]:
        """The value, and no deviation."""
        return float(self._value), 0.0


class FromRecord(_Source):
    """The kept repeats that a store holds of the architecture itself."""

    kind: Source = "measured"

    def __init__(self, repeats: Floats) -> None:
        """Take the repeats, warm-up left out, at least one."""
        self._repeats = repeats

    def quantiles(self, levels: Floats) -> Floats:
        """Quantiles of the repeats, linear between them."""
        return np.asarray(np.quantile(self._repeats, levels))

    def support(self) -> tuple[float, float]:
        """Every level has a value among the repeats."""
        return 0.0, 1.0

    def components(self) -> Components:
        """The repeats' own deviation; what a session or a model adds is not in them."""
        return Components(self.moments()[1] if len(self._repeats) > 1 else None, None, None)

    def moments(self) -> tuple[float, float]:
        """The repeats' own; a single one deviates by 0."""
        several = len(self._repeats) > 1
        return float(self._repeats.mean()), float(self._repeats.std(ddof=1)) if several else 0.0


class Prediction:
    """One metric of one architecture on one device: a distribution with its origin.

    A prediction is of a single measurement. Where nothing can answer, `supported` is False,
    `reason` says why, and reading a value raises.

    Attributes:
        metric: The `Metric`.
        device: The device, or None for a metric that belongs to none.
        unit: The unit of every value.
        workload: What was run and how it was read; None for perplexity, accuracy and closed forms.
        artifact: The id of the artefact (SHA-256 of its card); None where no surrogate answers.
        evidence: "full", or "low" where the surrogate was fitted on few architectures; None where
            no surrogate answers.
        supported: Whether there is an answer.
        reason: Why not, or None.
    """

    def __init__(
        self,
        metric: Metric,
        device: str | None,
        source: _Source | None,
        *,
        workload: Workload | None = None,
        artifact: str | None = None,
        evidence: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Made by `Benchmark.query`."""
        self.metric = metric
        self.device = device
        self.unit = metric.unit
        self.workload = workload
        self.artifact = artifact
        self.evidence = evidence
        self.supported = source is not None
        self.reason = reason
        self._source = source

    @property
    def _answering(self) -> _Source:
        if self._source is None:
            raise Unsupported(self.reason or f"{self.metric.name} has no answer.")
        return self._source

    @property
    def source(self) -> Source | None:
        """Which kind answers, "surrogate", "analytic" or "measured"; None where none does."""
        return None if self._source is None else self._source.kind

    @cached_property
    def median(self) -> float:
        """The median.

        Raises:
            Unsupported: There is no answer.
        """
        return float(self._answering.quantiles(np.array([0.5]))[0])

    @cached_property
    def _moments(self) -> tuple[float, float]:
        return self._answering.moments()

    @property
    def mean(self) -> float:
        """The mean, over the levels that have a finite quantile; of the repeats where measured.

        Raises:
            Unsupported: There is no answer.
        """
        return self._moments[0]

    @property
    def std(self) -> float:
        """The standard deviation, likewise.

        Raises:
            Unsupported: There is no answer.
        """
        return self._moments[1]

    def quantile(self, q: float) -> float:
        """The quantile at a level.

        Args:
            q: The level, in (0, 1).

        Returns:
            In the metric's unit; infinity, or the least possible value, where too few architectures
            calibrated the surrogate to know.

        Raises:
            InvalidValue: `q` is not in (0, 1).
            Unsupported: There is no answer.
        """
        level = checked_level(q, "quantile", "q")
        return float(self._answering.quantiles(np.array([level]))[0])

    def interval(self, level: float) -> tuple[float, float]:
        """The central interval that holds a single measurement with a given probability.

        Args:
            level: The probability, in (0, 1).

        Returns:
            Its ends in the metric's unit, under the same rule as `quantile`: where too few
            architectures calibrated the surrogate they are no bounds, and a warning says so.

        Raises:
            InvalidValue: `level` is not in (0, 1).
            Unsupported: There is no answer.
        """
        unbounded = self.unbounded(level)
        if unbounded is not None:
            warnings.warn(unbounded, stacklevel=2)
        ends = self._answering.quantiles(_ends(level))
        return float(ends[0]), float(ends[1])

    def unbounded(self, level: float) -> str | None:
        """Why the interval at a level has no ends.

        Args:
            level: The probability, in (0, 1).

        Returns:
            One line that says how many architectures calibrated the surrogate and how far they
            reach; None where both ends are known.

        Raises:
            InvalidValue: `level` is not in (0, 1).
            Unsupported: There is no answer.
        """
        low, high = _ends(level)
        source, reach = self._answering, self._answering.support()
        n = source.calibrated()
        # The same rounding error is forgiven as where quantiles are read.
        if n is None or (low > reach[0] - 1e-12 and high < reach[1] + 1e-12):
            return None
        widest = math.floor(1e4 * (reach[1] - reach[0]) + 1e-6) / 100
        return (
            f"No {100 * level:.6g}% interval of {self._name}: {n} calibration architectures "
            f"support {widest:g}% at most."
        )

    @property
    def _name(self) -> str:
        return self.metric.name + (f" on {self.device}" if self.device else "")

    def sample(self, n: int, seed: int | np.random.Generator) -> Floats:
        """Draw single measurements from the distribution.

        Args:
            n: How many.
            seed: An int >= 0, or a generator, which is advanced.

        Returns:
            In the metric's unit, shape (n,); never beyond the levels that have a finite quantile.

        Raises:
            InvalidValue: `n` is no such int, or `seed` is neither.
            Unsupported: There is no answer.
        """
        count: object = n
        whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if not whole or not 0 <= count <= _MOST_DRAWN:  # type: ignore[operator]
            raise invalid("n", "sample", f"an int from 0 to {_MOST_DRAWN}", n)
        drawn = generator(seed, "sample").random(int(count))  # type: ignore[call-overload]
        return self._answering.quantiles(np.clip(drawn, *self._answering.support()))

    @cached_property
    def components(self) -> Components:
        """What the prediction is unsure about.

        Raises:
            Unsupported: There is no answer.
        """
        return self._answering.components()

    def __repr__(self) -> str:
        """Metric, device, median and 90% interval, or the reason why there is none."""
        if not self.supported:
            return f"<{self._name}: not supported, {self.reason}>"
        shown = f"{self.median:.6g} {self.unit}".rstrip()
        if self.unbounded(0.9) is not None:
            return f"<{self._name}: {shown}, no 90% interval>"
        low, high = self.interval(0.9)
        return f"<{self._name}: {shown}, 90% in {low:.6g} to {high:.6g}>"


def _ends(level: object) -> Floats:
    """The levels of a central interval's ends.

    Rounded, so that the ends at 0.9 are the quantiles at 0.05 and 0.95 to the last bit.
    """
    share = checked_level(level, "interval", "level")
    return np.round([0.5 - share / 2, 0.5 + share / 2], 12)


def checked_levels(levels: ArrayLike, function: str, name: str) -> Floats:
    """Quantile levels as an array of shape (m,).

    Raises:
        InvalidValue: They are no numbers in (0, 1), or there is none.
    """
    try:
        given = np.atleast_1d(np.asarray(levels))
        found = given.astype(np.float64) if given.dtype.kind in "fiuO" else np.empty(0)
    except (TypeError, ValueError, OverflowError):
        found = np.empty(0)
    if found.ndim != 1 or not len(found) or not ((found > 0) & (found < 1)).all():
        raise invalid(name, function, "a number in (0, 1), or several", levels)
    return found


def checked_level(level: object, function: str, name: str) -> float:
    """One quantile level or probability.

    Raises:
        InvalidValue: It is no number in (0, 1).
    """
    if not isinstance(level, int | float | np.integer | np.floating) or not 0 < level < 1:
        raise invalid(name, function, "a number in (0, 1)", level)
    return float(level)
