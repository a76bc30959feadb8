"""`Benchmark`: the query API over fitted artefacts, pure: no torch, no network, no writing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace, spaces
from hwbench.architectures import space as space_of
from hwbench.benchmark.answer import (
    MOMENT_LEVELS,
    Answer,
    FromForm,
    FromRecord,
    FromSurrogate,
    Prediction,
    checked_levels,
    frame,
)
from hwbench.cost import count_table
from hwbench.devices import canonical, catalogue, published
from hwbench.encode import Features
from hwbench.errors import InvalidArchitecture, InvalidStore, Unsupported, brief, invalid, unknown
from hwbench.metrics import METRICS, Metric
from hwbench.metrics import metric as metric_of
from hwbench.surrogate import Card, Catalogue, Distribution, shipped

if TYPE_CHECKING:
    import pandas as pd

    from hwbench.records import Store

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
        InvalidArtifact: `artifacts` is no folder.
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
        self.published = published()
        roots = [shipped()] + ([Path(artifacts)] if artifacts is not None else [])
        self._catalogue = Catalogue.of(*roots)
        self._store: Store | None = None
        self._cards: dict[tuple[str, str | None], Card | None] = {}
        if store is not None:
            from hwbench.records import Store

            self._store = Store.open(store)

    @property
    def devices(self) -> list[str]:
        """The devices with an artefact in this space: those of the catalogue first."""
        return _ordered(self._catalogue.devices(self.space.name))

    @property
    def metrics(self) -> list[str]:
        """The metrics that can be answered in this space, on at least one device."""
        name = self.space.name
        there = self._catalogue.metrics(name, None)
        for device in self.devices:
            there |= self._catalogue.metrics(name, device)
        return [m.name for m in METRICS.values() if m.source == "analytic" or m.name in there]

    def card(self, device: str | None, metric: str) -> Card:
        """The card of an artefact: where its numbers come from, and its scores.

        Raises:
            UnknownName: No such device or metric.
            Unsupported: There is no such artefact.
        """
        return self._card(metric_of(metric), device)

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
            that too few architectures calibrated is infinity, or the least possible value.

        Raises:
            InvalidArchitecture: There is none, or one is not of this space.
            InvalidValue: A level is outside (0, 1), or a device is given or missing wrongly.
            UnknownName: No such device or metric.
            Unsupported: There is no artefact of the metric on the device.
        """
        levels = checked_levels(quantiles, "predict", "quantiles")
        table = self._table(archs)
        asked = metric_of(metric)
        self._check_device(asked, device, "predict")
        if asked.source == "analytic":
            exact = getattr(count_table(table), asked.name).astype(np.float64)
            return np.repeat(exact[:, None], len(levels), axis=1)
        card = self._card(asked, device)
        return self._catalogue.surrogate(card).quantiles(Features(table), levels)

    def recorded(
        self, arch: Architecture, device: str | None, metric: str
    ) -> NDArray[np.float64] | None:
        """The raw repeats that the store holds of an architecture, warm-up included.

        Args:
            arch: The architecture.
            device: The device, or None for perplexity and accuracy.
            metric: The metric.

        Returns:
            In the metric's unit and the order they were taken, or None where the store has none.

        Raises:
            InvalidStore: The benchmark was made without `store=`.
            InvalidArchitecture: `arch` is not of this space.
        """
        if self._store is None:
            raise InvalidStore("Recorded values need a record store: Benchmark(..., store=PATH).")
        self._table(arch)
        asked = metric_of(metric)
        self._check_device(asked, device, "recorded")
        return self._store.repeats(arch, device, asked.name)

    def query(self, arch: Architecture, devices: Names = None, metrics: Names = None) -> Answer:
        """Everything about one architecture.

        Args:
            arch: An architecture of this space.
            devices: A name, a sequence of names, or None for all with an artefact in any space.
            metrics: A name, a sequence of names, or None for all.

        Returns:
            The answer. What no artefact can answer is in it with `supported` False and a reason.

        Raises:
            InvalidArchitecture: `arch` is not of this space.
            UnknownName: No such device or metric.
        """
        features = Features(self._table(arch))
        asked, chosen = self._asked(metrics), self._chosen(devices)
        measured = {
            d: {m.name: self._prediction(arch, features, m, d) for m in asked if m.needs_device}
            for d in chosen
        }
        overall = {
            m.name: self._prediction(arch, features, m, None) for m in asked if not m.needs_device
        }
        return Answer(arch, {d: found for d, found in measured.items() if found}, overall)

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
            stand together.

        Raises:
            InvalidArchitecture: There is none, or one is not of this space.
            UnknownName: No such device or metric.
        """
        features = Features(self._table(archs))
        owned = features.table.architectures()
        texts = [str(a) for a in owned]
        rows: list[tuple[Any, ...]] = []
        for metric in self._asked(metrics):
            for device in self._chosen(devices) if metric.needs_device else [None]:
                values, sources = self._summaries(owned, features, metric, device)
                rows += [
                    (text, device, metric.name, metric.unit, *numbers, source, source is not None)
                    for text, numbers, source in zip(texts, values.tolist(), sources, strict=True)
                ]
        return frame(rows)

    def _summaries(
        self,
        owned: list[Architecture],
        features: Features,
        metric: Metric,
        device: str | None,
    ) -> tuple[Floats, list[str | None]]:
        """Median, mean, std, 5% and 95% of each architecture, (n, 5), and where they are from."""
        n = len(owned)
        values, sources = np.full((n, 5), np.nan), [None] * n
        card, _ = self._artifact(metric, device)
        if metric.source == "analytic":
            exact = getattr(count_table(features.table), metric.name).astype(np.float64)
            values[:] = np.stack([exact, exact, np.zeros(n), exact, exact], axis=1)
            return values, ["analytic"] * n
        found: list[str | None] = list(sources)
        if card is not None:
            distribution = self._catalogue.surrogate(card).distribution(features)
            values[:], found = _moments(distribution), ["surrogate"] * n
        for i, arch in enumerate(owned if self._store is not None else ()):
            repeats = self._kept(arch, metric, device)
            if repeats is not None:
                one = Prediction(metric, device, FromRecord(repeats))
                low, high = one.interval(0.9)
                values[i], found[i] = (one.median, one.mean, one.std, low, high), "measured"
        return values, found

    def _prediction(
        self, arch: Architecture, features: Features, metric: Metric, device: str | None
    ) -> Prediction:
        if metric.source == "analytic":
            exact = int(getattr(count_table(features.table), metric.name)[0])
            return Prediction(metric, device, FromForm(exact))
        card, reason = self._artifact(metric, device)
        repeats = self._kept(arch, metric, device)
        if repeats is not None:
            return Prediction(
                metric, device, FromRecord(repeats), workload=self._workload(metric, device)
            )
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

    def _observations(self, metric: Metric, device: str | None) -> Any:
        if self._store is None or self.space.name not in self._store.spaces():
            return None
        if device is None:
            return self._store.quality(self.space, metric.name)
        return self._store.observations(device, self.space, metric.name)

    def _kept(self, arch: Architecture, metric: Metric, device: str | None) -> Floats | None:
        """The store's repeats of an architecture without their warm-up, or None."""
        seen = self._observations(metric, device)
        row = None if seen is None else seen.recorded.row(arch)
        if row is None:
            return None
        at = np.flatnonzero(seen.row == row)
        kept = [seen.kept.of(i) for i in at.tolist()]
        joined = np.concatenate(kept) if kept else np.empty(0)
        return joined if len(joined) else None

    def _workload(self, metric: Metric, device: str | None) -> Any:
        seen = self._observations(metric, device)
        return None if seen is None else seen.workload

    def _table(self, archs: Architectures) -> ArchitectureTable:
        if isinstance(archs, ArchitectureTable):
            table = archs
        else:
            given: object = [archs] if isinstance(archs, Architecture) else archs
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise InvalidArchitecture(
                    f"An Architecture, or several, is needed. Got {brief(archs)} instead."
                )
            table = ArchitectureTable.of(list(given))
        if table.search_space != self.space:
            raise InvalidArchitecture(
                f"The architecture must be of space {self.space.name!r}. "
                f"Got one of {table.search_space.name!r}."
            )
        return table

    def _check_device(self, metric: Metric, device: object, function: str) -> None:
        if metric.needs_device and device is None:
            raise invalid("device", function, f"named for {metric.name}", device)
        if not metric.needs_device and device is not None:
            raise invalid("device", function, f"None for {metric.name}, which has none", device)

    def _card(self, metric: Metric, device: str | None) -> Card:
        if device is not None:
            (device,) = self._chosen(device)
        card, reason = self._artifact(metric, device)
        if card is None:
            raise Unsupported(reason)
        return card

    def _artifact(self, metric: Metric, device: str | None) -> tuple[Card | None, str]:
        """The card that answers, or None and the reason why there is none."""
        key = (metric.name, device)
        if key not in self._cards:
            self._cards[key] = self._catalogue.card(self.space.name, device, metric.name)
        card = self._cards[key]
        return card, "" if card is not None else self._reason(metric, device)

    def _reason(self, metric: Metric, device: str | None) -> str:
        """Why a metric is not answered, and what exists."""
        name, found = self.space.name, self._catalogue
        if metric.needs_device:
            there = {d for d in found.devices(name) if metric.name in found.metrics(name, d)}
            if there:
                return (
                    f"There is no artefact of {metric.name} on {device} in space {name}. "
                    f"{metric.name.capitalize()} there is for: {', '.join(_ordered(there))}."
                )
        with_it = {s for s, _, m in found.cards if m == metric.name}
        known = [s for s in spaces() if s in with_it]
        listed = ", ".join(known + sorted(with_it.difference(known))) or "none"
        return (
            f"There is no artefact of {metric.name} in space {name}. "
            f"Spaces with {metric.name}: {listed}."
        )

    def _asked(self, metrics: Names) -> list[Metric]:
        if metrics is None:
            return list(METRICS.values())
        names = [metrics] if isinstance(metrics, str) else list(metrics)
        if not names:
            raise invalid("metrics", "query", "a name, names or None", metrics)
        return list(dict.fromkeys(metric_of(m) for m in names))

    def _chosen(self, devices: Names) -> list[str]:
        known = _ordered(self._catalogue.devices())
        if devices is None:
            return known
        names = [devices] if isinstance(devices, str) else list(devices)
        if not names:
            raise invalid("devices", "query", "a name, names or None", devices)
        chosen = list(dict.fromkeys(canonical(d) for d in names))
        for name in chosen:
            if name not in known:
                raise unknown("device", name, known)
        return chosen


def _ordered(devices: set[str]) -> list[str]:
    """The catalogue's devices in its order, then the rest in alphabetical order."""
    first = [d for d in catalogue() if d in devices]
    return first + sorted(devices.difference(first))


def _moments(distribution: Distribution) -> Floats:
    """Median, mean, std, 5% and 95% of each row, shape (n, 5)."""
    surrogate = distribution.surrogate
    ends = distribution.quantiles(np.array([0.5, 0.05, 0.95]))
    moments = np.empty((len(ends), 2))
    for w in np.unique(distribution.width).tolist():
        rows = distribution.width == w
        levels = np.clip(MOMENT_LEVELS, *surrogate.calibration.support(w))
        values = distribution.take(rows).quantiles(levels)
        moments[rows] = np.stack([values.mean(axis=1), values.std(axis=1)], axis=1)
    return np.column_stack([ends[:, 0], moments, ends[:, 1:]])
