"""The parts that commands share: options, and the form of an example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
"""The option of every command that prints results; its parameter is called `as_json`."""


def example(*lines: str) -> str:
    r"""The epilog of a command: its example, which every command has.

    Args:
        lines: Command lines that work as they are.

    >>> example("hwbench spaces")
    '\x08\nExample:\n  hwbench spaces'
    """
    # The backspace tells the help not to fill these lines as a paragraph.
    return "\n  ".join(("\b\nExample:", *lines))


def split_names(values: Sequence[str] | None) -> list[str] | None:
    """The names of an option that may be repeated, hold a list joined by commas, or both.

    Args:
        values: What arrived, once for each time that the option was given.

    Returns:
        The names in order without repeats, or None where the option was not given.

    >>> split_names(["h100,a100", "a100"])
    ['h100', 'a100']
    """
    if not values:
        return None
    return list(dict.fromkeys(name.strip() for value in values for name in value.split(",")))
