"""`Settings`: how surrogates are fitted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """How surrogates are fitted; a card holds it, so that a fit can be repeated.

    Attributes:
        levels: The levels that the spread models.
        shrink: The ridge on the difference between a base's two bias tables, in observations.
        correction_rounds: Trees of the location's correction.
        correction_depth: Their depth.
        correction_least: Fewest training architectures in a leaf of them.
        level_rounds: Trees that the correction may add for the level, see
            `hwbench.surrogate.boosting`.
        spread_rounds: Trees of the spread at each level.
        spread_depth: Their depth.
        spread_least: Fewest training architectures in a leaf of them.
        learning_rate: Of both boosters.
        repeats: Repeats of an architecture that the spread is fitted on, drawn by the seed.
        fewest: Training architectures below which no booster is fitted.
        seed: Of every draw in a fit.
    """

    levels: tuple[float, ...] = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
    shrink: float = 1.0
    correction_rounds: int = 60
    correction_depth: int = 4
    correction_least: int = 50
    level_rounds: int = 20
    spread_rounds: int = 20
    spread_depth: int = 2
    spread_least: int = 100
    learning_rate: float = 0.1
    repeats: int = 8
    fewest: int = 1000
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, ready for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
