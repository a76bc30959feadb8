"""The docs are true: generated help is what the commands print, links lead somewhere."""

from __future__ import annotations

import doctest
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

from hwbench.cli.manual import command_names, help_text

ROOT = Path(__file__).parent.parent
FOLDERS = (".ci", "bench", "data", "docs", "hwbench", "scripts", "surrogates", "tests")
TEXT = {"", ".json", ".md", ".py", ".toml", ".txt"}
# Package registries are reached by package name; no text names a host. Written in halves, or this
# file would be the first to break its own rule.
HALVES = (("pypi", ".org"), ("python", "hosted"), ("npm", "js."), ("deb.", "debian"))
HOSTS = re.compile("|".join(re.escape(a + b) for a, b in HALVES), re.IGNORECASE)


def texts() -> Iterator[tuple[Path, str]]:
    """The text files of the project."""
    found = [*ROOT.glob("*"), *(path for name in FOLDERS for path in (ROOT / name).rglob("*"))]
    for path in found:
        if path.is_file() and path.suffix in TEXT:
            yield path, path.read_text("utf-8")


def links(page: Path) -> list[str]:
    """The relative links of a Markdown page."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(<?([^)\s>]+)", text)
    return [t for t in targets if not urlsplit(t).scheme and not t.startswith("#")]


def broken(page: Path) -> list[str]:
    return [t for t in links(page) if not (page.parent / t.split("#")[0]).exists()]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The script that regenerates the docs."""
    path = ROOT / "scripts/generate_docs.py"
    spec = importlib.util.spec_from_file_location("generate_docs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_blocks_are_up_to_date(generator: ModuleType) -> None:
    pinned = re.search(r"^typer==(\S+)", (ROOT / "constraints.txt").read_text("utf-8"), re.M)
    assert pinned is not None
    if importlib.metadata.version("typer") != pinned[1]:
        pytest.skip(f"help looks as typer {pinned[1]} prints it, and another version is installed")
    assert [page.name for page in generator.stale()] == [], "run make docs"


def test_a_stale_block_is_seen_and_regenerated(generator: ModuleType) -> None:
    text = "a\n<!-- help: hwbench spaces -->\nstale\n<!-- end -->\nb\n"
    fresh = generator.regenerate(text)
    assert help_text("hwbench spaces") in fresh
    assert "stale" not in fresh
    assert fresh.startswith("a\n<!-- help: hwbench spaces -->\n")
    assert fresh.endswith("<!-- end -->\nb\n")
    assert generator.regenerate(fresh) == fresh


def test_a_command_s_output_is_regenerated(generator: ModuleType) -> None:
    text = "<!-- output: hwbench metrics -->\nstale\n<!-- end -->\n"
    fresh = generator.regenerate(text)
    assert "$ hwbench metrics\n" in fresh
    assert "perplexity" in fresh
    assert "stale" not in fresh
    assert generator.regenerate(fresh) == fresh


def pages_with_examples() -> list[Path]:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    return [page for page in pages if "```pycon" in page.read_text("utf-8")]


@pytest.mark.parametrize("page", pages_with_examples(), ids=lambda page: page.name)
def test_python_examples_print_what_they_say(page: Path) -> None:
    if page.name == "supernet.md":
        pytest.importorskip("torch", reason="torch is not installed")
    blocks = re.findall(r"```pycon\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    said: list[str] = []
    found = doctest.DocTestRunner(optionflags=flags).run(example, out=said.append)
    assert found.attempted
    assert not found.failed, "".join(said)


def test_every_command_is_in_the_docs() -> None:
    page = (ROOT / "docs/cli.md").read_text("utf-8")
    assert [name for name in command_names() if f"$ {name} --help" not in page] == []


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](page.md#x) [b](gone.md) [c](#x) [d](https://example.org) `[e](code.md)`")
    assert broken(page) == ["gone.md"]


def test_no_text_names_the_host_of_a_registry() -> None:
    assert HOSTS.search("see https://" + "".join(HALVES[0]) + "/project/x")
    assert [str(path) for path, text in texts() if HOSTS.search(text)] == []
