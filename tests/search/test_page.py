"""The examples of the page work as they stand, and its optimiser takes no more than 20 lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hwbench.search import read

PAGE = (Path(__file__).parents[2] / "docs/search.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLES:
        exec(compile(example, "docs/search.md", "exec"), {})  # noqa: S102 - the page's own code
    assert len(read(tmp_path / "runs/hill-climber-seed-0.jsonl").texts) == 200


def test_an_optimiser_takes_twenty_lines() -> None:
    (own,) = re.findall(r"<!-- example -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert len([line for line in own.splitlines() if line.strip()]) <= 20
