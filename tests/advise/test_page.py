"""docs/advise.md is true: its examples run, and its rules and constants are the package's."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from hwbench.advise import KINDS
from hwbench.cost import gpu, kernels
from hwbench.cost.rules import RULES

PAGE = Path(__file__).parents[2] / "docs/advise.md"
TEXT = PAGE.read_text("utf-8")


def test_examples_print_what_the_page_shows() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert (failed, tried > 15) == (0, True)


def test_every_rule_is_on_the_page() -> None:
    section = TEXT.split("\n## The rules\n")[1].split("\n## ")[0]
    shown = re.findall(r"^\| ([a-z]+(?:-\w+)*) \| \w", section, re.M)
    assert shown == ["rule", *(rule.id for rule, _ in RULES)]


def test_constants_have_the_packages_values() -> None:
    found = dict(re.findall(r"^\| `([A-Z_]+)` \| ([\d.]+) \|", TEXT, re.M))
    assert len(found) == 7
    for name, value in found.items():
        assert getattr(kernels if name == "STRIDED_SHARE" else gpu, name) == float(value)


def test_every_kind_of_config_is_named() -> None:
    flat = " ".join(TEXT.split())
    assert f"({', '.join(KINDS)})" in flat
