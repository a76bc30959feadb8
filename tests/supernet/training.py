"""Small training runs that tests share: what is trained, how, and how one is broken off."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hwbench.supernet import Subnetworks, Supernet, TrainSettings, train
from tests.supernet.tiny import CONTEXT, tiny_supernet

ROOT = Path(__file__).parents[2]
TOKENS = np.random.default_rng(0).integers(0, 40, 3000)
SETTINGS = TrainSettings(
    steps=12, batch_size=4, context=CONTEXT, warmup_steps=3, save_every=5, precision="float32"
)
ABOUT = {"data": "drawn", "data_sha256": "0"}


def run(folder: Path, settings: TrainSettings = SETTINGS, **more: Any) -> Supernet:
    """Train a tiny supernet into a folder."""
    what = Subnetworks(tiny_supernet(folder.parent / f"{folder.name}-parent", **more))
    done = train(what, TOKENS, settings, folder, data=ABOUT, device="cpu")
    assert isinstance(done, Subnetworks)
    return done.supernet


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


class Stopped(Exception):
    pass


def stop_after(steps: int) -> Callable[[int], None]:
    """A progress callback that breaks a run off."""
    seen = 0

    def progress(done: int) -> None:
        nonlocal seen
        seen += done
        if seen >= steps:
            raise Stopped

    return progress
