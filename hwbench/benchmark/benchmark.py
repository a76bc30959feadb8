"""`Benchmark`: the query API over fitted artefacts, pure: no torch, no network, no writing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace, spaces
from hwbench.architectures import space as space_of
from hwbench.benchmark.answer import Answer, Predictions, frame
from hwbench.benchmark.prediction import (
    MOMENT_LEVELS,
    FromForm,
    FromRecord,
    FromSurrogate,
    Prediction,
    checked_levels,
    moments_of,
)
from hwbench.benchmark.recordings import Recordings
from hwbench.cost import count_table
from hwbench.devices import canonical, catalogue, published
from hwbench.encode import Features
from hwbench.errors import (
    InvalidArchitecture,
    InvalidArtifact,
    InvalidStore,
    Unsupported,
    brief,
    invalid,
    unknown,
)
from hwbench.metrics import METRICS, Metric
from hwbench.metrics import metric as metric_of
from hwbench.surrogate import Card, Catalogue, Distribution, shipped
from hwbench.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Names = str | Sequence[str] | None
Architectures = Architecture | Iterable[Architecture] | ArchitectureTable


class Benchmark:
    """What an architecture of a space costs on each device, and how sure that is.

    Args:
        space: A named space, a TOML file of one's own, or a `SearchSpace`.
        artifacts: A folder of one's own artefacts, laid over those that come with hwbench.
        store: A record store; what it holds of an architecture is answered as measured.

    Attributes:
        space: The space.
        published: The names of the 13 devices of HW-GPT-Bench.

    Raises:
        UnknownName: No such space.
        InvalidArtifact: `artifacts` is no folder, or holds no artefact.
        InvalidStore: `store` is no record store.

    >>> from hwbench.benchmark import Benchmark
    >>> bench = Benchmark("s")
    >>> answer = bench.query(bench.space.smallest)
    >>> answer["params"].median
    23483520.0
    """

    def __init__(
        self,
        space: str | Path | SearchSpace,
        *,
        artifacts: str | Path | None = None,
        store: str | Path | None = None,
    ) -> None:
        """Find the artefacts; none is read before it is asked for."""
        self.space = space_of(space)
        self.published = list(published())
        self._catalogue = Catalogue.of(shipped(), *_roots(artifacts))
        self._recordings = None if store is None else Recordings.open(store, self.space)
        # What a query for all devices asks, and what else has a meaning here.
        recorded = set() if self._recordings is None else self._recordings.devices
        self._queried = _ordered(self._catalogue.devices() | recorded)
        self._known = _ordered({*self._queried, *catalogue()})
        self._cards: dict[tuple[str, str | None], Card | None] = {}

    def __repr__(self) -> str:
        """The space and the number of devices."""
        return f"<Benchmark of space {self.space.name}: {len(self.devices)} devices>"

    @property
    def devices(self) -> list[str]:
        """The devices with an artefact in this space: those of the catalogue first."""
        return _ordered(self._catalogue.devices(self.space.name))

    @property
    def metrics(self) -> list[str]:
        """The metrics that an artefact or a closed form answers in this space."""
        name = self.space.name
        there = self._catalogue.metrics(name, None)
        for device in self.devices:
            there |= self._catalogue.metrics(name, device)
        return [m.name for m in METRICS.values() if m.source == "analytic" or m.name in there]

    def card(self, device: str | None, metric: str) -> Card:
        """The card of an artefact: where its numbers come from, and its scores.

        Raises:
            InvalidValue: A device is given or missing wrongly.
            UnknownName: No such device or metric.
            Unsupported: There is no such artefact.
        """
        asked = _metric(metric, "card")
        return self._needed(asked, self._device(asked, device, "card"))

    def predict(
        self,
        archs: Architectures,
        device: str | None = None,
        metric: str = "latency",
        quantiles: ArrayLike = (0.05, 0.5, 0.95),
    ) -> Floats:
        """Quantiles of a single measurement of many architectures.

        Args:
            archs: Architectures of this space, n of them; or one.
            device: The device; None for a metric that belongs to none.
            metric: The metric, which has an artefact or a closed form.
            quantiles: Levels in (0, 1), m of them.

        Returns:
            float64 in the metric's unit, shape (n, m); equal columns for a closed form. A level
            that too few architectures calibrated is infinity, or the least possible value. A row
            does not depend on the other rows.

        Raises:
            InvalidArchitecture: There is none, or one is not of this space.
            InvalidValue: A level is outside (0, 1), or a device is given or missing wrongly.
            UnknownName: No such device or metric.
            Unsupported: There is no artefact of the metric on the device.
        """
        levels = checked_levels(quantiles, "predict", "quantiles")
        asked = _metric(metric, "predict")
        place = self._device(asked, device, "predict")
        table = self._table(archs)
        if asked.source == "analytic":
            exact = getattr(count_table(table), asked.name).astype(np.float64)
            return np.repeat(exact[:, None], len(levels), axis=1)
        card = self._needed(asked, place)
        return self._catalogue.surrogate(card).quantiles(Features(table), levels)

    def recorded(
        self,
        arch: Architecture,
        device: str | None,
        metric: str,
        workload: Workload | None = None,
    ) -> Floats | None:
        """The raw repeats that the store holds of an architecture, warm-up included.

        Args:
            arch: The architecture.
            device: The device, or None for perplexity and accuracy.
            metric: The metric.
            workload: Which one, where the store holds the metric under several.

        Returns:
            In the metric's unit and the order they were taken, or None where the store has none.

        Raises:
            InvalidStore: The benchmark was made without `store=`, or a file is damaged.
            InvalidArchitecture: `arch` is not of this space.
            InvalidValue: A device is given or missing wrongly, or the store has several workloads
                and none was named.
            UnknownName: No such device or metric.
        """
        if self._recordings is None:
            raise InvalidStore("Recorded values need a record store: Benchmark(..., store=PATH).")
        asked = _metric(metric, "recorded")
        place = self._device(asked, device, "recorded")
        self._one(arch, "recorded")
        return self._recordings.raw(arch, place, asked, workload)

    def query(self, arch: Architecture, devices: Names = None, metrics: Names = None) -> Answer:
        """Everything about one architecture.

        Args:
            arch: An architecture of this space.
            devices: A name, a sequence of names, or None for all that have an artefact in any
                space, or stand in the store.
            metrics: A name, a sequence of names, or None for all.

        Returns:
            The answer. What no artefact can answer is in it with `supported` False and a reason.

        Raises:
            InvalidArchitecture: `arch` is not of this space.
            UnknownName: No such device or metric.
        """
        features = Features(self._one(arch, "query"))
        asked, chosen = self._asked(metrics, "query"), self._chosen(devices, "query")
        placed = {
            d: {m.name: self._prediction(features, m, d) for m in asked if m.needs_device}
            for d in chosen
        }
        overall = {m.name: self._prediction(features, m, None) for m in asked if not m.needs_device}
        by_device = {d: Predictions(found) for d, found in placed.items() if found}
        return Answer(arch, by_device, Predictions(overall))

    def query_many(
        self, archs: Architectures, devices: Names = None, metrics: Names = None
    ) -> pd.DataFrame:
        """Everything about many architectures, vectorised.

        Args:
            archs: Architectures of this space.
            devices: As in `query`.
            metrics: As in `query`.

        Returns:
            The rows of `Answer.to_frame` for each architecture; those of one metric on one device
            stand together, in the order of `archs`.

        Raises:
            InvalidArchitecture: There is none, or one is not of this space.
            UnknownName: No such device or metric.
        """
        features = Features(self._table(archs))
        asked, chosen = self._asked(metrics, "query_many"), self._chosen(devices, "query_many")
        n, texts = len(features), [str(a) for a in features.table.architectures()]
        blocks, values, sources = [], [], []
        for metric in asked:
            for device in chosen if metric.needs_device else [None]:
                numbers, found = self._summaries(features, metric, device)
                blocks.append((device, metric.name, metric.unit))
                values.append(numbers)
                sources += found
        names = [[one for one in column for _ in range(n)] for column in zip(*blocks, strict=True)]
        stacked = np.concatenate(values).T
        return frame(
            {
                "arch": texts * len(blocks),
                **dict(zip(("device", "metric", "unit"), names, strict=True)),
                **dict(zip(("median", "mean", "std", "q05", "q95"), stacked, strict=True)),
                "source": sources,
                "supported": [source is not None for source in sources],
            }
        )

    def _summaries(
        self, features: Features, metric: Metric, device: str | None
    ) -> tuple[Floats, list[str | None]]:
        """Median, mean, std, 5% and 95% of each architecture, (n, 5), and where they are from."""
        n = len(features)
        if metric.source == "analytic":
            exact = getattr(count_table(features.table), metric.name).astype(np.float64)
            return np.stack([exact, exact, np.zeros(n), exact, exact], axis=1), ["analytic"] * n
        values, sources = np.full((n, 5), np.nan), list[str | None]([None] * n)
        card, _ = self._artifact(metric, device)
        if card is not None:
            distribution = self._catalogue.surrogate(card).distribution(features)
            values, sources = _summary(distribution), ["surrogate"] * n
        for row, repeats in self._measured(features, metric, device).items():
            one = Prediction(metric, device, FromRecord(repeats))
            ends = one.quantile(0.05), one.quantile(0.95)
            values[row], sources[row] = (one.median, one.mean, one.std, *ends), "measured"
        return values, sources

    def _prediction(self, features: Features, metric: Metric, device: str | None) -> Prediction:
        """The prediction of the only row."""
        if metric.source == "analytic":
            exact = int(getattr(count_table(features.table), metric.name)[0])
            return Prediction(metric, device, FromForm(exact))
        card, reason = self._artifact(metric, device)
        measured = self._measured(features, metric, device)
        if measured and self._recordings is not None:
            preferred = None if card is None else card.workload
            workload = self._recordings.workload(device, metric, preferred)
            return Prediction(metric, device, FromRecord(measured[0]), workload=workload)
        if card is None:
            return Prediction(metric, device, None, reason=reason)
        return Prediction(
            metric,
            device,
            FromSurrogate(self._catalogue.surrogate(card).distribution(features)),
            workload=card.workload,
            artifact=card.id,
            evidence=card.evidence,
        )

    def _measured(
        self, features: Features, metric: Metric, device: str | None
    ) -> dict[int, Floats]:
        """The store's kept repeats of those rows that it holds."""
        if self._recordings is None:
            return {}
        card, _ = self._artifact(metric, device)
        preferred = None if card is None else card.workload
        return self._recordings.kept(features.table, device, metric, preferred)

    def _one(self, arch: Architecture, function: str) -> ArchitectureTable:
        if not isinstance(arch, Architecture):
            raise InvalidArchitecture(
                f"The 'arch' parameter of {function} must be an Architecture. "
                f"Got {brief(arch)} instead."
            )
        return self._table(arch)

    def _table(self, archs: Architectures) -> ArchitectureTable:
        if isinstance(archs, ArchitectureTable):
            table = archs
        else:
            given: Any = [archs] if isinstance(archs, Architecture) else archs
            try:
                rows = None if isinstance(given, str) else iter(given)
            except TypeError:
                rows = None
            if rows is None:
                raise InvalidArchitecture(
                    f"An Architecture, or several, is needed. Got {brief(archs)} instead."
                )
            table = ArchitectureTable.of(list(rows))
        if not len(table):
            raise InvalidArchitecture("There must be at least one architecture. Got none.")
        other = table.search_space
        if other is not self.space and other != self.space:
            twin = " with other choices" if other.name == self.space.name else ""
            raise InvalidArchitecture(
                f"Architectures must be of space {self.space.name!r}. "
                f"Got one of {other.name!r}{twin} instead."
            )
        return table

    def _device(self, metric: Metric, device: object, function: str) -> str | None:
        """The device that a metric is asked of, or None for a metric that belongs to none."""
        if not metric.needs_device:
            if device is not None:
                raise invalid("device", function, f"None for {metric.name}, which has none", device)
            return None
        if not isinstance(device, str):
            allowed = f"one of {', '.join(self._known)} for {metric.name}"
            raise invalid("device", function, allowed, device)
        return self._chosen(device, function)[0]

    def _chosen(self, devices: Names, function: str) -> list[str]:
        names = _names(devices, "devices", function)
        if names is None:
            return self._queried
        chosen = list(dict.fromkeys(canonical(name) for name in names))
        for name in chosen:
            if name not in self._known:
                raise unknown("device", name, self._known)
        return chosen

    def _asked(self, metrics: Names, function: str) -> list[Metric]:
        names = _names(metrics, "metrics", function)
        if names is None:
            return list(METRICS.values())
        return list(dict.fromkeys(metric_of(name) for name in names))

    def _needed(self, metric: Metric, device: str | None) -> Card:
        card, reason = self._artifact(metric, device)
        if card is None:
            raise Unsupported(reason)
        return card

    def _artifact(self, metric: Metric, device: str | None) -> tuple[Card | None, str]:
        """The card that answers, or None and the reason why there is none."""
        key = (metric.name, device)
        if key not in self._cards:
            card = self._catalogue.card(self.space.name, device, metric.name)
            if card is not None and card.search_space != self.space:
                raise InvalidArtifact(
                    f"The card {card.path} must be of space {self.space.name} as it was given. "
                    f"Got one fitted with other choices, head_size, batch_size or seq_len."
                )
            self._cards[key] = card
        card = self._cards[key]
        return card, "" if card is not None else self._reason(metric, device)

    def _reason(self, metric: Metric, device: str | None) -> str:
        """Why a metric is not answered, and what exists."""
        name, found = self.space.name, self._catalogue
        if metric.source == "analytic":
            return f"{metric.name} has no artefact: a closed form answers it."
        there = {d for d in found.devices(name) if metric.name in found.metrics(name, d)}
        if metric.needs_device and there:
            return (
                f"There is no artefact of {metric.name} on {device} in space {name}. "
                f"Devices with {metric.name} there: {', '.join(_ordered(there))}."
            )
        with_it = {s for s, _, m in found.cards if m == metric.name}
        known = [s for s in spaces() if s in with_it]
        listed = ", ".join(known + sorted(with_it.difference(known))) or "none"
        return (
            f"There is no artefact of {metric.name} in space {name}. "
            f"Spaces with {metric.name}: {listed}."
        )


