"""Fitting every artefact that a record store has observations for: in parallel, resumable.

One process fits one artefact with one thread, so the bytes do not depend on how many there are. An
artefact whose card names the same data, split, settings and versions is not fitted again.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import scipy
import threadpoolctl
import xgboost
from numpy.typing import NDArray

from hwbench.devices import canonical
from hwbench.errors import InvalidArtifact, InvalidStore, invalid, unknown
from hwbench.metrics import METRICS
from hwbench.metrics import metric as metric_of
from hwbench.records import Observations, Store
from hwbench.records.roles import labels_of_roles
from hwbench.records.split import CALIBRATE_FRACTION, SALT, TEST_FRACTION, digest, split, texts
from hwbench.surrogate.artifact import Card, load, read_card, relative_path, save
from hwbench.surrogate.fit import Fit, Measurements, drift_of, fit_surrogate
from hwbench.surrogate.scores import score
from hwbench.surrogate.settings import Settings

FEWEST_OF_FULL_EVIDENCE = 1000
"""Artefacts of fewer architectures than this are marked as of low evidence."""

FEWEST_TO_SPARE = 200
"""Of fewer subnetworks than this, none are kept from a fit of their quality to calibrate with."""


@dataclass(frozen=True, slots=True)
class Task:
    """One artefact to be fitted.

    Attributes:
        space: The space's name.
        device: The device, or None for a metric that belongs to none.
        metric: The metric's API name.
    """

    space: str
    device: str | None
    metric: str

    def __str__(self) -> str:
        """What a progress bar and an error call it."""
        return f"{self.metric} in {self.space}" + (f" on {self.device}" if self.device else "")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task.

    Attributes:
        task: The task.
        card: The artefact's card.
        fitted: Whether it was fitted now, or found as it would have been.
    """

    task: Task
    card: Card
    fitted: bool


def tasks(
    store: Store,
    spaces: Sequence[str] | None = None,
    devices: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
) -> list[Task]:
    """The artefacts that a store has observations for.

    Args:
        store: The store.
        spaces: Only these, or all.
        devices: Only these, or all and the metrics that belong to no device.
        metrics: Only these, or all.

    Raises:
        UnknownName: A name that the store does not have.
        InvalidStore: Nothing is left to fit.
    """
    names = None if metrics is None else [metric_of(m).name for m in metrics]
    chosen = None if devices is None else [canonical(d) for d in devices]
    for kind, wanted, there in (
        ("space of the store", spaces, store.spaces()),
        ("device of the store", chosen, store.devices()),
    ):
        for name in wanted or ():
            if name not in there:
                raise unknown(kind, name, there)
    found = []
    for space in store.spaces():
        if spaces is not None and space not in spaces:
            continue
        for device in (*store.devices(), None):
            if chosen is not None and device not in chosen:
                continue
            for metric in store.metrics(device, space):
                fits = metric in METRICS and METRICS[metric].needs_device == (device is not None)
                if fits and (names is None or metric in names):
                    found.append(Task(space, device, metric))
    if not found:
        raise InvalidStore(f"{store.path} has no observations of what was asked for.")
    return found


def fit_all(
    store: Store,
    out: Path,
    chosen: Sequence[Task],
    *,
    settings: Settings | None = None,
    workers: int = 1,
) -> Iterator[Outcome]:
    """Fit artefacts and write them, yielding each as it is done.

    One that cannot be fitted keeps none of the others from it.

    Args:
        store: The store.
        out: The root of the artefacts; existing ones that fit are kept.
        chosen: What to fit, from `tasks`.
        settings: How to fit.
        workers: How many processes.

    Yields:
        The outcomes, in the order in which they are done.

    Raises:
        InvalidValue: `workers` is no int >= 1.
        InvalidStore: After all others: a task's observations cannot be fitted.
        OSError: `out` cannot be written.
    """
    if type(workers) is not int or workers < 1:
        raise invalid("workers", "fit_all", "an int >= 1", workers)
    settings = settings or Settings()
    out.mkdir(parents=True, exist_ok=True)
    # The longest first, so that no worker ends long after the others.
    order = sorted(chosen, key=lambda t: (t.metric != "energy", t.metric != "latency"))
    work = (joblib.delayed(_tried)(store.path, out, task, settings) for task in order)
    failed = []
    for done in joblib.Parallel(n_jobs=workers, return_as="generator_unordered")(work):
        if isinstance(done, Outcome):
            yield done
        else:
            failed.append(str(done))
    if failed:
        more = f" {len(failed) - 1} more cannot be fitted either." if len(failed) > 1 else ""
        raise InvalidStore(f"{min(failed)}{more}")


def _tried(store: Path, out: Path, task: Task, settings: Settings) -> Outcome | InvalidStore:
    try:
        return fit_one(store, out, task, settings)
    except InvalidStore as error:
        return error


def fit_one(store_path: Path, out: Path, task: Task, settings: Settings) -> Outcome:
    """Fit one artefact with one thread, or find that it is there already."""
    with threadpoolctl.threadpool_limits(1):
        store = Store.open(store_path)
        return _fit(store, observations_of(store, task), out, task, settings)


