"""A progress bar on a terminal, and nothing anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Moves a progress bar on."""

    def __call__(self, steps: int = 1) -> None:
        """Count `steps` more as done."""


@contextmanager
def progress(description: str, total: int | None) -> Iterator[Advance]:
    """Show how far a long work has come, on stderr where that is a terminal.

    Args:
        description: What is done, such as "fitting".
        total: How many steps make the whole, or None where nobody knows.

    Yields:
        The function to call after each step.

    >>> with progress("fitting", total=3) as advance:
    ...     for _ in range(3):
    ...         advance()
    """
    if not sys.stderr.isatty():
        yield _advance_nothing
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total)

        def advance(steps: int = 1) -> None:
            bar.advance(task, steps)

        yield advance


def _advance_nothing(steps: int = 1) -> None:
    pass
