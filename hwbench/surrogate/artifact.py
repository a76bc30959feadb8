"""Artefacts: fitted surrogates on disk, one JSON card and XGBoost's own UBJSON files each.

    <root>/<space>/<device>/<metric>.json                a metric of a device
    <root>/<space>/<metric>.json                         a metric that belongs to no device
    beside it <metric>.correction.ubj, <metric>.spread.ubj   its boosters, where it has them

A card holds everything about its artefact but the boosters, whose SHA-256 it holds, and its own
SHA-256, the artefact's id. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

from hwbench.architectures import SearchSpace
from hwbench.encode import encoder
from hwbench.errors import HwbenchError, InvalidArtifact, brief, invalid
from hwbench.surrogate.base import base_from_dict
from hwbench.surrogate.calibration import Calibration
from hwbench.surrogate.surrogate import Booster, Components, Spread, Surrogate
from hwbench.surrogate.transform import transform
from hwbench.workload import Workload

FORMAT = 1
"""Raised when a card means something else than it did."""

_BOOSTERS = ("correction", "spread")


@dataclass(frozen=True, eq=False)
class Card:
    """What an artefact says of itself.

    Attributes:
        path: The card's file.
        values: Everything it holds.
        search_space: The space it was fitted in.
        device: The device, or None.
        metric: The metric's API name.
        workload: What its numbers are of, or None for perplexity and accuracy.
        id: SHA-256 of the card, which holds those of its boosters.
    """

    path: Path
    values: Mapping[str, Any]
    search_space: SearchSpace
    device: str | None
    metric: str
    workload: Workload | None
    id: str

    @property
    def scores(self) -> Mapping[str, Any] | None:
        """Scores on held-out architectures, or None where there were none to score on."""
        found: Mapping[str, Any] | None = self.values["scores"]
        return found

    @property
    def evidence(self) -> str:
        """How much was observed: "low" where few architectures were, otherwise "full"."""
        return str(self.values["evidence"])


def relative_path(space: str, device: str | None, metric: str) -> Path:
    """Where an artefact's card lies below its root.

    >>> relative_path("s", "h100", "latency").as_posix()
    's/h100/latency.json'
    """
    parts = (space, metric) if device is None else (space, device, metric)
    return Path(*parts[:-1], f"{parts[-1]}.json")


def save(root: Path, surrogate: Surrogate, about: Mapping[str, Any]) -> Card:
    """Write an artefact: its boosters, then its card, each beside its place and then renamed.

    Args:
        root: Where artefacts lie; folders are made.
        surrogate: The fitted surrogate.
        about: The rest of the card: device, metric, workload, evidence, scores, training, split,
            settings, versions. The card is a function of these and the surrogate alone.

    Returns:
        The card.

    Raises:
        OSError: The folder cannot be written.
    """
    path = root / relative_path(surrogate.search_space.name, about["device"], about["metric"])
    path.parent.mkdir(parents=True, exist_ok=True)
    boosters, stale = {}, []
    for part, booster in zip(
        _BOOSTERS, (surrogate.correction, surrogate.spread.booster), strict=True
    ):
        file = path.with_name(f"{path.stem}.{part}.ubj")
        if booster is None:
            stale.append(file)
            continue
        content = bytes(booster.model.save_raw("ubj"))
        write_file(file, content)
        boosters[part] = {
            "file": file.name,
            "sha256": hashlib.sha256(content).hexdigest(),
            "encoder": booster.encoder.name,
            "encoder_version": booster.encoder.version,
        }
    values = {**about, **_described(surrogate), "format": FORMAT, "boosters": boosters}
    identity = _digest(values)
    write_file(path, _text({**values, "id": identity}).encode())
    for file in stale:
        file.unlink(missing_ok=True)
    return read_card(path)


def _described(surrogate: Surrogate) -> dict[str, Any]:
    spread, parts = surrogate.spread, surrogate.components
    return {
        "space": surrogate.search_space.to_dict(),
        "transform": surrogate.transform.name,
        "base": surrogate.base.to_dict(),
        "spread": {
            "scores": spread.scores.tolist(),
            "scale": spread.scale.tolist(),
            "knots": spread.knots.tolist(),
            "tails": spread.tails.tolist(),
        },
        "calibration": surrogate.calibration.to_dict(),
        "components": {
            "repeat": None if parts.repeat is None else parts.repeat.tolist(),
            "drift": parts.drift.tolist(),
            "model": parts.model.tolist(),
        },
    }


def write_file(path: Path, content: bytes) -> None:
    """Write a file beside its place and rename it, so that it is never there in part.

    Raises:
        OSError: It cannot be written; nothing is left of it.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _text(values: Mapping[str, Any]) -> str:
    """One line a top-level key, so that a card can be read and compared."""
    lines = (
        f"{json.dumps(key)}: {json.dumps(values[key], allow_nan=False, sort_keys=True)}"
        for key in sorted(values)
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(values).encode()).hexdigest()


