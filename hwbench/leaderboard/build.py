"""The leaderboard of a suite: its tables as Markdown, CSV and JSON, and whether they are true."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwbench.errors import InvalidValue
from hwbench.leaderboard.budgets import winner_rows
from hwbench.leaderboard.devices import device_rows
from hwbench.leaderboard.optimisers import Comparison, compare, optimiser_rows, task_rows
from hwbench.leaderboard.remarks import remarks
from hwbench.leaderboard.suite import Suite
from hwbench.surrogate import Catalogue, report, shipped
from hwbench.surrogate.artifact import write_file

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a leaderboard.

    Attributes:
        name: The name of its CSV file and its key in JSON.
        title: Its heading.
        text: What a reader needs to know, in Markdown.
        rows: The rows, which share their keys.
    """

    name: str
    title: str
    text: str
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """All tables of a suite.

    Attributes:
        suite: The suite.
        tables: The tables in order.
        comparisons: What the optimisers' tables were made from.
    """

    suite: Suite
    tables: tuple[Table, ...]
    comparisons: tuple[Comparison, ...]


def marks_of(c: Comparison) -> list[int]:
    """The marks that the optimisers' table shows: a fifth of the budget, and the whole."""
    return [k for k in c.at if k in (c.part.evaluations // 5, c.part.evaluations)]


def leaderboard(suite: Suite) -> Leaderboard:
    """Make all tables of a suite from artefacts, best known fronts, results and winners.

    Raises:
        InvalidValue: Something is missing, damaged, or made with other artefacts.
    """
    compared = tuple(compare(suite, part) for part in suite.parts)
    optimisers = [row for c in compared for row in optimiser_rows(c, marks_of(c))]
    tables = (
        Table("optimisers", "Optimisers", remarks(compared), optimisers),
        Table(
            "tasks",
            "Optimisers, task by task",
            "Mean regret over the seeds after all evaluations, and its standard deviation.",
            [row for c in compared for row in task_rows(c)],
        ),
        Table("architectures", "Best architectures", _ARCHITECTURES, winner_rows(suite)),
        Table("devices", "Devices side by side", _DEVICES, device_rows(suite)),
        Table("surrogates", "Surrogates", _SURROGATES, surrogate_rows(suite)),
    )
    return Leaderboard(suite, tables, compared)


def surrogate_rows(suite: Suite) -> list[dict[str, Any]]:
    """The scores on the cards of the artefacts of the suite's spaces."""
    catalogue = Catalogue.of(shipped())
    cards = [catalogue.card(*key) for key in catalogue.cards if key[0] in suite.spaces]
    return report.rows([(c, c.scores) for c in cards if c is not None and c.scores is not None])


_ARCHITECTURES = """The architecture with the lowest predicted perplexity among those whose
predicted median latency or energy is within the budget. Budgets lie at 10, 30, 50, 70 and 90% of
the way from the least to the greatest value in the space. q05 and q95 bound a single measurement
with a probability of 90%: two architectures whose intervals overlap may change places when they are
measured. Perplexity in space l rests on few observations."""

_DEVICES = """Rank correlation of predicted medians between devices, over 1,000 random architectures
of a space: 1 where two devices order them alike."""

_SURROGATES = """Scores of the artefacts on architectures that their fits have not seen; MAPE, CRPS
and width in percent of the measured median, coverage in percent."""


def rounded(value: Any) -> Any:
    """A number with six significant digits; anything else as it is."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def to_csv(table: Table) -> str:
    """A table as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if table.rows:
        writer.writerow(table.rows[0])
    writer.writerows([rounded(v) for v in row.values()] for row in table.rows)
    return out.getvalue()


def to_json(board: Leaderboard) -> str:
    """All tables as one JSON object."""
    tables = {
        t.name: [{k: rounded(v) for k, v in row.items()} for row in t.rows] for t in board.tables
    }
    return json.dumps({"title": board.suite.title, **tables}, indent=1) + "\n"


def to_markdown(board: Leaderboard) -> str:
    """All tables as one Markdown page."""
    parts = [f"# {board.suite.title}\n"]
    for table in board.tables:
        parts.append(f"\n## {table.title}\n\n{table.text}\n\n{_grid(table)}\n")
    return "".join(parts)


def _grid(table: Table) -> str:
    if not table.rows:
        return "Nothing yet."
    lines = [list(table.rows[0]), ["---"] * len(table.rows[0])]
    lines += [[shown(v) for v in row.values()] for row in table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(value: Any) -> str:
    """A cell as text."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def files(board: Leaderboard) -> dict[str, str]:
    """The files that `check` compares: name to content."""
    return {
        "leaderboard.md": to_markdown(board),
        "leaderboard.json": to_json(board),
        **{f"{t.name}.csv": to_csv(t) for t in board.tables},
    }


def write(folder: Path, contents: Mapping[str, str]) -> list[Path]:
    """Write files into a folder, each beside its place and then renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, content in contents.items():
        written.append(folder / name)
        write_file(written[-1], content.encode())
    return written


def check(suite: Suite) -> list[str]:
    """Build the leaderboard anew and compare it with the files byte for byte.

    Returns:
        What differs, one line a file, with the first line that does; empty where nothing does.

    Raises:
        InvalidValue: Something that the leaderboard is built from is missing or damaged.
    """
    differing = []
    for name, content in files(leaderboard(suite)).items():
        path = suite.folder / name
        try:
            there = path.read_bytes().decode("utf-8", "replace")
        except FileNotFoundError:
            differing.append(f"{path} is missing.")
            continue
        if there != content:
            differing.append(f"{path} differs from what is built now, {_first(there, content)}.")
    return differing


def _first(there: str, here: str) -> str:
    pairs = zip(there.splitlines(), here.splitlines(), strict=False)
    for number, (a, b) in enumerate(pairs, 1):
        if a != b:
            return f"first in line {number}"
    return "in its length"


def require(suite: Suite) -> None:
    """Raise what `check` finds.

    Raises:
        InvalidValue: A file differs.
    """
    differing = check(suite)
    if differing:
        raise InvalidValue(" ".join(differing))
