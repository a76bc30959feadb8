"""The help of every command as text, for the docs and for the tests that keep them true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from hwbench.cli.app import PROGRAM, make_app
from hwbench.errors import unknown


def command_names() -> list[str]:
    """The full names of all commands, such as "hwbench spaces", in the order of the help."""
    return [context.command_path for context in _contexts(width=80) if not _children(context)]


def help_text(name: str, width: int = 100) -> str:
    """What `--help` prints for a command.

    Args:
        name: Full name of a command or group, such as "hwbench spaces" or "hwbench".
        width: Columns of the terminal.

    Returns:
        The text, without a newline at its end.

    Raises:
        UnknownName: There is no such command.
    """
    found = {context.command_path: context for context in _contexts(width)}
    if name not in found:
        raise unknown("command", name, found)
    text: str = found[name].get_help()
    return text.rstrip()


def _contexts(width: int) -> Iterator[Any]:
    """One context for each command, the app's own first, groups before their commands."""
    command: Any = get_command(make_app())
    root = command.context_class(
        command, info_name=PROGRAM, terminal_width=width, max_content_width=width
    )
    waiting = [root]
    while waiting:
        context = waiting.pop(0)
        yield context
        waiting[:0] = [
            child.context_class(child, info_name=name, parent=context)
            for name, child in _children(context).items()
        ]


def _children(context: Any) -> dict[str, Any]:
    children: dict[str, Any] = getattr(context.command, "commands", {})
    return children