def observations_of(store: Store, task: Task) -> Observations:
    """What a store has observed of a task.

    Raises:
        InvalidStore: Nothing, or under several workloads.
    """
    if task.device is None:
        found = store.quality(task.space, task.metric)
    else:
        found = store.observations(task.device, task.space, task.metric)
    if found is None:
        raise InvalidStore(f"{store.path} has no observations of {task}.")
    return found


def held_out(store: Store, card: Card) -> tuple[Measurements, NDArray[np.str_]]:
    """A store's observations of an artefact, labelled as its fit labelled them.

    Raises:
        InvalidStore: The store has no observations of it.
    """
    task = Task(card.search_space.name, card.device, card.metric)
    measured = Measurements.of(observations_of(store, task))
    if card.values["split"].get("campaign"):
        return measured, _labels(store, task, measured)
    rule = {name: card.values["split"][name] for name in ("salt", "test", "calibrate")}
    return measured, split(measured.table, **rule)


def _labels(store: Store, task: Task, measured: Measurements) -> NDArray[np.str_]:
    """What each observation is for: by its role in a profiling campaign, or by the split.

    Where so few subnetworks were scored that none can be spared, those that calibrate also train.
    """
    campaign = store.campaign(task.device, task.space) if task.device is not None else None
    if campaign is not None:
        return labels_of_roles(campaign, measured.table)
    labels = split(measured.table)
    if task.device is None and len(set(texts(measured.table))) < FEWEST_TO_SPARE:
        labels[labels == "calibrate"] = "both"
    return labels


def rescore(store: Store, card: Card) -> dict[str, Any]:
    """Score an artefact anew on the architectures that its fit held out.

    Args:
        store: The store that it was fitted on, or one that holds the same observations.
        card: The artefact's card.

    Returns:
        What `score` gives.

    Raises:
        InvalidStore: The store has no observations of it, or none that are held out.
    """
    measured, labels = held_out(store, card)
    surrogate = load(card)
    drift = drift_of(surrogate, measured, labels, card.metric)
    return score(Fit(surrogate, drift), measured, labels)


def _fit(
    store: Store, observations: Observations, out: Path, task: Task, settings: Settings
) -> Outcome:
    measured = Measurements.of(observations)
    labels = _labels(store, task, measured)
    about = _about(store, observations, measured, labels, settings)
    path = out / relative_path(task.space, task.device, task.metric)
    known = _fitting(path, about)
    if known is not None:
        return Outcome(task, known, False)
    try:
        fit = fit_surrogate(measured, labels, task.metric, settings)
    except InvalidStore as error:
        raise InvalidStore(f"Cannot fit {task}: {error}") from None
    scores = score(fit, measured, labels) if (labels == "test").any() else None
    chosen = {} if fit.shrink is None else {"chosen": {"shrink": fit.shrink}}
    return Outcome(task, save(out, fit.surrogate, {**about, **chosen, "scores": scores}), True)


def _fitting(path: Path, about: dict[str, Any]) -> Card | None:
    """The card at a path if its artefact is whole and says the same of how it was made."""
    try:
        card = read_card(path)
        load(card)
    except InvalidArtifact:
        return None
    return card if all(card.values.get(key) == value for key, value in about.items()) else None


def _about(
    store: Store,
    observations: Observations,
    measured: Measurements,
    labels: NDArray[np.str_],
    settings: Settings,
) -> dict[str, Any]:
    """All of a card that is known before the fit."""
    counts = {name: int((labels == name).sum()) for name in ("train", "calibrate", "test")}
    twice = int((labels == "both").sum())  # these train and calibrate
    counts["train"] += twice
    counts["calibrate"] += twice
    seen = len(labels) - counts["test"]
    test = texts(measured.table.take(labels == "test"))
    return {
        "device": observations.device,
        "metric": observations.metric,
        "unit": METRICS[observations.metric].unit,
        "workload": None if observations.workload is None else observations.workload.to_dict(),
        "evidence": "full" if seen >= FEWEST_OF_FULL_EVIDENCE else "low",
        "training": {
            "store": store.name,
            "sha256": _data_digest(measured),
            "observations": counts,
            "repeats": measured.values.shape[1],
            "smallest": float(measured.values.min()),
            "largest": float(measured.values.max()),
        },
        "split": {
            "salt": SALT,
            "test": TEST_FRACTION,
            "calibrate": CALIBRATE_FRACTION,
            **({"campaign": True} if twice and observations.device else {}),
            "test_architectures": len(set(test)),
            "test_sha256": digest(test),
        },
        "settings": settings.to_dict(),
        "versions": {
            "hwbench": importlib.metadata.version("hwbench"),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "xgboost": xgboost.__version__,
        },
    }


def _data_digest(measured: Measurements) -> str:
    """SHA-256 of everything that a fit reads."""
    digest = hashlib.sha256("\n".join(texts(measured.table)).encode())
    for column in (measured.session, measured.position, measured.values):
        digest.update(np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()
