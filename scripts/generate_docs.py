"""Regenerate the blocks of the docs that a command prints.

A block stands between `<!-- help: hwbench spaces -->`, `<!-- help of all commands -->` or
`<!-- output: hwbench spaces -->`, and `<!-- end -->`.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

from hwbench.cli.app import run
from hwbench.cli.manual import command_names, help_text

ROOT = Path(__file__).parent.parent

_BLOCK = re.compile(
    r"(?P<start><!-- (?:help(?:: (?P<name>[\w -]+?)| of all commands)|output: (?P<line>.+?)) -->\n)"
    r".*?(?P<end><!-- end -->)",
    re.DOTALL,
)


def stale() -> dict[Path, str]:
    """The pages that are not up to date, with the text that they should have."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    texts = {page: page.read_text("utf-8") for page in pages}
    return {page: new for page, old in texts.items() if (new := regenerate(old)) != old}


def regenerate(text: str) -> str:
    """The text with every block as the commands print it now."""

    def fresh(block: re.Match[str]) -> str:
        line = block["line"]
        content = _content(block["name"]) if line is None else _output(line)
        return block["start"] + content + block["end"]

    return _BLOCK.sub(fresh, text)


def _output(line: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = run(shlex.split(line)[1:])
    if status:
        raise SystemExit(f"{line} ended with status {status}.")
    return f"```console\n$ {line}\n{printed.getvalue().rstrip()}\n```\n"


def _content(name: str | None) -> str:
    if name is not None:
        return f"```console\n$ {name} --help\n{help_text(name)}\n```\n"
    return "\n" + "\n".join(f"## {each}\n\n{_content(each)}" for each in command_names()) + "\n"


if __name__ == "__main__":
    for page, text in stale().items():
        page.write_text(text, "utf-8")
        print(page.relative_to(ROOT))
