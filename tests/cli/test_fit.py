"""`hwbench fit`: artefacts of everything that a store has observed, resumed where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hwbench import Benchmark
from hwbench.cli.app import run
from hwbench.surrogate import Catalogue
from tests.surrogate.synthetic import TINY, write_store

Capture = pytest.CaptureFixture[str]
MINIATURE = Path(__file__).parent.parent.parent / "data/miniature"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one space, two devices and perplexity; not to be written."""
    return write_store(tmp_path_factory.mktemp("stores") / "synthetic", 200)


def fitted(capsys: Capture, *args: object) -> dict[tuple[str, str | None], bool]:
    """What the command says of each artefact: whether it was fitted now."""
    assert run(["fit", *map(str, args), "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return {(row["metric"], row["device"]): row["fitted"] for row in rows}


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_everything_is_fitted_and_answers(store: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "new/artifacts"
    assert run(["fit", "--store", str(store), "--out", str(out)]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["metric", "space", "device"]
    assert [line.split()[:3] for line in lines] == [
        ["latency", "tiny", "cpu_xeon_gold"],
        ["latency", "tiny", "h100"],
        ["perplexity", "tiny", "-"],
    ]
    assert {line.split()[-2] for line in lines} == {"low"}
    assert sorted(contents(out)) == [
        "tiny/cpu_xeon_gold/latency.json",
        "tiny/h100/latency.json",
        "tiny/perplexity.json",
    ]
    bench = Benchmark(TINY, artifacts=out)
    assert bench.devices == ["h100", "cpu_xeon_gold"]
    assert bench.predict(TINY.sample(5, 0), "h100").shape == (5, 3)


def test_a_fit_goes_on_where_it_was(store: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "artifacts"
    line = ["--store", store, "--out", out]
    assert fitted(capsys, *line, "--device", "h100") == {("latency", "h100"): True}
    everything = fitted(capsys, *line)
    assert everything == {
        ("latency", "cpu_xeon_gold"): True,
        ("latency", "h100"): False,
        ("perplexity", None): True,
    }
    before = contents(out)
    assert set(fitted(capsys, *line).values()) == {False}
    assert contents(out) == before
    # A damaged card, and a leftover of a killed write, are no artefacts.
    card = out / "tiny/h100/latency.json"
    card.write_text(card.read_text()[:-100])
    (card.parent / ".latency.json.partial").write_text("{")
    assert fitted(capsys, *line, "--metric", "latency") == {
        ("latency", "cpu_xeon_gold"): False,
        ("latency", "h100"): True,
    }
    assert {k: v for k, v in contents(out).items() if "partial" not in k} == before
    # Another seed is another fit.
    again = fitted(capsys, *line, "--seed", "1", "--metric", "perplexity")
    assert again == {("perplexity", None): True}


def test_the_number_of_workers_does_not_matter(
    store: Path, tmp_path: Path, capsys: Capture
) -> None:
    for workers in ("1", "2"):
        fitted(capsys, "--store", store, "--out", tmp_path / workers, "--workers", workers)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_names_choose_what_is_fitted(store: Path, tmp_path: Path, capsys: Capture) -> None:
    line = ["--store", store, "--out", tmp_path / "artifacts", "--space", "tiny"]
    assert list(fitted(capsys, *line, "--metric", "ppl")) == [("perplexity", None)]
    both = fitted(capsys, *line, "--device", "h100,cpu_xeon_gold", "--metric", "latencies")
    assert list(both) == [("latency", "cpu_xeon_gold"), ("latency", "h100")]
    assert len(Catalogue.of(tmp_path / "artifacts").cards) == 3


@pytest.mark.parametrize(
    "args, words",
    [
        ("--store nowhere", "no record store at nowhere"),
        ("--store {store} --space s", "Unknown space of the store 's'. Known: tiny."),
        ("--store {store} --device h10", "Unknown device of the store 'h10'. Did you mean 'h100'"),
        ("--store {store} --metric latenc", "Unknown metric 'latenc'. Did you mean 'latency'?"),
        ("--store {store} --metric energy", "no observations of what was asked for"),
        ("--store {store} --workers 0", "'workers' parameter of fit_all must be an int >= 1"),
        ("--store {store} --workers many", "Invalid value for '--workers'"),
        ("--store {store} --seed -1", "Invalid value for '--seed'"),
        ("", "--store"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    store: Path, tmp_path: Path, capsys: Capture, args: str, words: str
) -> None:
    out = tmp_path / "artifacts"
    assert run(["fit", "--out", str(out), *args.format(store=store).split()]) == 2
    printed, err = capsys.readouterr()
    assert printed == ""
    assert words in err
    assert err.count("\n") == 1
    assert not out.exists()


def test_a_place_that_cannot_be_written(store: Path, tmp_path: Path, capsys: Capture) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for out in (taken, taken / "below"):
        assert run(["fit", "--store", str(store), "--out", str(out)]) == 2
        err = capsys.readouterr().err
        assert "taken" in err
        assert err.count("\n") == 1
    assert taken.read_text() == "mine"


def test_too_few_observations_are_one_line(tmp_path: Path, capsys: Capture) -> None:
    assert run(["fit", "--store", str(MINIATURE), "--out", str(tmp_path / "artifacts")]) == 2
    err = capsys.readouterr().err
    assert err.startswith("Error: Cannot fit accuracy in s: A fit of accuracy needs")
    assert "6 more cannot be fitted either." in err
    assert err.count("\n") == 1
    assert contents(tmp_path / "artifacts") == {}


def test_a_broken_store_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    store = write_store(tmp_path / "store", 40)
    file = store / "observations/h100/tiny.parquet"
    file.write_bytes(file.read_bytes()[:-50])
    for workers in ("1", "2"):
        line = ["fit", "--store", str(store), "--out", str(tmp_path / "a"), "--workers", workers]
        assert run(line) == 2
        err = capsys.readouterr().err
        assert "h100/tiny.parquet" in err
        assert err.count("\n") == 1