def read_card(path: Path) -> Card:
    """Read a card and check that it is whole.

    Raises:
        InvalidArtifact: It cannot be read, its hash does not fit, or it is of another format.
    """
    try:
        values = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidArtifact(f"Cannot read the card {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise InvalidArtifact(f"The card {path} is not JSON: {error}.") from None
    if not isinstance(values, dict) or "format" not in values:
        raise InvalidArtifact(f"The card {path} must be an artefact's card. Got no 'format'.")
    if values["format"] != FORMAT:
        raise InvalidArtifact(
            f"The card {path} must be of format {FORMAT}. Got {values['format']!r}: it was made "
            f"by another version of hwbench; fit it again, or use that version."
        )
    try:
        found = _digest({k: v for k, v in values.items() if k != "id"})
    except ValueError:
        raise InvalidArtifact(f"The card {path} must hold finite numbers alone.") from None
    if values.get("id") != found:
        raise InvalidArtifact(
            f"The card {path} must have the hash that it names. It was changed after the fit."
        )
    try:
        workload = values["workload"]
        if values["evidence"] not in ("full", "low"):
            raise invalid("evidence", "a card", "'full' or 'low'", values["evidence"])
        return Card(
            path,
            values,
            SearchSpace.from_dict(values["space"]),
            values["device"],
            values["metric"],
            None if workload is None else Workload.from_dict(workload),
            values["id"],
        )
    except KeyError as error:
        raise InvalidArtifact(f"The card {path} has no {error}.") from None
    except HwbenchError as error:
        raise InvalidArtifact(f"The card {path} is not usable: {error}") from None


def load(card: Card) -> Surrogate:
    """The surrogate that a card describes; its boosters are read and checked.

    Raises:
        InvalidArtifact: A booster is missing, its hash does not fit, or an encoder is of another
            version.
    """
    values = card.values
    try:
        boosters = {part: _booster(card, part) for part in _BOOSTERS}
        shape = {k: np.asarray(v, np.float64) for k, v in values["spread"].items()}
        parts = values["components"]
        repeat = None if parts["repeat"] is None else np.asarray(parts["repeat"], np.float64)
        drift, model = (np.asarray(parts[k], np.float64) for k in ("drift", "model"))
        made = Surrogate(
            card.search_space,
            transform(values["transform"]),
            base_from_dict(values["base"], card.search_space),
            boosters["correction"],
            Spread(**shape, booster=boosters["spread"]),
            Calibration.from_dict(values["calibration"]),
            Components(repeat, drift, model),
        )
        _check_shapes(made)
    except HwbenchError as error:
        raise InvalidArtifact(f"The artefact {card.path} is not usable: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # XGBoost adds its stack to what is wrong with a model; the first line says it.
        reason = brief(str(error).split("\n")[0], limit=200)
        raise InvalidArtifact(f"The artefact {card.path} is damaged: {reason}.") from None
    return made


def _check_shapes(made: Surrogate) -> None:
    """What stands once for each width must do so, or one would be answered by another."""
    widths, levels = len(made.search_space.embed_dim), len(made.spread.scores)
    found = {
        "spread's scale": (made.spread.scale, (widths,)),
        "spread's knots": (made.spread.knots, (widths, levels)),
        "spread's tails": (made.spread.tails, (widths, 2)),
        "components' drift": (made.components.drift, (widths,)),
        "components' model": (made.components.model, (widths,)),
    }
    if made.components.repeat is not None:
        found["components' repeat"] = (made.components.repeat, (widths,))
    for name, (values, shape) in found.items():
        if values.shape != shape:
            raise InvalidArtifact(f"Its {name} must have shape {shape}. Got {values.shape}.")
    if len(made.calibration.levels) != widths:
        raise InvalidArtifact(
            f"Its calibration must have {widths} groups. Got {len(made.calibration.levels)}."
        )


def _booster(card: Card, part: str) -> Booster | None:
    about = card.values["boosters"].get(part)
    if about is None:
        return None
    path = card.path.with_name(Path(about["file"]).name)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidArtifact(f"Cannot read the booster {path.name}: {error.strerror}.") from None
    if hashlib.sha256(content).hexdigest() != about["sha256"]:
        raise InvalidArtifact(
            f"The booster {path.name} must have the hash that its card names. Got another: it is "
            f"damaged, or of another fit."
        )
    made = encoder(about["encoder"])
    if made.version != about["encoder_version"]:
        raise InvalidArtifact(
            f"It must be of version {made.version} of encoder {made.name}. Got version "
            f"{about['encoder_version']}: install the hwbench that fitted it, or fit again."
        )
    model = xgboost.Booster()
    model.load_model(bytearray(content))
    return Booster(model, made)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All artefacts below some roots; a later root lies over the earlier ones.

    Attributes:
        cards: The card's file for each (space, device or None, metric).
    """

    cards: Mapping[tuple[str, str | None, str], Path]

    @classmethod
    def of(cls, *roots: Path) -> Catalogue:
        """Find the artefacts below roots; no file is opened.

        Raises:
            InvalidArtifact: A root is no folder, or a folder cannot be read.
        """
        found: dict[tuple[str, str | None, str], Path] = {}
        for root in roots:
            for folder, below, names in os.walk(root, onerror=_refuse, followlinks=True):
                parts = Path(folder).relative_to(root).parts
                below.sort()
                if not parts:
                    continue
                if len(parts) == 2:
                    below.clear()
                device = parts[1] if len(parts) == 2 else None
                for path in (Path(folder, name) for name in sorted(names)):
                    if path.suffix == ".json":
                        found[parts[0], device, path.stem] = path
        return cls(found)

    def devices(self, space: str | None = None) -> set[str]:
        """The devices with an artefact in a space, or in any."""
        return {d for s, d, _ in self.cards if d is not None and space in (None, s)}

    def metrics(self, space: str, device: str | None) -> set[str]:
        """The metrics with an artefact in a space on a device, or on none."""
        return {m for s, d, m in self.cards if s == space and d == device}

    def card(self, space: str, device: str | None, metric: str) -> Card | None:
        """An artefact's card, read once a process, or None where there is no such artefact.

        Raises:
            InvalidArtifact: The card is damaged, or is that of another artefact.
        """
        path = self.cards.get((space, device, metric))
        if path is None:
            return None
        try:
            changed = path.stat().st_mtime_ns
        except OSError as error:
            raise InvalidArtifact(f"Cannot read the card {path}: {error.strerror}.") from None
        card = _card_once(path, changed)
        if (card.search_space.name, card.device, card.metric) != (space, device, metric):
            raise InvalidArtifact(
                f"The card {path} must be of {metric} on {device} in {space}. "
                f"Got {card.metric} on {card.device} in {card.search_space.name} instead."
            )
        return card

    def surrogate(self, card: Card) -> Surrogate:
        """The surrogate of a card, loaded once a process."""
        return _surrogate_once(card)


def _refuse(error: OSError) -> None:
    raise InvalidArtifact(f"Cannot read the artefacts in {error.filename!r}: {error.strerror}.")


@cache
def _card_once(path: Path, changed: int) -> Card:
    return read_card(path)


@cache
def _surrogate_once(card: Card) -> Surrogate:
    return load(card)


def shipped() -> Path:
    """The folder of the artefacts that come with hwbench."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_surrogates"
    return installed if installed.is_dir() else package.parent / "surrogates"
