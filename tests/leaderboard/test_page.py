"""The figures on the page are what the commands beside them print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/leaderboards.md").read_text("utf-8")
EXAMPLES = re.findall(r"<!-- example -->\n```console\n\$ python (.*?)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("arguments, printed", EXAMPLES)
def test_a_command_prints_what_stands_below_it(arguments: str, printed: str) -> None:
    command = [sys.executable, *shlex.split(arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == printed


def test_the_page_has_examples() -> None:
    assert EXAMPLES
