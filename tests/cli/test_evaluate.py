"""`hwbench evaluate`: scores off the cards, or made anew on a store."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from hwbench.cli.app import run
from hwbench.surrogate import Catalogue, shipped
from tests.surrogate.synthetic import write_store

Capture = pytest.CaptureFixture[str]
MINIATURE = Path(__file__).parent.parent.parent / "data/miniature"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one space, two devices and perplexity; not to be written."""
    return write_store(tmp_path_factory.mktemp("stores") / "synthetic", 200)


@pytest.fixture(scope="module")
def artifacts(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `hwbench fit` makes of it; not to be written."""
    out = tmp_path_factory.mktemp("artifacts")
    assert run(["fit", "--store", str(store), "--out", str(out)]) == 0
    return out


def scored(capsys: Capture, *args: object) -> list[dict[str, Any]]:
    """What the command prints as JSON."""
    capsys.readouterr()
    assert run(["evaluate", *map(str, args), "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def test_without_a_store_the_cards_are_shown(artifacts: Path, capsys: Capture) -> None:
    rows = scored(capsys, "--artifacts", artifacts)
    assert [(row["metric"], row["device"]) for row in rows] == [
        ("latency", "cpu_xeon_gold"),
        ("latency", "h100"),
        ("perplexity", None),
    ]
    card = Catalogue.of(artifacts).card("tiny", "h100", "latency")
    assert card is not None
    assert card.scores is not None
    assert rows[1]["mape"] == card.scores["mape"]
    assert rows[1]["coverage_90"] == card.scores["coverage_90"]
    assert run(["evaluate", "--artifacts", str(artifacts)]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == list(rows[0])
    assert len(lines) == 3


def test_a_store_is_scored_anew_to_the_same(store: Path, artifacts: Path, capsys: Capture) -> None:
    anew = scored(capsys, "--artifacts", artifacts, "--store", store)
    assert anew == scored(capsys, "--artifacts", artifacts)


def test_the_shipped_artefacts_are_scored(capsys: Capture) -> None:
    rows = scored(capsys)
    assert len(rows) == len(Catalogue.of(shipped()).cards)
    assert [r["metric"] for r in scored(capsys, "--space", "s", "--device", "P100")] == [
        "energy",
        "latency",
    ]
    (row,) = scored(capsys, "--space", "l", "--metric", "ppl")
    assert row["evidence"] == "low"


def test_scores_are_written_as_markdown_csv_and_json(
    artifacts: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "new/scores"
    rows = scored(capsys, "--artifacts", artifacts, "--out", out)
    assert sorted(p.name for p in out.iterdir()) == ["scores.csv", "scores.json", "scores.md"]
    written = json.loads((out / "scores.json").read_text())
    assert [row["mape"] for row in written] == pytest.approx([row["mape"] for row in rows], 1e-5)
    with (out / "scores.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [float(row["mape"]) for row in table] == [row["mape"] for row in written]
    assert table[2]["device"] == ""
    text = (out / "scores.md").read_text()
    assert "\n## Latency\n" in text
    assert f"| {rows[1]['mape']:.3f} |" in text


def test_plots_come_with_their_numbers(
    store: Path, artifacts: Path, tmp_path: Path, capsys: Capture
) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plot'")
    folder = tmp_path / "plots"
    scored(capsys, "--artifacts", artifacts, "--store", store, "--plots", folder)
    names = ["cpu_xeon_gold", "h100", "quality"]
    assert sorted(p.name for p in folder.iterdir()) == [
        f"{name}.{suffix}" for name in names for suffix in ("csv", "png", "svg")
    ]
    assert (folder / "h100.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "h100.svg").read_text()
    with (folder / "h100.csv").open() as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == ["device", "space", "metric", "level", "below"]
    assert len(table) == 19
    assert all(0 <= float(row["below"]) <= 1 for row in table)


def test_a_device_s_name_with_a_point_keeps_it(tmp_path: Path) -> None:
    """A picture of `gpu-1.5` was once written as `gpu-1.png`, over that of `gpu-1.4`."""
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plot'")
    from hwbench.surrogate.reliability import plot

    row = {"device": "gpu-1.5", "space": "s", "metric": "latency", "level": 0.5, "below": 0.5}
    plot([row], "gpu-1.5", tmp_path / "gpu-1.5")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gpu-1.5.png", "gpu-1.5.svg"]


def refused(capsys: Capture, *args: object) -> str:
    """The one line of a command that fails."""
    capsys.readouterr()
    assert run(["evaluate", *map(str, args)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_plots_need_matplotlib_and_a_store(
    store: Path,
    artifacts: Path,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = ["--artifacts", artifacts, "--plots", tmp_path / "plots"]
    assert "--plots needs --store" in refused(capsys, *line)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'hwbench[plot]'" in refused(capsys, *line, "--store", store)


@pytest.mark.parametrize(
    "args, words",
    [
        ("--artifacts nowhere", "'nowhere'"),
        ("--store nowhere", "no record store at nowhere"),
        ("--space xl", "Unknown space of the artefacts 'xl'. Did you mean 'l'? Known: l, m, s."),
        ("--device h10", "Unknown device of the artefacts 'h10'. Did you mean 'h100'?"),
        ("--metric latenc", "Unknown metric 'latenc'. Did you mean 'latency'?"),
        ("--metric params", "Unknown metric of the artefacts 'params'"),
        ("--device h100 --metric memory", "metric of the artefacts 'memory'. Known: energy, l"),
    ],
)
def test_a_mistake_is_one_line(capsys: Capture, args: str, words: str) -> None:
    assert words in refused(capsys, *args.split())


def test_a_store_that_was_not_fitted_on_is_refused(
    store: Path, artifacts: Path, capsys: Capture
) -> None:
    assert "no observations of" in refused(capsys, "--store", store, "--space", "s")
    refused(capsys, "--artifacts", artifacts, "--store", MINIATURE)


def test_a_place_that_cannot_be_written(artifacts: Path, tmp_path: Path, capsys: Capture) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for out in (taken, taken / "below"):
        assert "taken" in refused(capsys, "--artifacts", artifacts, "--out", out)
    assert taken.read_text() == "mine"


def test_a_damaged_card_is_one_line(artifacts: Path, tmp_path: Path, capsys: Capture) -> None:
    copy = Path(shutil.copytree(artifacts, tmp_path / "copy"))
    card = copy / "tiny/h100/latency.json"
    card.write_text(card.read_text().replace('"mape"', '"nape"'))
    assert "must have the hash that it names" in refused(capsys, "--artifacts", copy)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no artefact" in refused(capsys, "--artifacts", empty)
