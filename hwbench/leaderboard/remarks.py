"""What stands above the optimisers' table: what was compared, and who does not beat random search.

Of whoever does not, the page says what the runs show of why. All of it is computed from them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwbench.leaderboard.optimisers import Comparison
from hwbench.search import ALGORITHMS

_ABOUT = """Regret is the share of the best known front's hypervolume that a run's front lacks;
ranks are by mean regret on each task, 1 is best. Intervals are bootstrapped over seeds, 95%. IGD+
and epsilon are of normalised costs. All optimisers are compared after the same number of
evaluations."""

_RANDOM = "random"


def remarks(compared: Sequence[Comparison]) -> str:
    """Paragraphs in Markdown on the parts of a suite."""
    paragraphs = [_ABOUT]
    for c in compared:
        paragraphs += [_about(c), *(_why(c, name, compared) for name in not_below_random(c))]
    return "\n\n".join(paragraphs)


def not_below_random(c: Comparison) -> list[str]:
    """The optimisers whose mean regret at the end is not below that of random search."""
    if _RANDOM not in c.names:
        return []
    above, _ = c.excess(_RANDOM, -1)
    return [n for n, a in zip(c.names, above, strict=True) if n != _RANDOM and a >= 0]


def _about(c: Comparison) -> str:
    p = c.part
    line = (
        f"**{p.name}**: {_many(len(c.tasks), 'task')} ({_many(len(p.spaces), 'space')}, "
        f"{_many(len(p.devices), 'device')}, {_many(len(p.objectives), 'set')} of objectives), "
        f"{_many(p.seeds, 'seed')}, {_many(p.evaluations, 'evaluation')}."
    )
    behind = not_below_random(c)
    if behind:
        line += f" Not below random search at the end: {', '.join(behind)}."
    if c.incomplete:
        line += f" Not compared, for runs are missing: {', '.join(c.incomplete)}."
    return line


def _many(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def _why(c: Comparison, name: str, compared: Sequence[Comparison]) -> str:
    """What the runs show of an optimiser that is not below random search."""
    said = [f"**{name}**, {c.part.name}: {_difference(c, name)}"]
    alike = _alike(c, name)
    if alike is not None:
        left = c.at[-1] - alike
        said.append(
            f"Seed by seed its runs score what random search's do up to {alike} evaluations, so "
            f"they are random until then, which leaves {left or 'none'} to learn from."
        )
    for other in compared:
        if other is not c and {name, _RANDOM} <= set(other.names):
            mark = _below_from(other, name)
            where = "at no mark" if mark is None else f"from {mark} evaluations on"
            said.append(
                f"In part {other.part.name} the difference's interval lies below 0 {where}."
            )
    if name in ALGORITHMS and ALGORITHMS[name].baseline:
        said.append("It is here as a baseline.")
    return " ".join(said)


def _difference(c: Comparison, name: str) -> str:
    i = c.names.index(name)
    above, ends = c.excess(_RANDOM, -1)
    low, high = ends[i].tolist()
    if not above[i]:
        return f"after {c.at[-1]} evaluations its mean regret is that of random search."
    line = (
        f"after {c.at[-1]} evaluations its mean regret lies {above[i]:.2g} above that of random "
        f"search, with an interval from {low:.2g} to {high:.2g}"
    )
    return f"{line}: the runs show no difference." if low <= 0 <= high else f"{line}."


def _alike(c: Comparison, name: str) -> int | None:
    """The last mark up to which every run has the regret of random search's, if there is one."""
    i, r = c.names.index(name), c.names.index(_RANDOM)
    same = (c.regret[i] == c.regret[r]).all(axis=(0, 1)).tolist()
    reached = int(np.argmin([*same, False]))
    return c.at[reached - 1] if reached else None


def _below_from(c: Comparison, name: str) -> int | None:
    """The mark from which on the interval of the difference is below 0 to the end, if any."""
    i = c.names.index(name)
    below = [bool(c.excess(_RANDOM, k)[1][i, 1] < 0) for k in range(len(c.at))]
    start = len(below) - int(np.argmin([*reversed(below), False]))
    return c.at[start] if start < len(below) else None
