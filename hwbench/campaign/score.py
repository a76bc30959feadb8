"""Scores of a profile on its test architectures, beside what the machine itself repeats to."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwbench.errors import InvalidStore
from hwbench.records import Store
from hwbench.records.split import texts


def score_profile(store: Store, artifacts: Any, device: str, space: str) -> dict[str, Any]:
    """Score a profile's latency on the architectures that were measured to score it.

    Args:
        store: The store that a campaign with `tests` wrote.
        artifacts: The folder that `hwbench fit` wrote.
        device: The device.
        space: The space's name.

    Returns:
        What `hwbench.surrogate.scores.score` gives, and in percent `noise`, the mean of
        |x1 / x2 - 1| over the medians of the two passes, and `error_over_noise`, the
        drift-adjusted error over it.

    Raises:
        InvalidStore: No architecture was measured in two passes.
        InvalidArtifact: There is no artefact of the latency.
    """
    # Surrogates load XGBoost; planning and measuring do without it.
    from hwbench.surrogate.artifact import read_card, relative_path
    from hwbench.surrogate.fit_all import held_out, rescore

    card = read_card(artifacts / relative_path(space, device, "latency"))
    measured, labels = held_out(store, card)
    test = measured.take(labels == "test")
    names = np.array(texts(test.table))
    passes = [test.medians[names == name] for name in np.unique(names).tolist()]
    pairs = np.array([values[:2] for values in passes if len(values) > 1])
    if not len(pairs):
        raise InvalidStore(f"{store.path} has no architecture of {device} in two passes.")
    noise = 100 * float(np.mean(np.abs(pairs[:, 0] / pairs[:, 1] - 1)))
    scores = rescore(store, card)
    over = scores["mape_drift_adjusted"] / noise
    return {**scores, "passes": len(pairs), "noise": noise, "error_over_noise": over}
