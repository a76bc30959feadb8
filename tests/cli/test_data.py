"""`hwbench data`: thin commands over the record store."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest

from hwbench import space
from hwbench.cli.app import run

MINIATURE = Path(__file__).parent.parent.parent / "data/miniature"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MINIATURE, tmp_path / "store"))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    good, bad = space("s").smallest, space("s").largest
    entry = {
        "sample_embed_dim": good.embed_dim,
        "sample_n_layer": good.n_layer,
        "sample_n_head": list(good.n_head),
        "sample_mlp_ratio": list(good.mlp_ratio),
        "sample_bias": good.bias,
    }
    made = [
        {"arch": entry, "mean_mem": 150.0},
        {"arch": {**entry, "sample_n_layer": 99}, "mean_mem": 150.0},
    ]
    assert bad != good
    path = tmp_path / "checkout/data_collection/raw_results_hw/mem_a100"
    path.mkdir(parents=True)
    (path / "efficiency_observations_0_2.pkl").write_bytes(pickle.dumps(made))
    (path / "notes.pkl").write_bytes(b"")
    return tmp_path / "checkout"


def test_validate(store: Path, capsys: Capture) -> None:
    assert run(["data", "validate", str(store)]) == 0
    assert capsys.readouterr().out == "4 files, 24 rows: 0 errors, 0 warnings.\n"
    assert run(["data", "validate", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["valid"] is True


def test_errors_are_listed_and_make_the_status_2(store: Path, capsys: Capture) -> None:
    path = store / "quality/s.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    assert run(["data", "validate", str(store)]) == 2
    out, err = capsys.readouterr()
    assert "error: quality/s.parquet: schema: Cannot read quality/s.parquet" in out
    assert err == f"Error: {store} must have no error. Got 2.\n"
    before = (store / "store.toml").read_text()
    assert run(["data", "validate", str(store), "--write-hashes"]) == 2
    assert (store / "store.toml").read_text() == before


def test_write_hashes(store: Path, capsys: Capture) -> None:
    text = (store / "store.toml").read_text()
    (store / "store.toml").write_text(text.split("[sha256]")[0])
    assert run(["data", "validate", str(store)]) == 0
    assert "warning: store.toml: hashes: no hashes" in capsys.readouterr().out
    assert run(["data", "validate", str(store), "--write-hashes"]) == 0
    assert (store / "store.toml").read_text() == text


def test_describe(store: Path, capsys: Capture) -> None:
    assert run(["data", "describe", str(store)]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["device", "space", "metric"]
    assert len(lines) == 7
    assert run(["data", "describe", str(store), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[3]["repeats"] == [10, 10]
    assert "synthetic" in rows[3]["workload"]


def test_import(checkout: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "imported"
    assert run(["data", "import", str(checkout), "--out", str(out)]) == 0
    first, left, ignored = capsys.readouterr().out.splitlines()
    assert first == "Read 2 readings: kept 1, left out 1."
    assert left.startswith("left out: data_collection/raw_results_hw/mem_a100/")
    assert "memory_mb x 1: the architecture is not in space s (position 1: n_layer" in left
    assert ignored.endswith("notes.pkl: not named as a shard of observations")
    assert run(["data", "validate", str(out)]) == 0
    capsys.readouterr()
    again = tmp_path / "again"
    assert run(["data", "import", str(checkout), "--out", str(again), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["read"], report["kept"], report["left_out"]) == (2, 1, 1)
    assert report["architectures"] == {"s": 1}


@pytest.mark.parametrize(
    "words, message",
    [
        (["validate", "nowhere"], "no record store at nowhere"),
        (["describe", "nowhere"], "no record store at nowhere"),
        (["import", "nowhere", "--out", "x"], "The source to import must exist. Got nowhere"),
        (["import", "tests"], "--out"),
    ],
)
def test_mistakes_are_one_line(words: list[str], message: str, capsys: Capture) -> None:
    assert run(["data", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_a_taken_folder_is_not_overwritten(checkout: Path, store: Path, capsys: Capture) -> None:
    before = sorted(p.name for p in store.rglob("*"))
    assert run(["data", "import", str(checkout), "--out", str(store)]) == 2
    assert "must be new or empty" in capsys.readouterr().err
    assert sorted(p.name for p in store.rglob("*")) == before
