"""Architectures as a command line gives them: as text, in a file, or drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from hwbench.errors import InvalidArchitecture, brief

if TYPE_CHECKING:
    from hwbench.architectures import Architecture, SearchSpace


def architecture_of(text: str, space: SearchSpace, seed: int) -> Architecture:
    """The architecture that an option names.

    Args:
        text: An architecture's text, the path of a JSON file with its dict, or "random".
        space: The space that it must be of.
        seed: Draws the random one.

    Raises:
        InvalidArchitecture: It cannot be read, or is none of the space.
        OSError: The file cannot be read.
    """
    from hwbench.architectures import Architecture

    if text == "random":
        return space.sample(1, seed)[0]
    if not text.endswith(".json"):
        return Architecture.parse(text, space)
    try:
        content = json.loads(Path(text).read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidArchitecture(f"The file {text} is not JSON: {brief(str(error))}.") from None
    if isinstance(content, str):
        return Architecture.parse(content, space)
    return Architecture.from_dict(content, space)


def architectures_in(path: Path, space: SearchSpace) -> list[Architecture]:
    """The architectures of a text file, one a line; blank lines and those after '#' are skipped.

    Args:
        path: The file.
        space: The space that they must be of.

    Raises:
        InvalidArchitecture: A line is no architecture of the space, or there is none at all.
        OSError: The file cannot be read.
    """
    from hwbench.architectures import Architecture

    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InvalidArchitecture(f"The file {path} must be UTF-8 text. It is not.") from None
    found = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            found.append(Architecture.parse(text, space))
        except InvalidArchitecture as error:
            raise InvalidArchitecture(f"Line {number} of {path}: {error}") from None
    if not found:
        raise InvalidArchitecture(f"The file {path} must hold an architecture a line. It has none.")
    return found
