"""The app: the commands it is made of, and what becomes of an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, cast

import typer
from typer.main import get_command

from hwbench.cli import (
    data,
    evaluate,
    fit,
    leaderboard,
    listing,
    profile,
    query,
    search,
    shapes,
    supernet,
)
from hwbench.cli.output import print_text
from hwbench.errors import HwbenchError, brief

COMMANDS = (query, listing, data, fit, evaluate, search, leaderboard, profile, supernet, shapes)
"""The modules that hold the commands, in the order of the help; each has a `register(app)`."""

PROGRAM = "hwbench"

_MISTAKE = 2
_BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE ended

# The root of the parser's errors about its arguments; typer exports no name of it in all versions.
_UsageError = cast("type[Exception]", typer.BadParameter.__base__)


def make_app() -> typer.Typer:
    """The app with all commands registered; its help is plain text, the same in every terminal."""
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(_root)
    for module in COMMANDS:
        module.register(app)
    return app


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Latency, energy, memory and perplexity of GPT-2-family architectures, offline."""
    if version:
        from hwbench import __version__

        print_text(f"{PROGRAM} {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print_text(context.get_help())


def run(args: Sequence[str]) -> int:
    """Run one command line and say in one line what a user did wrong.

    Args:
        args: The arguments after the program's name.

    Returns:
        The exit status: 0 on success; 2 on a user's mistake, with one line on stderr.

    Raises:
        KeyboardInterrupt: The command was interrupted.
        Exception: Anything that is no user's mistake keeps its traceback.
    """
    try:
        status = _invoke(args)
        sys.stdout.flush()
    except HwbenchError as error:
        return _mistake(str(error))
    except _UsageError as error:
        return _mistake(_usage(error))
    except BrokenPipeError:
        # The reader went away, which is no error; nor may the flush at exit make it one.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except OSError as error:
        if error.strerror is None:
            raise
        where = "" if error.filename is None else f": {error.filename!r}"
        return _mistake(f"{error.strerror}{where}.")
    return status


def _invoke(args: Sequence[str]) -> int:
    command = get_command(make_app())
    try:
        with command.make_context(PROGRAM, list(args)) as context:
            command.invoke(context)
    except typer.Exit as stop:
        return stop.exit_code
    return 0


def _mistake(message: str) -> int:
    sys.stderr.write(f"Error: {' '.join(message.split())}\n")
    return _MISTAKE


def _usage(error: Any) -> str:
    """What is wrong with the arguments, what arrived, and what exists."""
    message = str(error.format_message()).rstrip(".")
    parts = [message if message.endswith("?") else f"{message}."]
    arrived = _arrived(error)
    if arrived is not None:
        parts.append(f"Got {brief(arrived)} instead.")
    context = error.ctx
    if context is not None:
        if message.startswith(("No such command", "Missing command")):
            parts.append(f"Known: {', '.join(context.command.list_commands(context))}.")
        parts.append(f"See '{context.command_path} --help'.")
    return " ".join(parts)


def _arrived(error: Exception) -> object:
    """The value that the parser refused, where its error tells."""
    errors = getattr(error.__cause__, "errors", None)
    return errors()[0].get("input") if callable(errors) else None
