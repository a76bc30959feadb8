"""Regenerate the blocks of the docs that a command prints.

A block stands between `<!-- help: hwbench spaces -->`, or `<!-- help of all commands -->`, and
`<!-- end -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

from hwbench.cli.manual import command_names, help_text

ROOT = Path(__file__).parent.parent

_BLOCK = re.compile(
    r"(<!-- help(?:: (?P<name>[\w -]+?)| of all commands) -->\n).*?(<!-- end -->)", re.DOTALL
)


def stale() -> dict[Path, str]:
    """The pages that are not up to date, with the text that they should have."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    texts = {page: page.read_text("utf-8") for page in pages}
    return {page: new for page, old in texts.items() if (new := regenerate(old)) != old}


def regenerate(text: str) -> str:
    """The text with every block as the commands print it now."""
    return _BLOCK.sub(lambda block: block[1] + _content(block["name"]) + block[3], text)


def _content(name: str | None) -> str:
    if name is not None:
        return f"```console\n$ {name} --help\n{help_text(name)}\n```\n"
    return "\n" + "\n".join(f"## {each}\n\n{_content(each)}" for each in command_names()) + "\n"


if __name__ == "__main__":
    for page, text in stale().items():
        page.write_text(text, "utf-8")
        print(page.relative_to(ROOT))
