"""How far the two bias tables of a base are drawn together, chosen where observations are few."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import ArchitectureTable
from hwbench.encode import Features
from hwbench.errors import InvalidStore
from hwbench.records.split import texts
from hwbench.surrogate.base import fit_layer_cost

Floats = NDArray[np.float64]

SHRINKS = (0.01, 0.1, 1.0, 3.0)
"""The weights that are tried: a clean device affords two tables, a noisy one needs one."""

_FOLDS = 8


def choose_shrink(table: ArchitectureTable, values: Floats, seed: int) -> float:
    """The weight of `fit_layer_cost`'s ridge with the least cross-validated error.

    Args:
        table: The architectures, n of them; all observations of one fall into one fold.
        values: What was observed of each, positive, shape (n,).
        seed: Deals the architectures to the folds.

    Returns:
        One of `SHRINKS`; the usual 1 where too little was measured to leave a fold out.
    """
    _, architecture = np.unique(texts(table), return_inverse=True)
    dealt = np.random.default_rng(seed).permutation(architecture.max() + 1) % _FOLDS
    fold, errors = dealt[architecture], np.zeros(len(SHRINKS))
    for held in range(_FOLDS):
        inside, outside = fold != held, fold == held
        if not outside.any():
            continue
        asked = Features(table.take(outside))
        for i, shrink in enumerate(SHRINKS):
            try:
                base = fit_layer_cost(table.take(inside), values[inside], shrink)
            except InvalidStore:
                return 1.0  # a width that only this fold has
            errors[i] += np.abs(base.predict(asked) / values[outside] - 1).sum()
    return SHRINKS[int(errors.argmin())]
