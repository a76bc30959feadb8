"""Surrogates: fitting, calibration, scores, and artefacts on disk."""

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
