"""When a measurement is warm, and when it has enough repeats.

A pass is run until its times are stable, which is recorded apart; then it is repeated until there
are both enough repeats and enough time, within a maximum.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, fields

from hwbench.errors import invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How often a pass is run.

    Attributes:
        min_warmup: Warm-up passes that are run at least, and that must agree.
        stable_within: How far the last `min_warmup` passes may lie from their median, as a share
            of it, for the pass to be warm.
        max_warmup: Warm-up passes that are run at most.
        max_warmup_s: Time after which no further warm-up pass is begun.
        min_repeats: Repeats that are taken at least.
        min_time_s: Time that the repeats take at least.
        max_repeats: Repeats that are taken at most.
        max_time_s: Time after which no further repeat is begun, however few there are.

    Raises:
        InvalidValue: A number is not positive and finite, or a least exceeds its most.
    """

    min_warmup: int = 3
    stable_within: float = 0.05
    max_warmup: int = 50
    max_warmup_s: float = 10.0
    min_repeats: int = 10
    min_time_s: float = 1.0
    max_repeats: int = 200
    max_time_s: float = 60.0

    def __post_init__(self) -> None:
        """Check every number."""
        for field in fields(self):
            value: object = getattr(self, field.name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 < value < math.inf:  # type: ignore[operator]
                raise invalid(field.name, "Protocol", "a finite number > 0", value)
        for least, most in (
            ("min_warmup", "max_warmup"),
            ("min_repeats", "max_repeats"),
            ("min_time_s", "max_time_s"),
        ):
            if getattr(self, least) > getattr(self, most):
                raise invalid(least, "Protocol", f"at most {most}", getattr(self, least))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What repeating a pass gave.

    Attributes:
        warmup_ms: Times of the warm-up passes, in order.
        repeats_ms: Times of the repeats, in order.
        stable: Whether the warm-up ended because the times agreed.
        wall_s: How long all of it took.
    """

    warmup_ms: tuple[float, ...]
    repeats_ms: tuple[float, ...]
    stable: bool
    wall_s: float


def repeat(
    timed_pass: Callable[[], float],
    protocol: Protocol,
    now: Callable[[], float] = time.perf_counter,
) -> Timed:
    """Warm a pass up and repeat it.

    Args:
        timed_pass: Runs one pass and returns its time in milliseconds.
        protocol: How often.
        now: Seconds of a clock that never goes back.

    Returns:
        All times.

    >>> answers = iter([100.0, 1.0, 1.0, 1.0, *[1.0] * 10])
    >>> short = Protocol(min_time_s=1e-9, max_repeats=10)
    >>> repeat(lambda: next(answers), short).warmup_ms
    (100.0, 1.0, 1.0, 1.0)
    """
    begun = now()
    warmup: list[float] = []
    stable = False
    while len(warmup) < protocol.max_warmup and not stable:
        warmup.append(timed_pass())
        stable = _stable(warmup[-protocol.min_warmup :], protocol)
        if now() - begun >= protocol.max_warmup_s:
            break
    start = now()
    repeats: list[float] = []
    while len(repeats) < protocol.max_repeats:
        repeats.append(timed_pass())
        spent = now() - start
        enough = len(repeats) >= protocol.min_repeats and spent >= protocol.min_time_s
        if enough or spent >= protocol.max_time_s:
            break
    return Timed(
        warmup_ms=tuple(warmup), repeats_ms=tuple(repeats), stable=stable, wall_s=now() - begun
    )


def _stable(last: list[float], protocol: Protocol) -> bool:
    middle = statistics.median(last)
    near = all(abs(value - middle) <= protocol.stable_within * middle for value in last)
    return near and len(last) == protocol.min_warmup
