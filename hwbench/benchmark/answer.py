"""`Answer`: all predictions of one architecture, and their table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hwbench.architectures import Architecture
from hwbench.benchmark.prediction import Prediction
from hwbench.devices import canonical
from hwbench.errors import HwbenchError, invalid, unknown
from hwbench.metrics import metric

if TYPE_CHECKING:
    import pandas as pd

V = TypeVar("V")


class _Named(Mapping[str, V]):
    """A mapping whose keys have aliases, and that says what it has where a key is missing."""

    @abstractmethod
    def _find(self, key: str) -> V | None:
        """What a name or an alias stands for, or None."""

    def __getitem__(self, key: str) -> V:
        """What a name or an alias stands for.

        Raises:
            InvalidValue: The key is no text.
            UnknownName: Nothing here bears the name.
        """
        if not isinstance(key, str):
            raise invalid("key", type(self).__name__, "a name", key)
        found = self._find(key)
        if found is None:
            raise unknown(f"key of the {type(self).__name__.lower()}", key, self)
        return found

    def __contains__(self, key: object) -> bool:
        """Whether something here bears a name or an alias."""
        return isinstance(key, str) and self._find(key) is not None

    def get(self, key: object, default: Any = None, /) -> Any:
        """What a name or an alias stands for, or the default."""
        found = self._find(key) if isinstance(key, str) else None
        return default if found is None else found


class Predictions(_Named[Prediction]):
    """Predictions by metric; an alias such as "latencies" finds its metric too."""

    def __init__(self, by_metric: Mapping[str, Prediction]) -> None:
        """Take the predictions by the metrics' names."""
        self._by_metric = by_metric

    def _find(self, key: str) -> Prediction | None:
        try:
            return self._by_metric.get(metric(key).name)
        except HwbenchError:
            return None

    def __iter__(self) -> Iterator[str]:
        """The metrics' names."""
        return iter(self._by_metric)

    def __len__(self) -> int:
        """How many predictions."""
        return len(self._by_metric)

    def __repr__(self) -> str:
        """All predictions."""
        return repr(dict(self))


@dataclass(frozen=True, eq=False, repr=False)
class Answer(_Named[Any]):
    """All predictions of one architecture.

    `answer["h100"]["latency"]` is a `Prediction` on a device, `answer["perplexity"]` one that
    belongs to none. Devices are listed first.

    Attributes:
        architecture: The architecture.
        by_device: Device to metric to prediction.
        overall: Metric to prediction, for metrics that belong to no device.
    """

    architecture: Architecture
    by_device: Mapping[str, Predictions]
    overall: Predictions

    def _find(self, key: str) -> Predictions | Prediction | None:
        return self.by_device.get(canonical(key)) or self.overall.get(key)

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

    def __repr__(self) -> str:
        """The architecture and the keys."""
        return f"<Answer to {self.architecture}: {', '.join(self)}>"

    def to_frame(self) -> pd.DataFrame:
        """One row a prediction.

        Returns:
            Columns arch, device (None where there is none), metric, unit, median, mean, std, q05,
            q95, source, supported; values are NaN and source is None where there is no answer.
        """
        rows = [_row(str(self.architecture), p) for p in self.predictions()]
        return frame(dict(zip(COLUMNS, zip(*rows, strict=True), strict=True)))


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
        values = (p.median, p.mean, p.std, p.quantile(0.05), p.quantile(0.95))
    return (text, p.device, p.metric.name, p.unit, *values, p.source, p.supported)


def frame(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Columns by the names of `COLUMNS` as a frame; None stays None in device and source."""
    import pandas as pd

    # A column with some names becomes text, in which pandas has NaN for None.
    kept = {name: pd.Series(list(columns[name]), dtype=object) for name in ("device", "source")}
    return pd.DataFrame({**columns, **kept}, columns=list(COLUMNS))
