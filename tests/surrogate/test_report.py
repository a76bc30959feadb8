"""The table of scores: the same numbers in each form, and those of the shipped cards."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hwbench.architectures import space
from hwbench.errors import MissingDependency
from hwbench.surrogate import Card, Catalogue, report, shipped
from hwbench.surrogate.fit import Fit, Measurements
from hwbench.surrogate.reliability import LEVELS, plot
from hwbench.surrogate.scores import score

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def scores(fit: Fit, measured: Measurements, labels: NDArray[np.str_]) -> dict[str, Any]:
    return score(fit, measured, labels)


def card(metric: str, where: str, device: str | None) -> Card:
    return Card(
        Path("card.json"), {"evidence": "full"}, space(where), device, metric, None, "an id"
    )


@pytest.fixture
def table(scores: dict[str, Any]) -> list[dict[str, Any]]:
    cards = [
        card("perplexity", "s", None),
        card("latency", "xl", "h100"),
        card("latency", "m", "h100"),
        card("latency", "m", "a100"),
        card("latency", "s", "h100"),
        card("energy", "l", "h100"),
    ]
    return report.rows([(c, {**scores, "mape": float(i)}) for i, c in enumerate(cards)])


def test_rows_are_sorted_by_metric_space_and_device(table: list[dict[str, Any]]) -> None:
    assert [(r["metric"], r["space"], r["device"]) for r in table] == [
        ("energy", "l", "h100"),
        ("latency", "s", "h100"),
        ("latency", "m", "a100"),
        ("latency", "m", "h100"),
        ("latency", "xl", "h100"),
        ("perplexity", "s", None),
    ]
    assert [r["mape"] for r in table] == [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]


def test_a_space_of_ones_own_comes_last(scores: dict[str, Any]) -> None:
    own = replace(space("s"), name="a-own")
    first = card("latency", "xl", "h100")
    made = report.rows([(replace(first, search_space=own), scores), (first, scores)])
    assert [r["space"] for r in made] == ["xl", "a-own"]


def test_the_least_of_the_widths_is_shown(scores: dict[str, Any]) -> None:
    given = {**scores, "tau_by_width": {"192": 0.9, "384": None, "768": 0.7}}
    (row,) = report.rows([(card("latency", "s", "h100"), given)])
    assert row["tau_least_width"] == 0.7
    assert row["coverage_90_least_width"] == min(scores["coverage_90_by_width"].values())
    nothing = {**scores, "tau_by_width": {"192": None}}
    (row,) = report.rows([(card("latency", "s", "h100"), nothing)])
    assert row["tau_least_width"] is None


def test_csv_and_json_hold_the_same_numbers(table: list[dict[str, Any]]) -> None:
    from_json = json.loads(report.to_json(table))
    from_csv = list(csv.DictReader(io.StringIO(report.to_csv(table))))
    assert [list(row) for row in from_json] == [list(row) for row in from_csv]
    for one, other, row in zip(from_json, from_csv, table, strict=True):
        for key, value in row.items():
            if isinstance(value, float):
                assert one[key] == float(other[key]) == pytest.approx(value, rel=1e-5)
            else:
                assert one[key] == value
                assert other[key] == ("" if value is None else str(value))


def test_markdown_has_a_table_for_each_metric(table: list[dict[str, Any]]) -> None:
    page = report.to_markdown(table)
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## Energy",
        "## Latency",
        "## Perplexity",
    ]
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert len(lines) == 3 * 2 + len(table)
    assert "| s | h100 |" in page
    assert "| s | - |" in page
    assert page.endswith("|\n")


def test_what_is_not_defined_is_a_dash(scores: dict[str, Any]) -> None:
    made = report.rows([(card("latency", "s", "h100"), {**scores, "width_90": None})])
    assert "| - | full |" in report.to_markdown(made)


def test_the_same_rows_give_the_same_bytes(table: list[dict[str, Any]], tmp_path: Path) -> None:
    for name in ("one", "two"):
        report.write(table, tmp_path / name)
    written = [
        sorted((p.name, p.read_bytes()) for p in (tmp_path / n).iterdir()) for n in ("one", "two")
    ]
    assert written[0] == written[1]
    assert [name for name, _ in written[0]] == ["scores.csv", "scores.json", "scores.md"]
    assert not any(b"\r" in content for _, content in written[0])


# Pictures


def test_a_picture_shows_the_rows_and_is_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [
        {"metric": m, "space": s, "level": q, "below": q**1.1}
        for m in ("latency", "energy")
        for s in ("s", "m")
        for q in LEVELS
    ]
    for name in ("one", "two"):
        plot(rows, "h100", tmp_path / name / "h100")
    for form in ("svg", "png"):
        one, two = ((tmp_path / name / f"h100.{form}").read_bytes() for name in ("one", "two"))
        assert one == two
        assert len(one) > 5000
    text = (tmp_path / "one/h100.svg").read_text()
    for label in ("latency, s", "energy, m", "perfect", "h100"):
        assert f"<!-- {label} -->" in text
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == ["h100.png", "h100.svg"]


def test_without_matplotlib_a_picture_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependency, match=r"pip install 'hwbench\[plot\]'"):
        plot([], "h100", tmp_path / "h100")
    assert list(tmp_path.iterdir()) == []


# What is shipped


@pytest.mark.skipif(
    not (ROOT / "docs/scores/scores.json").is_file(),
    reason="no docs/scores yet: hwbench evaluate --out docs/scores",
)
def test_the_docs_show_the_shipped_cards_scores() -> None:
    catalogue = Catalogue.of(shipped())
    scored = []
    for key in catalogue.cards:
        found = catalogue.card(*key)
        assert found is not None
        if found.scores is not None:
            scored.append((found, found.scores))
    made = report.rows(scored)
    for suffix, render in (
        ("md", report.to_markdown),
        ("csv", report.to_csv),
        ("json", report.to_json),
    ):
        page = ROOT / f"docs/scores/scores.{suffix}"
        assert page.read_text("utf-8") == render(made), (
            f"{page.name} is not what the cards say: hwbench evaluate --out docs/scores"
        )
