"""Perplexity and accuracy of many subnetworks into a record store, resumable.

The store's `source` says with what the figures were found: checkpoint, data, context and stride. A
store takes figures of one such protocol only, so that a surrogate is fitted on what compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor

from hwbench.architectures import Architecture
from hwbench.errors import InvalidValue
from hwbench.records import Readings, Store, StoreWriter
from hwbench.records.schema import MANIFEST
from hwbench.supernet.perplexity import Perplexity, Windows, perplexity
from hwbench.supernet.supernet import Supernet
from hwbench.supernet.tokens import Data


def subnetwork_perplexity(
    supernet: Supernet,
    arch: Architecture,
    data: Data,
    windows: Windows,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] = lambda tokens: None,
) -> Perplexity:
    """How well a subnetwork predicts a text.

    Args:
        supernet: The supernet, on `device`.
        arch: An architecture of its space.
        data: The text.
        windows: How a window slides over it.
        device: Where the supernet is.
        progress: Called with the number of tokens that were scored since.

    Raises:
        InvalidArchitecture: The architecture is none of the space.
        InvalidValue: See `perplexity`; or the context is longer than the model's.
    """
    most = supernet.model.config.context
    if windows.context > most:
        raise InvalidValue(
            f"The context must be at most the model's {most} tokens. Got {windows.context} instead."
        )

    def logits(tokens: Tensor) -> Tensor:
        found: Tensor = supernet(arch, tokens)
        return found

    return perplexity(logits, data, windows, device=device, progress=progress)


def source_of(supernet: Supernet, data: Data, windows: Windows) -> str:
    """The protocol in one line, as a store's `source`."""
    steps = sum(int(run["steps"]) for run in supernet.history)
    tokeniser = "none" if supernet.tokeniser is None else supernet.tokeniser.sha256[:12]
    return (
        f"hwbench supernet: parent {supernet.origin['name']}, {steps} steps, weights "
        f"{supernet.digest()[:12]}, widths {supernet.widths}, layers {supernet.layers}; data "
        f"{data.path.name} {data.sha256[:12]}, tokeniser {tokeniser}, context "
        f"{windows.context}, stride {windows.stride}"
    )


def record_quality(
    supernet: Supernet,
    architectures: Iterable[Architecture],
    data: Data,
    store: str | Path,
    windows: Windows,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] = lambda done: None,
) -> int:
    """Write perplexity and accuracy of subnetworks into a store, those apart that it has.

    Args:
        supernet: The supernet, on `device`.
        architectures: Architectures of its space; duplicates are scored once.
        data: The text.
        store: The store's folder; made if it is not there.
        windows: How a window slides over the text.
        device: Where the supernet is.
        progress: Called with the number of architectures that were done since.

    Returns:
        How many were scored now.

    Raises:
        InvalidArchitecture: An architecture is none of the space; nothing is written.
        InvalidValue: The store holds figures of another protocol; or see `perplexity`.
        InvalidStore: The store could not be read or written.
    """
    wanted = list(dict.fromkeys(architectures))
    for arch in wanted:
        supernet.check(arch)
    source = source_of(supernet, data, windows)
    place = Path(store)
    there = (place / MANIFEST).is_file()
    scored = _scored(Store.open(place), supernet, source) if there else set()
    missing = [a for a in wanted if a not in scored]
    progress(len(wanted) - len(missing))
    for at, arch in enumerate(missing, start=len(scored)):
        found = subnetwork_perplexity(supernet, arch, data, windows, device=device)
        if not there:  # a store is made once there is something to put into it
            StoreWriter.create(place, name=place.resolve().name, source=source, licence="unstated")
            there = True
        StoreWriter.open(place).append(
            Readings.one(arch, "perplexity", [found.perplexity], position=at),
            Readings.one(arch, "accuracy", [found.accuracy], position=at),
        )
        progress(1)
    return len(missing)


def _scored(store: Store, supernet: Supernet, source: str) -> set[Architecture]:
    """What the store has figures of.

    Raises:
        InvalidValue: It holds figures of another protocol.
    """
    if store.manifest.source != source:
        raise InvalidValue(
            f"The store {store.path} holds figures of another protocol: {store.manifest.source}. "
            f"This one is: {source}."
        )
    if supernet.space.name not in store.spaces():
        return set()
    known = store.quality(supernet.space.name, "perplexity")
    return set() if known is None else set(known.table.architectures())
