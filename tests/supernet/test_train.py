"""Training: a run that was killed ends in the same weights, and a full disk loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hwbench.errors import InvalidValue
from hwbench.supernet import Alone, Subnetworks, Supernet, train
from hwbench.supernet.train import batch
from hwbench.supernet.trainable import draw
from tests.supernet.tiny import CONTEXT, TINY, tiny_supernet
from tests.supernet.training import ABOUT, ROOT, SETTINGS, TOKENS, Stopped, log, run, stop_after


@pytest.mark.parametrize("strategy", ["sandwich", "random", "standard"])
def test_it_learns_and_logs_every_step(strategy: str, tmp_path: Path) -> None:
    settings = replace(SETTINGS, strategy=strategy, steps=40, learning_rate=3e-3)
    supernet = run(tmp_path / "out", settings)
    lines = log(tmp_path / "out")
    assert [line["step"] for line in lines] == list(range(1, 41))
    assert lines[0]["learning_rate"] == pytest.approx(1e-3)
    assert lines[-1]["learning_rate"] < 6e-4
    assert lines[-1]["tokens"] == 40 * 4 * CONTEXT
    roles = [entry["role"] for entry in lines[0]["losses"]]
    expected = {
        "sandwich": ["largest", "smallest", "random", "random"],
        "random": ["random"],
        "standard": ["largest"],
    }
    assert roles == expected[strategy]
    first, last = (np.mean([e["loss"] for e in line["losses"]]) for line in (lines[0], lines[-1]))
    assert last < first - 0.5
    assert [r["steps"] for r in supernet.history] == [40]
    assert Supernet.load(tmp_path / "out").digest() == supernet.digest()


@pytest.mark.parametrize("stopped", [0, 1, 5, 7, 10, 11, 12])
def test_a_run_that_was_stopped_ends_in_the_same_weights(stopped: int, tmp_path: Path) -> None:
    settings = replace(SETTINGS, distill=True, accumulation=2)
    whole = run(tmp_path / "whole", settings, layers="strided")
    out = tmp_path / "out"
    what = Subnetworks(tiny_supernet(tmp_path / "parent", layers="strided"))
    what.supernet.origin = whole.origin  # the parents' folders have different names
    with pytest.raises(Stopped):
        train(what, TOKENS, settings, out, data=ABOUT, device="cpu", progress=stop_after(stopped))
    again = Subnetworks(tiny_supernet(tmp_path / "parent", layers="strided"))
    again.supernet.origin = whole.origin
    done = train(again, TOKENS, settings, out, data=ABOUT, device="cpu")
    assert isinstance(done, Subnetworks)
    assert done.supernet.digest() == whole.digest()
    timeless = [[{**x, "seconds": 0} for x in log(f)] for f in (tmp_path / "whole", out)]
    assert timeless[0] == timeless[1]
    assert {p.name.split("-")[0] for p in out.iterdir()} == {
        "log.jsonl", "supernet.json", "tokenizer", "weights",
    }  # fmt: skip


def test_killed_at_any_moment_it_ends_in_the_same_weights(tmp_path: Path) -> None:
    tiny_supernet(tmp_path / "parent")
    code = (
        "import sys\n"
        "from dataclasses import replace\n"
        "from pathlib import Path\n"
        "from hwbench.supernet import Subnetworks, Supernet, train\n"
        "from tests.supernet.training import ABOUT, SETTINGS, TOKENS\n"
        "from tests.supernet.tiny import TINY\n"
        "what = Subnetworks(Supernet.from_pretrained(sys.argv[1], TINY))\n"
        "settings = replace(SETTINGS, steps=60, save_every=3)\n"
        "train(what, TOKENS, settings, sys.argv[2], data=ABOUT, device='cpu')\n"
    )

    def command(out: Path) -> list[str]:
        # All are processes of their own: what else has run in one decides how many threads it has.
        return [sys.executable, "-c", code, str(tmp_path / "parent"), str(out)]

    whole, out = tmp_path / "whole", tmp_path / "out"
    subprocess.run(command(whole), cwd=ROOT, check=True)
    for lines in (5, 20, 40):
        process = subprocess.Popen(command(out), cwd=ROOT)
        while process.poll() is None and _lines(out) < lines:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(command(out), cwd=ROOT, check=True)
    assert Supernet.load(out).digest() == Supernet.load(whole).digest()
    assert len(log(out)) == 60


def _lines(out: Path) -> int:
    path = out / "log.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    done, out = run(tmp_path / "out"), tmp_path / "out"
    before = {p.name: p.stat().st_mtime_ns for p in out.iterdir()}
    what = Subnetworks(Supernet.from_pretrained(tmp_path / "out-parent", TINY))
    again = train(what, TOKENS, SETTINGS, out, data=ABOUT, device="cpu")
    assert isinstance(again, Subnetworks)
    assert again.supernet.digest() == done.digest()
    assert {p.name: p.stat().st_mtime_ns for p in out.iterdir()} == before


@pytest.mark.parametrize("finished", [True, False])
def test_another_run_is_refused_and_named(finished: bool, tmp_path: Path) -> None:
    out, parent = tmp_path / "out", tmp_path / "out-parent"
    if finished:
        run(out)
    else:
        what = Subnetworks(tiny_supernet(parent))
        with pytest.raises(Stopped):
            train(what, TOKENS, SETTINGS, out, data=ABOUT, device="cpu", progress=stop_after(6))
    for changes, data, said in (
        ({"learning_rate": 1e-3}, ABOUT, r"learning_rate 0\.0003; this one has 0\.001"),
        ({"seed": 1}, ABOUT, "seed 0; this one has 1"),
        ({}, {**ABOUT, "data_sha256": "1"}, "data_sha256 0; this one has 1"),
    ):
        what = Subnetworks(Supernet.from_pretrained(parent, TINY))
        expected = "another run that is finished" if finished else said
        with pytest.raises(InvalidValue, match=expected):
            train(what, TOKENS, replace(SETTINGS, **changes), out, data=data, device="cpu")


def test_training_goes_on_from_a_trained_supernet(tmp_path: Path) -> None:
    run(tmp_path / "out")
    what = Subnetworks(Supernet.load(tmp_path / "out"))
    done = train(what, TOKENS, SETTINGS, tmp_path / "more", data=ABOUT, device="cpu")
    assert isinstance(done, Subnetworks)
    assert [r["steps"] for r in Supernet.load(tmp_path / "more").history] == [12, 12]
    assert done.supernet.digest() != Supernet.load(tmp_path / "out").digest()


def test_accumulation_changes_only_rounding(tmp_path: Path) -> None:
    once = run(tmp_path / "a", replace(SETTINGS, steps=3, batch_size=8))
    parts = run(tmp_path / "b", replace(SETTINGS, steps=3, batch_size=8, accumulation=4))
    pairs = zip(once.model.parameters(), parts.model.parameters(), strict=True)
    assert all(torch.allclose(a, b, rtol=0, atol=1e-5) for a, b in pairs)


def test_a_process_may_train_in_both_precisions(tmp_path: Path) -> None:
    """accelerate's own precision is fixed by the first run of a process."""
    found = {
        name: run(tmp_path / name, replace(SETTINGS, steps=3, precision=name))
        for name in ("float32", "bfloat16", "auto")
    }
    assert found["float32"].digest() == found["auto"].digest()  # on a CPU
    assert found["float32"].digest() != found["bfloat16"].digest()
    pairs = zip(*(found[n].model.parameters() for n in ("float32", "bfloat16")), strict=True)
    assert all(torch.allclose(a, b, rtol=0, atol=2e-3) for a, b in pairs)


