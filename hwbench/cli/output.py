"""What commands print: one set of rows, as a table for a reader or as JSON for a program."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def print_text(text: str) -> None:
    """Print one text on stdout."""
    sys.stdout.write(f"{text}\n")


def print_json(value: object) -> None:
    """Print a value as JSON on stdout; numpy's scalars and arrays count as numbers and lists.

    Raises:
        TypeError: The value holds something that JSON has no form for.
        ValueError: The value holds a NaN or an infinity.
    """
    print_text(json.dumps(value, indent=2, allow_nan=False, default=_plain))


def print_rows(rows: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    """Print rows that share their keys, as a table or as a JSON list of objects.

    Args:
        rows: The rows; the keys of the first are the columns.
        as_json: JSON rather than a table.
    """
    if as_json:
        print_json([dict(row) for row in rows])
    elif rows:
        print_text(table(rows))


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Lay rows out in aligned columns, numbers to the right.

    Args:
        rows: At least one row; the keys of the first are the columns.

    Returns:
        The header and one line a row, without a newline at the end.

    >>> print(table([{"device": "h100", "ms": 1.5}, {"device": "cpu", "ms": None}]))
    device   ms
    h100    1.5
    cpu       -
    """
    columns = list(rows[0])
    cells = [columns, *([_cell(row[c]) for c in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    right = [any(_is_number(row[c]) for row in rows) for c in columns]
    lines = (
        "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        )
        for line in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}"
        case list() | tuple():
            return " ".join(_cell(item) for item in value)
    return str(value)


def _plain(value: Any) -> object:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"JSON has no form for a {type(value).__name__}.")
