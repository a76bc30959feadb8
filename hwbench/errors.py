"""The exception tree: every error that hwbench raises on purpose descends from `HwbenchError`.

A message is one line that names the field, what arrived and what is allowed, so that the command
line can print it as it is.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HwbenchError(Exception):
    """Root of all errors raised on purpose by hwbench."""


class InvalidValue(HwbenchError, ValueError):
    """An argument has the right meaning but a value that is not allowed."""


class UnknownName(HwbenchError, LookupError):
    """A name (space, device, metric, encoder ...) that nothing bears."""


class InvalidArchitecture(HwbenchError, ValueError):
    """An architecture that cannot be read, or lies outside its search space."""


class Unsupported(HwbenchError):
    """A question that no artefact can answer: the number is absent, with a reason."""


class InvalidStore(HwbenchError):
    """A record store whose files, schema or values are not as they must be."""


class InvalidArtifact(HwbenchError):
    """A fitted artefact that is damaged, or made for another version of hwbench."""


class MissingDependency(HwbenchError, ImportError):
    """An optional dependency that the asked-for feature needs is not installed."""


def invalid(parameter: str, function: str, allowed: str, got: object) -> InvalidValue:
    """Make an `InvalidValue` of the house's one form.

    Args:
        parameter: Name of the parameter.
        function: Name of the function that was called.
        allowed: What is allowed, as it reads after "must be".
        got: The value that arrived.

    Returns:
        The error, to be raised by the caller.

    >>> print(invalid("n", "sample", "an int >= 0", -3))
    The 'n' parameter of sample must be an int >= 0. Got -3 instead.
    """
    return InvalidValue(
        f"The {parameter!r} parameter of {function} must be {allowed}. Got {brief(got)} instead."
    )


def unknown(kind: str, got: object, known: Iterable[str]) -> UnknownName:
    """Make an `UnknownName` that lists what exists and suggests the nearest name.

    Args:
        kind: What the name was meant to name, such as "device".
        got: The name that arrived.
        known: All names that exist.

    Returns:
        The error, to be raised by the caller.

    >>> print(unknown("space", "xs", ["s", "m"]))
    Unknown space 'xs'. Did you mean 's'? Known: s, m.
    """
    names = list(known)
    wanted = got.lower() if isinstance(got, str) else ""
    lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(wanted, lower, n=1, cutoff=0.6)
    hint = f" Did you mean {lower[near[0]]!r}?" if near else ""
    return UnknownName(f"Unknown {kind} {brief(got)}.{hint} Known: {', '.join(names) or 'none'}.")


def brief(value: object, limit: int = 80) -> str:
    """One line of at most `limit` characters that shows a value in an error message.

    >>> brief("a" * 100, limit=10)
    "'aaaaaa..."
    """
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # an int of thousands of digits, or endless nesting
        text = f"a value of type {type(value).__name__} too long to show"
    return text if len(text) <= limit else text[: limit - 3] + "..."
