"""When a pass is warm, and when it was repeated often enough: on clocks that tests move."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

import pytest

from hwbench.errors import InvalidValue
from hwbench.measure.protocol import Protocol, repeat
from tests.measure.fakes import Clock


def scripted(clock: Clock, times_ms: Iterator[float]) -> Callable[[], float]:
    """A pass whose times are given, and pass on the clock."""

    def timed_pass() -> float:
        time_ms = next(times_ms)
        clock.pass_time(time_ms / 1e3)
        return time_ms

    return timed_pass


def forever(*first: float, then: float) -> Iterator[float]:
    yield from first
    while True:
        yield then


def test_a_first_call_100_times_slower_leaves_the_median_unchanged() -> None:
    clock = Clock()
    found = repeat(scripted(clock, forever(1000.0, then=10.0)), Protocol(), clock)
    assert found.warmup_ms == (1000.0, 10.0, 10.0, 10.0)
    assert statistics.median(found.repeats_ms) == 10.0
    assert set(found.repeats_ms) == {10.0}
    assert found.stable


def test_both_enough_repeats_and_enough_time() -> None:
    clock = Clock()
    short = repeat(scripted(clock, forever(then=20.0)), Protocol(min_time_s=1.0), clock)
    assert len(short.repeats_ms) == 50  # time was short after ten
    clock = Clock()
    long = repeat(scripted(clock, forever(then=500.0)), Protocol(min_time_s=1.0), clock)
    assert len(long.repeats_ms) == 10  # repeats were few after one second
    assert long.wall_s == pytest.approx(13 * 0.5)


def test_within_a_maximum_of_repeats_and_of_time() -> None:
    clock = Clock()
    many = repeat(scripted(clock, forever(then=0.01)), Protocol(max_repeats=30), clock)
    assert len(many.repeats_ms) == 30
    clock = Clock()
    slow = Protocol(max_warmup_s=5, max_time_s=25)
    found = repeat(scripted(clock, forever(then=10_000.0)), slow, clock)
    assert len(found.warmup_ms) == 1
    assert len(found.repeats_ms) == 3
    assert not found.stable


def test_times_that_never_agree_are_taken_and_said_to_be_unstable() -> None:
    clock = Clock()

    def restless() -> Iterator[float]:
        while True:
            yield from (1.0, 2.0)

    found = repeat(scripted(clock, restless()), Protocol(max_warmup=7), clock)
    assert not found.stable
    assert len(found.warmup_ms) == 7


def test_a_slow_approach_is_warmed_up_until_it_is_over() -> None:
    clock = Clock()
    falling = [100.0 * 0.9**i for i in range(20)]
    found = repeat(scripted(clock, forever(*falling, then=11.0)), Protocol(), clock)
    assert found.repeats_ms[0] == 11.0


@pytest.mark.parametrize(
    "field, value", [("min_repeats", 0), ("min_time_s", -1.0), ("stable_within", True)]
)
def test_numbers_are_positive(field: str, value: float) -> None:
    with pytest.raises(InvalidValue, match=field):
        Protocol(**{field: value})


def test_a_least_is_at_most_its_most() -> None:
    with pytest.raises(InvalidValue, match="at most max_repeats"):
        Protocol(min_repeats=20, max_repeats=10)
