"""The demonstration's own code, with little of everything, on text without a meaning."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import torch
from transformers import GPT2LMHeadModel

from hwbench.architectures import SearchSpace
from hwbench.supernet import Supernet
from tests.supernet.tiny import text

ROOT = Path(__file__).parents[2]


def test_the_demonstration_runs_and_goes_on(tmp_path: Path) -> None:
    work, results = tmp_path / "work", tmp_path / "results"
    texts = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for seed, path in enumerate(texts):
        path.write_text(text(10_000, seed=seed))
    command = [sys.executable, str(ROOT / "scripts/supernet_demo.py"), *map(str, texts)]
    command += ["--quick", "--work", str(work), "--results", str(results)]
    first = subprocess.run(command, check=True, capture_output=True, text=True)
    with (results / "subnetworks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    assert sum(row["alone"] != "" for row in rows) == 6
    # Trained, as a slice or alone, subnetworks predict better than before.
    assert mean(rows, "supernet") < mean(rows, "importance_strided")
    few = [row for row in rows if row["alone"]]
    assert mean(few, "alone") < mean(few, "importance_strided")
    assert (results / "supernet_against_alone.png").stat().st_size > 10_000
    _is_hugging_faces(work / "parent")
    kept = {p: p.read_bytes() for p in results.glob("*.csv")}
    (work / "supernet" / "supernet.json").unlink()  # as if it had been interrupted there
    again = subprocess.run(command, check=True, capture_output=True, text=True)
    assert {p: p.read_bytes() for p in results.glob("*.csv")} == kept
    assert _without_seconds(again.stdout) == _without_seconds(first.stdout)
    wrong = [argument for argument in command if argument != "--quick"]
    stopped = subprocess.run(wrong, check=False, capture_output=True, text=True)
    assert stopped.returncode == 1
    assert "was begun with other sizes or texts" in stopped.stderr


def mean(rows: list[dict[str, str]], column: str) -> float:
    return sum(float(row[column]) for row in rows) / len(rows)


def _is_hugging_faces(parent: Path) -> None:
    """The trained parent gives the same logits there and here."""
    owner = SearchSpace.from_file(ROOT / "scripts/supernet_demo.toml")
    given = torch.arange(32)[None]
    with torch.inference_mode():
        theirs = GPT2LMHeadModel.from_pretrained(parent).eval()(given).logits
        ours = Supernet.from_pretrained(parent, owner).logits(owner.largest, given)
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-4)


def _without_seconds(printed: str) -> str:
    return printed.split("stage  ")[0]