def test_a_process_stays_on_the_device_that_it_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**options: Any) -> None:
        raise ValueError("AcceleratorState has already been initialized")

    # The package's function hides the module of its name.
    monkeypatch.setattr(sys.modules[train.__module__], "Accelerator", refuse)
    with pytest.raises(InvalidValue, match=r"what this process has trained on before\. Got 'cpu'"):
        run(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_distillation_changes_what_is_learnt(tmp_path: Path) -> None:
    plain = run(tmp_path / "a", replace(SETTINGS, steps=3))
    taught = run(tmp_path / "b", replace(SETTINGS, steps=3, distill=True))
    assert plain.digest() != taught.digest()


def test_a_model_alone_is_trained_like_the_largest(tmp_path: Path) -> None:
    """Alone and as a supernet of which only the largest is trained: the same steps."""
    settings = replace(SETTINGS, strategy="standard")
    supernet = run(tmp_path / "out", settings)
    parent = Supernet.from_pretrained(tmp_path / "out-parent", TINY)
    alone = Alone(parent.extract(TINY.largest), TINY.largest)
    done = train(alone, TOKENS, settings, tmp_path / "alone", data=ABOUT, device="cpu")
    pairs = zip(done.model.parameters(), supernet.model.parameters(), strict=True)
    assert all(torch.allclose(a, b, rtol=0, atol=1e-6) for a, b in pairs)
    assert log(tmp_path / "alone")[0]["losses"][0]["role"] == "alone"


def test_draws_depend_on_seed_and_step_alone() -> None:
    assert draw(TINY, SETTINGS, 3) == draw(TINY, SETTINGS, 3)
    drawn = {str(arch) for step in range(50) for _, arch in draw(TINY, SETTINGS, step)[2:]}
    assert len(drawn) > 80
    assert draw(TINY, SETTINGS, 3) != draw(TINY, replace(SETTINGS, seed=1), 3)
    parts = batch(TOKENS, SETTINGS, 3)
    assert parts.shape == (4, CONTEXT + 1)
    assert (parts == batch(TOKENS, SETTINGS, 3)).all()
    assert (parts != batch(TOKENS, SETTINGS, 4)).any()
    shortest = batch(TOKENS[: CONTEXT + 1], SETTINGS, 0)
    assert (shortest == TOKENS[: CONTEXT + 1]).all()


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    """The launcher shares the batch out; gradients are averaged; a run that was stopped goes on."""
    settings = replace(SETTINGS, steps=4, save_every=2, accumulation=2, strategy="random")
    one = run(tmp_path / "out", settings)
    code = tmp_path / "script.py"
    code.write_text(
        "from dataclasses import replace\n"
        "from pathlib import Path\n"
        "from accelerate import PartialState\n"
        "from hwbench.supernet import Subnetworks, Supernet, train\n"
        "from tests.supernet.training import ABOUT, SETTINGS, TOKENS, stop_after\n"
        "from tests.supernet.tiny import TINY\n"
        f"parent = Path({str(tmp_path / 'out-parent')!r})\n"
        "what = Subnetworks(Supernet.from_pretrained(parent, TINY))\n"
        "settings = replace(SETTINGS, steps=4, save_every=2, strategy='random')\n"
        f"out = Path({str(tmp_path / 'two')!r})\n"
        "stop = stop_after(3) if not out.exists() else lambda done: None\n"
        "train(what, TOKENS, settings, out, data=ABOUT, device='cpu', progress=stop)\n"
        "assert PartialState().num_processes == 2\n"
    )
    # What `accelerate launch` runs for several GPUs; for CPUs it starts one process only.
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", str(code)]
    for status in (1, 0):
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
        )
        assert done.returncode == status
    two = Supernet.load(tmp_path / "two")
    assert len(log(tmp_path / "two")) == 4
    for ours, theirs in zip(log(tmp_path / "out"), log(tmp_path / "two"), strict=True):
        losses = [[entry["loss"] for entry in line["losses"]] for line in (ours, theirs)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)  # of the whole batch
        assert ours["gradient_norm"] == pytest.approx(theirs["gradient_norm"], rel=1e-4)
    alone = dict(one.model.named_parameters())
    for name, p in two.model.named_parameters():
        # No function depends on the biases of keys: their gradients are rounding, which AdamW
        # makes steps of.
        near = 1e-4 if name.endswith("qkv.bias") else 1e-6
        assert torch.allclose(alone[name], p, rtol=0, atol=near)
