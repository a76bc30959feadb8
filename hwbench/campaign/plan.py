"""The plan: which architectures of a space a campaign measures, and in what order.

Some are designed, so that every cost in the table of layer costs is well determined (D-optimal:
Fedorov, 1972); some are drawn uniformly, as queries are, and tell how wide intervals must be. All
come in random order, so that what the machine does over time is not mistaken for what an
architecture costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace
from hwbench.cost import count_table
from hwbench.encode import Features, choice_counts
from hwbench.errors import InvalidStore, invalid

ROLES = ("designed", "random", "test")
"""What an architecture is measured for: the table of costs, the intervals, or to be scored on."""

DESIGNED_SHARE = 44 / 64
"""Share of a budget that is designed; the rest is drawn uniformly."""

CANDIDATES = 700
"""Uniform draws that a design is chosen among."""

_EXCHANGES = 3
_RIDGE = 0.05  # of one observation: enough that an information matrix is never singular


@dataclass(frozen=True, slots=True)
class Item:
    """One measurement of a plan.

    Attributes:
        role: One of `ROLES`.
        architecture: The architecture.
    """

    role: str
    architecture: Architecture


@dataclass(frozen=True, slots=True)
class Plan:
    """What a campaign measures.

    Attributes:
        items: In the order in which they are measured; a test architecture stands once for each
            pass over the test set.
        anchor: Measured again and again, so that the machine's drift can be seen.
        seed: What the draws were made with.
    """

    items: tuple[Item, ...]
    anchor: Architecture
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "seed": self.seed,
            "anchor": str(self.anchor),
            "items": [{"role": i.role, "architecture": str(i.architecture)} for i in self.items],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], space: SearchSpace) -> Plan:
        """The plan that `to_dict` wrote.

        Raises:
            InvalidStore: The values are no plan.
            InvalidArchitecture: An architecture is not in the space.
        """
        try:
            items = tuple(
                Item(ROLES[ROLES.index(i["role"])], Architecture.parse(i["architecture"], space))
                for i in values["items"]
            )
            anchor = Architecture.parse(values["anchor"], space)
            return cls(items, anchor, int(values["seed"]))
        except (KeyError, TypeError, ValueError) as error:
            said = str(error).rstrip(".")
            raise InvalidStore(f"A campaign's plan is incomplete: {said}.") from None


def make_plan(space: SearchSpace, budget: int = 64, tests: int = 0, seed: int = 0) -> Plan:
    """Choose what to measure.

    Args:
        space: The space.
        budget: Architectures to fit on, 44 of 64 of them designed.
        tests: Further architectures, drawn uniformly and measured in two passes, which fits leave
            out and scores are made on.
        seed: Of the draws and the order.

    Returns:
        The plan. Test architectures stand among the others, one pass in each half, so that the
        machine's drift is known around each of them.

    Raises:
        InvalidValue: A number is too small, or the space has too few architectures.
    """
    least = 8 * len(space.embed_dim)
    if type(budget) is not int or budget < least:
        allowed = f"an int >= {least}, eight for each embed_dim of space {space.name}"
        raise invalid("budget", "profile", allowed, budget)
    if type(tests) is not int or tests < 0:
        raise invalid("tests", "profile", "an int >= 0", tests)
    if 2 * (budget + tests) > space.size:
        allowed = f"with tests at most half of the {space.size} in space {space.name}"
        raise invalid("budget", "profile", allowed, budget + tests)
    rng = np.random.default_rng([seed, 7])
    n_designed = round(budget * DESIGNED_SHARE)
    # Queries are mixtures of layers. A design of extremes alone, which is what would be D-optimal,
    # fits them worse wherever costs do not quite add up or a machine throttles on the heaviest: so
    # the ends are in it, and the rest is chosen among a few hundred that were drawn as queries are.
    ends = _extremes(space)
    candidates = list(dict.fromkeys([*ends, *space.sample(CANDIDATES, rng)]))
    table = ArchitectureTable.of(candidates)
    chosen = d_optimal(table, n_designed, range(len(ends)), rng)
    designed = [candidates[i] for i in chosen]
    drawn = _different(space, budget - n_designed, set(designed), rng)
    items = [Item("designed", a) for a in designed] + [Item("random", a) for a in drawn]
    ordered = [items[i] for i in rng.permutation(len(items))]
    tested = [Item("test", a) for a in _different(space, tests, {*designed, *drawn}, rng)]
    half = len(ordered) // 2
    passes = ([*ordered[:half], *tested], [*ordered[half:], *tested])
    ordered = [part[i] for part in passes for i in rng.permutation(len(part))]
    return Plan(tuple(ordered), _anchor(space), seed)


def d_optimal(
    table: ArchitectureTable, n: int, forced: Sequence[int], rng: np.random.Generator
) -> list[int]:
    """The rows of a table that together determine the layer costs best.

    Maximises the determinant of the information on all coefficients when errors are relative:
    greedily, then by exchanges until none helps. Which rows suit does not depend on the device,
    since costs stand in for times.

    Args:
        table: The candidates.
        n: How many to choose.
        forced: Rows that are chosen in any case.
        rng: Breaks ties.

    Returns:
        The rows, forced ones first.
    """
    terms = design_terms(table)
    free = rng.permutation(len(table))
    inverse = np.eye(terms.shape[1]) / _RIDGE
    chosen: list[int] = []
    for row in forced[:n]:
        inverse = _with(inverse, terms[row])
        chosen.append(int(row))
    while len(chosen) < n:
        best = _most_informative(inverse, terms, free, chosen)
        inverse = _with(inverse, terms[best])
        chosen.append(best)
    for _ in range(_EXCHANGES):
        changed = False
        for place in range(len(forced), n):
            old = chosen[place]
            without = _with(inverse, terms[old], -1.0)
            best = _most_informative(without, terms, free, chosen[:place] + chosen[place + 1 :])
            inverse = _with(without, terms[best])
            changed |= best != old
            chosen[place] = best
        if not changed:
            break
    return chosen


def design_terms(table: ArchitectureTable) -> NDArray[np.float64]:
    """What the coefficients of the table of layer costs multiply, relative to the whole cost.

    For each width: a constant, the layers with each number of heads, and with each MLP ratio but
    the first; then the same again where there are biases.

    Returns:
        float64, shape (n, widths x terms x biases).
    """
    owner = table.search_space
    counts = np.delete(choice_counts(table), len(owner.n_head), axis=1)
    own = np.column_stack([np.full(len(table), max(owner.n_layer)), counts])
    # Multiply-accumulates, and a share for what does not grow with them, stand in for time.
    macs = count_table(table).macs.astype(np.float64)
    cost = macs / np.median(macs) + 0.2
    own = own / cost[:, None]
    width = Features(table).width
    blocks = [own * (width == w)[:, None] for w in range(len(owner.embed_dim))]
    if len(owner.bias) > 1:
        signed = np.where(table.bias, 0.5, -0.5)[:, None]
        blocks += [block * signed for block in blocks]
    scaled = np.concatenate(blocks, axis=1)
    return np.asarray(scaled / np.sqrt((scaled**2).mean(axis=0)))


def _with(
    inverse: NDArray[np.float64], row: NDArray[np.float64], sign: float = 1.0
) -> NDArray[np.float64]:
    """The inverse of an information matrix with one row more, or less (Sherman and Morrison)."""
    along = inverse @ row
    return np.asarray(inverse - sign * np.outer(along, along) / (1 + sign * row @ along))


def _most_informative(
    inverse: NDArray[np.float64],
    terms: NDArray[np.float64],
    free: NDArray[np.intp],
    taken: Sequence[int],
) -> int:
    gain = ((terms @ inverse) * terms).sum(axis=1)
    gain[list(taken)] = -1.0
    return int(free[gain[free].argmax()])


def _extremes(space: SearchSpace) -> list[Architecture]:
    """The smallest and the largest architecture of each width, their layers alike."""
    return [
        end.replace(embed_dim=d, bias=bias)
        for d in space.embed_dim
        for end, bias in ((space.smallest, min(space.bias)), (space.largest, max(space.bias)))
    ]


def _different(
    space: SearchSpace, n: int, taken: set[Architecture], rng: np.random.Generator
) -> list[Architecture]:
    """Architectures drawn uniformly, none of them taken already or twice."""
    found: dict[Architecture, None] = {}
    while len(found) < n:
        found |= dict.fromkeys(a for a in space.sample(n, rng) if a not in taken)
    return list(found)[:n]


def _anchor(space: SearchSpace) -> Architecture:
    """The middle of every choice."""

    def middle(choices: Sequence[Any]) -> Any:
        return sorted(choices)[len(choices) // 2]

    n = middle(space.n_layer)
    heads, ratios = (middle(space.n_head),) * n, (middle(space.mlp_ratio),) * n
    return Architecture.unchecked(
        space, n, middle(space.embed_dim), heads, ratios, middle(space.bias)
    )
