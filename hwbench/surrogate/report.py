"""The table of scores: artefacts' cards as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwbench.architectures import spaces
from hwbench.surrogate.artifact import Card, write_file

Scores = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table: to add one, add an entry to `COLUMNS`.

    Attributes:
        name: The name in CSV and JSON.
        title: The heading in Markdown.
        of: The value, from the scores.
        form: How Markdown shows it.
    """

    name: str
    title: str
    of: Callable[[Scores], Any]
    form: str = "{:.2f}"


def _least(name: str) -> Callable[[Scores], Any]:
    return lambda s: min((v for v in s[name].values() if v is not None), default=None)


COLUMNS = (
    Column("architectures", "held out", lambda s: s["architectures"], "{}"),
    Column("mape", "MAPE %", lambda s: s["mape"], "{:.3f}"),
    Column("mape_drift_adjusted", "drift-adjusted %", lambda s: s["mape_drift_adjusted"], "{:.3f}"),
    Column("r2", "R2", lambda s: s["r2"], "{:.4f}"),
    Column("tau", "tau", lambda s: s["tau"], "{:.4f}"),
    Column("tau_least_width", "least tau in a width", _least("tau_by_width"), "{:.4f}"),
    Column("crps", "CRPS %", lambda s: s["crps"], "{:.3f}"),
    Column("coverage_50", "in 50%", lambda s: s["coverage_50"], "{:.1f}"),
    Column("coverage_80", "in 80%", lambda s: s["coverage_80"], "{:.1f}"),
    Column("coverage_90", "in 90%", lambda s: s["coverage_90"], "{:.1f}"),
    Column("coverage_95", "in 95%", lambda s: s["coverage_95"], "{:.1f}"),
    Column(
        "coverage_90_least_width",
        "least in 90% in a width",
        _least("coverage_90_by_width"),
        "{:.1f}",
    ),
    Column(
        "coverage_90_of_medians", "medians in 90%", lambda s: s["coverage_90_of_medians"], "{:.1f}"
    ),
    Column("width_90", "width of 90% %", lambda s: s["width_90"], "{:.2f}"),
)
"""What is scored, column by column."""

_HEAD = """# Scores of the shipped artefacts

Every row is an artefact, scored on architectures that its fit has not seen: a tenth of the recorded
ones, drawn by a hash of their text. The same numbers stand on the artefacts' cards.

- **MAPE** is the mean absolute percentage error of the median against the median of the kept
  repeats; *drift-adjusted* takes out of each held-out measurement the drift that its *training*
  neighbours in the same session show. The difference is the machine's, not the model's.
- **tau** is Kendall's, over all and the least inside one `embed_dim`.
- **CRPS** is the continuous ranked probability score over single measurements, in percent of the
  measured median.
- **in 90%** is the share of single measurements inside the 90% interval, every architecture with
  the same weight; *medians in 90%* the share of the architectures' medians, which vary less than
  single measurements and so lie inside more often. **width** is the interval's, in percent of the
  median.
- Evidence is *low* where few architectures were recorded.

Intervals hold for measurements in sessions like the recorded ones. A fresh session on another day
is not one of these.
"""


def rows(scored: Sequence[tuple[Card, Scores]]) -> list[dict[str, Any]]:
    """One row an artefact, sorted by metric, space and device.

    Args:
        scored: Cards with their scores.

    Returns:
        Rows with the keys metric, space, device, evidence and those of `COLUMNS`.
    """
    named = spaces()

    def place(row: Mapping[str, Any]) -> tuple[str, int, str, str]:
        space = row["space"]
        known = named.index(space) if space in named else len(named)
        return row["metric"], known, space, row["device"] or ""

    made = [
        {
            "metric": card.metric,
            "space": card.search_space.name,
            "device": card.device,
            "evidence": card.evidence,
            **{column.name: column.of(scores) for column in COLUMNS},
        }
        for card, scores in scored
    ]
    return sorted(made, key=place)


def to_markdown(table: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a Markdown page, one table a metric."""
    parts = [_HEAD]
    for metric in dict.fromkeys(row["metric"] for row in table):
        titles = ["space", "device", *(c.title for c in COLUMNS), "evidence"]
        lines = [f"\n## {metric.capitalize()}\n", _line(titles), _line(["---"] * len(titles))]
        for row in (r for r in table if r["metric"] == metric):
            values = [_shown(c.form, row[c.name]) for c in COLUMNS]
            lines.append(_line([row["space"], row["device"] or "-", *values, row["evidence"]]))
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(form: str, value: Any) -> str:
    return "-" if value is None else form.format(value)


def to_csv(table: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV, numbers with six significant digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table[0])
    writer.writerows([_rounded(v) for v in row.values()] for row in table)
    return out.getvalue()


def to_json(table: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a JSON list, numbers with six significant digits."""
    return json.dumps([{k: _rounded(v) for k, v in row.items()} for row in table], indent=1) + "\n"


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def write(table: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write `scores.md`, `scores.csv` and `scores.json` into a folder, each beside and renamed.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix, make in (("md", to_markdown), ("csv", to_csv), ("json", to_json)):
        written.append(folder / f"scores.{suffix}")
        write_file(written[-1], make(table).encode())
    return written