def _roots(artifacts: object) -> list[Path]:
    """The folder of one's own artefacts, checked, or nothing."""
    if artifacts is None:
        return []
    if not isinstance(artifacts, str | Path) or not str(artifacts) or "\0" in str(artifacts):
        raise invalid("artifacts", "Benchmark", "the path of a folder or None", artifacts)
    root = Path(artifacts)
    if not any(metric in METRICS for _, _, metric in Catalogue.of(root).cards):
        raise InvalidArtifact(
            f"Artefacts must lie below a folder as <space>/<device>/<metric>.json. "
            f"Got {str(root)!r}, which has none."
        )
    return [root]


def _metric(name: object, function: str) -> Metric:
    if not isinstance(name, str):
        raise invalid("metric", function, f"one of {', '.join(METRICS)}", name)
    return metric_of(name)


def _names(given: object, parameter: str, function: str) -> list[str] | None:
    """One name or several as a list, or None for all."""
    if given is None:
        return None
    several: Any = [given] if isinstance(given, str) else given
    try:
        names = list(iter(several))
    except TypeError:
        names = []
    if not names or not all(isinstance(name, str) for name in names):
        raise invalid(parameter, function, "a name, a sequence of names, or None for all", given)
    return [str(name) for name in names]


def _ordered(devices: Iterable[str]) -> list[str]:
    """The catalogue's devices in its order, then the rest in alphabetical order."""
    there = set(devices)
    first = [d for d in catalogue() if d in there]
    return first + sorted(there.difference(first))


def _summary(distribution: Distribution) -> Floats:
    """Median, mean, std, 5% and 95% of each row, shape (n, 5)."""
    calibration = distribution.surrogate.calibration
    ends = distribution.quantiles(np.array([0.5, 0.05, 0.95]))
    moments = np.empty((len(ends), 2))
    for width in np.unique(distribution.width).tolist():
        rows = distribution.width == width
        levels = np.clip(MOMENT_LEVELS, *calibration.support(width))
        moments[rows] = moments_of(distribution.take(rows).quantiles(levels))
    return np.column_stack([ends[:, 0], moments, ends[:, 1:]])
