"""Surrogates: fitting, calibration, scores, and artefacts on disk."""

# ruff: noqa: E402 - how xgboost is imported must be settled before the modules below import it

from hwbench.processes import import_xgboost_alone

import_xgboost_alone()

from hwbench.surrogate.artifact import Card, Catalogue, load, read_card, save, shipped
from hwbench.surrogate.surrogate import Distribution, Surrogate

__all__ = [
    "Card",
    "Catalogue",
    "Distribution",
    "Surrogate",
    "load",
    "read_card",
    "save",
    "shipped",
]
