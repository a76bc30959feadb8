"""`Prediction` and `Answer`: what a query gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwbench.architectures import Architecture, generator
from hwbench.devices import canonical
from hwbench.errors import Unsupported, invalid, unknown
from hwbench.metrics import Metric
from hwbench.surrogate import Distribution
from hwbench.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Source = Literal["surrogate", "analytic", "measured"]

# Mid-levels of 200 equal shares: moments are averages over the quantiles there.
MOMENT_LEVELS: Floats = (np.arange(200) + 0.5) / 200


@dataclass(frozen=True, slots=True)
class Components:
    """What a prediction is unsure about, as standard deviations in the metric's unit.

    Attributes:
        repeat: Repeats of one architecture on the same machine; None where the source holds a
            single value, or a mean, for each architecture.
        drift: The machine over a session; None where it cannot be told.
        model: The model's own error on an architecture; None where there is no model.
    """

    repeat: float | None
    drift: float | None
    model: float | None


class _Source(ABC):
    """Where a prediction's numbers come from."""

    kind: Source

    @abstractmethod
    def quantiles(self, levels: Floats) -> Floats:
        """Quantiles in the metric's unit, as of `levels`, shape (m,)."""

    @abstractmethod
    def support(self) -> tuple[float, float]:
        """The outermost levels with a finite quantile."""

    @abstractmethod
    def components(self) -> Components:
        """The standard deviations of the parts."""


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
        several = len(self._repeats) > 1
        return Components(float(self._repeats.std(ddof=1)) if several else None, None, None)


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
        levels = np.clip(MOMENT_LEVELS, *self._answering.support())
        values = self._answering.quantiles(levels)
        return float(values.mean()), float(values.std())

    @property
    def mean(self) -> float:
        """The mean, over the levels that have a finite quantile.

        Raises:
            Unsupported: There is no answer.
        """
        return self._moments[0]

    @property
    def std(self) -> float:
        """The standard deviation, over the levels that have a finite quantile.

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
        levels = checked_levels((q,), "quantile", "q")
        return float(self._answering.quantiles(levels)[0])

    def interval(self, level: float) -> tuple[float, float]:
        """The central interval that holds a single measurement with a given probability.

        Args:
            level: The probability, in (0, 1).

        Returns:
            Its ends in the metric's unit, under the same rule as `quantile`.

        Raises:
            InvalidValue: `level` is not in (0, 1).
            Unsupported: There is no answer.
        """
        share = float(checked_levels((level,), "interval", "level")[0])
        ends = self._answering.quantiles(np.array([0.5 - share / 2, 0.5 + share / 2]))
        return float(ends[0]), float(ends[1])

    def sample(self, n: int, seed: int | np.random.Generator) -> Floats:
        """Draw single measurements from the distribution.

        Args:
            n: How many.
            seed: An int >= 0, or a generator, which is advanced.

        Returns:
            In the metric's unit, shape (n,); never beyond the levels that have a finite quantile.

        Raises:
            InvalidValue: `n` is no int >= 0, or `seed` is neither.
            Unsupported: There is no answer.
        """
        if type(n) is not int or n < 0:
            raise invalid("n", "sample", "an int >= 0", n)
        drawn = generator(seed, "sample").random(n)
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
        where = self.metric.name + (f" on {self.device}" if self.device else "")
        if not self.supported:
            return f"<{where}: not supported, {self.reason}>"
        low, high = self.interval(0.9)
        return f"<{where}: {self.median:.6g} {self.unit}, 90% in {low:.6g} to {high:.6g}>"


@dataclass(frozen=True, eq=False)
class Answer(Mapping[str, Any]):
    """All predictions of one architecture.

    `answer["h100"]["latency"]` is a `Prediction` on a device, `answer["perplexity"]` one that
    belongs to none. Devices are listed first.

    Attributes:
        architecture: The architecture.
        by_device: Device to metric to prediction.
        overall: Metric to prediction, for metrics that belong to no device.
    """

    architecture: Architecture
    by_device: Mapping[str, Mapping[str, Prediction]]
    overall: Mapping[str, Prediction]

    def __getitem__(self, key: str) -> Any:
        """A device's predictions by metric, or the prediction of a metric without a device.

        Raises:
            UnknownName: The answer has no such device or metric.
        """
        if not isinstance(key, str):
            raise invalid("key", "Answer", "the name of a device or a metric", key)
        found = self.by_device.get(canonical(key))
        if found is None:
            one = self.overall.get(key)
            if one is None:
                raise unknown("device or metric of the answer", key, self)
            return one
        return found

    def __iter__(self) -> Iterator[str]:
        """The keys: devices, then metrics without one."""
        yield from self.by_device
        yield from self.overall

    def __len__(self) -> int:
        """How many keys."""
        return len(self.by_device) + len(self.overall)

    def predictions(self) -> list[Prediction]:
        """All predictions, device by device, then those without one."""
        found = [p for metrics in self.by_device.values() for p in metrics.values()]
        return found + list(self.overall.values())

    def to_frame(self) -> pd.DataFrame:
        """One row a prediction.

        Returns:
            Columns arch, device (None where there is none), metric, unit, median, mean, std, q05,
            q95, source, supported; values are NaN and source is None where there is no answer.
        """
        return frame([_row(str(self.architecture), p) for p in self.predictions()])


COLUMNS = (
    "arch",
    "device",
    "metric",
    "unit",
    "median",
    "mean",
    "std",
    "q05",
    "q95",
    "source",
    "supported",
)


def _row(text: str, p: Prediction) -> tuple[Any, ...]:
    values = (np.nan,) * 5
    if p.supported:
        low, high = p.interval(0.9)
        values = (p.median, p.mean, p.std, low, high)
    return (text, p.device, p.metric.name, p.unit, *values, p.source, p.supported)


def frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """Rows in the order of `COLUMNS` as a frame; None stays None in device and source."""
    import pandas as pd

    made = pd.DataFrame(rows, columns=list(COLUMNS))
    # A column with some names becomes text, in which pandas has NaN for None.
    for place, name in enumerate(COLUMNS):
        if name in ("device", "source"):
            made[name] = pd.Series([row[place] for row in rows], dtype=object)
    return made


def checked_levels(levels: ArrayLike, function: str, name: str) -> Floats:
    """Quantile levels as an array of shape (m,).

    Raises:
        InvalidValue: They are no numbers in (0, 1), or there is none.
    """
    try:
        found = np.atleast_1d(np.asarray(levels, np.float64))
    except (TypeError, ValueError):
        raise invalid(name, function, "in (0, 1)", levels) from None
    if found.ndim != 1 or not len(found) or not ((found > 0) & (found < 1)).all():
        raise invalid(name, function, "in (0, 1)", levels)
    return found
