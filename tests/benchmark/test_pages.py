"""docs/query.md, docs/surrogates.md and the README are true: what they show of Python runs."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from hwbench.errors import HwbenchError
from hwbench.surrogate import Catalogue, shipped

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["query.md", "surrogates.md"])
def test_the_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testfile(str(ROOT / "docs" / name), module_relative=False)
    assert failed == 0
    assert tried > 3


def test_the_python_of_the_readme_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102


def test_the_surrogates_page_counts_what_ships_and_names_what_a_card_holds() -> None:
    page = (ROOT / "docs/surrogates.md").read_text("utf-8")
    catalogue = Catalogue.of(shipped())
    assert page.startswith("# Surrogates\n\nNinety-three fitted artefacts")
    assert len(catalogue.cards) == 93
    table = page.split("| field | meaning |")[1].split("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))))
    for key in catalogue.cards:
        card = catalogue.card(*key)
        assert card is not None
        assert set(card.values) == named


def test_every_error_raised_on_purpose_is_one_of_ours() -> None:
    """The pages show errors by their full name, which a doctest compares without its module."""
    page = (ROOT / "docs/query.md").read_text("utf-8")
    shown = set(re.findall(r"^hwbench\.errors\.(\w+):", page, re.MULTILINE))
    assert shown <= {kind.__name__ for kind in HwbenchError.__subclasses__()}
