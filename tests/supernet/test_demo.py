"""The demonstration's own code, with little of everything, on the text of these docs."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import torch
from transformers import GPT2LMHeadModel

from hwbench.architectures import SearchSpace
from hwbench.supernet import Supernet

ROOT = Path(__file__).parents[2]
TEXTS = [str(ROOT / name) for name in ("docs/surrogates.md", "docs/search.md", "LICENSE")]


def test_the_demonstration_runs_and_goes_on(tmp_path: Path) -> None:
    work, results = tmp_path / "work", tmp_path / "results"
    command = [sys.executable, str(ROOT / "scripts/supernet_demo.py"), *TEXTS, "--quick"]
    command += ["--work", str(work), "--results", str(results)]
    first = subprocess.run(command, check=True, capture_output=True, text=True)
    with (results / "subnetworks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    assert sum(row["alone"] != "" for row in rows) == 6
    # Trained, as a slice or alone, every subnetwork predicts better than before.
    assert all(float(row["supernet"]) < float(row["importance_strided"]) for row in rows)
    alone = [(float(r["alone"]), float(r["importance_strided"])) for r in rows if r["alone"]]
    assert all(after < before for after, before in alone)
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
