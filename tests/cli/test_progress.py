"""A bar on a terminal, and not a byte in a pipe."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hwbench.cli.progress import progress

CODE = """
from hwbench.cli.progress import progress
with progress("fitting", total=3) as advance:
    advance()
    advance(2)
"""


def test_nothing_is_written_into_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("fitting", total=3) as advance:
        advance()
        advance(2)
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals on this system")
def test_a_bar_is_drawn_on_a_terminal_and_stdout_stays_clean() -> None:
    main, terminal = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", CODE],
            stdout=subprocess.PIPE,
            stderr=terminal,
            check=True,
            env=os.environ | {"TERM": "xterm"},
        )
        shown = os.read(main, 65536).decode()
    finally:
        os.close(terminal)
        os.close(main)
    assert done.stdout == b""
    assert "fitting" in shown
    assert "3/3" in shown
