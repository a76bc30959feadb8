"""Training: a run that was killed ends in the same weights, and a full disk loses nothing."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hwbench.errors import InvalidArtifact, InvalidValue, UnknownName
from hwbench.supernet import Alone, Subnetworks, Supernet, TrainSettings, describe, train
from hwbench.supernet.train import batch
from hwbench.supernet.trainable import draw
from tests.supernet.tiny import CONTEXT, TINY, tiny_supernet

ROOT = Path(__file__).parents[2]
TOKENS = np.random.default_rng(0).integers(0, 40, 3000)
SETTINGS = TrainSettings(
    steps=12, batch_size=4, context=CONTEXT, warmup_steps=3, save_every=5, precision="float32"
)
ABOUT = {"data": "drawn", "data_sha256": "0"}


def run(folder: Path, settings: TrainSettings = SETTINGS, **more: Any) -> Supernet:
    """Train a tiny supernet into a folder."""
    what = Subnetworks(tiny_supernet(folder.parent / f"{folder.name}-parent", **more))
    done = train(what, TOKENS, settings, folder, data=ABOUT, device="cpu")
    assert isinstance(done, Subnetworks)
    return done.supernet


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


class _Stop(Exception):
    pass


def stop_after(steps: int) -> Callable[[int], None]:
    """A progress callback that breaks a run off."""
    seen = 0

    def progress(done: int) -> None:
        nonlocal seen
        seen += done
        if seen >= steps:
            raise _Stop

    return progress


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
    with pytest.raises(_Stop):
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
        "from tests.supernet.test_train import ABOUT, SETTINGS, TOKENS\n"
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
        with pytest.raises(_Stop):
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


# What goes wrong


def _disk_of(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def test_without_space_the_checkpoint_before_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    what = Subnetworks(tiny_supernet(tmp_path / "parent"))
    before: dict[str, bytes] = {}

    def no_space(tensors: Any, path: Path, *args: Any, **kwargs: Any) -> None:
        path.write_bytes(b"half a file")
        raise OSError(28, "No space left on device")

    def progress(done: int) -> None:
        if done and len(log(out)) == 6:
            before.update({p.name: p.read_bytes() for p in out.iterdir() if p.suffix != ".jsonl"})
            monkeypatch.setattr("hwbench.supernet.snapshot.save_file", no_space)

    with pytest.raises(InvalidArtifact, match=r"No space left on device\. What it held before"):
        train(what, TOKENS, SETTINGS, out, data=ABOUT, device="cpu", progress=progress)
    assert {p.name: p.read_bytes() for p in out.iterdir() if p.suffix != ".jsonl"} == before
    monkeypatch.undo()
    again = Subnetworks(Supernet.from_pretrained(tmp_path / "parent", TINY))
    done = train(again, TOKENS, SETTINGS, out, data=ABOUT, device="cpu")
    whole = train(
        Subnetworks(Supernet.from_pretrained(tmp_path / "parent", TINY)), TOKENS, SETTINGS,
        tmp_path / "whole", data=ABOUT, device="cpu",
    )  # fmt: skip
    pairs = zip(done.model.parameters(), whole.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_a_log_is_not_lost_where_it_cannot_be_cut_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    what = Subnetworks(tiny_supernet(tmp_path / "parent"))
    with pytest.raises(_Stop):
        train(what, TOKENS, SETTINGS, out, data=ABOUT, device="cpu", progress=stop_after(8))
    before = (out / "log.jsonl").read_bytes()

    def no_space(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hwbench.records.files.write_text", no_space)
    again = Subnetworks(Supernet.from_pretrained(tmp_path / "parent", TINY))
    with pytest.raises(InvalidArtifact, match=r"Cannot write .*log.jsonl: No space left on device"):
        train(again, TOKENS, SETTINGS, out, data=ABOUT, device="cpu")
    assert (out / "log.jsonl").read_bytes() == before


def test_where_a_log_may_not_grow_the_run_stops_in_one_line(tmp_path: Path) -> None:
    parent, out = tmp_path / "parent", tmp_path / "out"
    tiny_supernet(parent)
    code = (
        "import sys\n"
        "from dataclasses import replace\n"
        "from pathlib import Path\n"
        "from hwbench.errors import InvalidArtifact\n"
        "from hwbench.supernet import Subnetworks, Supernet, train\n"
        "from tests.supernet.test_train import _disk_of, ABOUT, SETTINGS, TOKENS\n"
        "from tests.supernet.tiny import TINY\n"
        "what = Subnetworks(Supernet.from_pretrained(Path(sys.argv[1]), TINY))\n"
        "_disk_of(2_000)\n"
        "try:\n"
        "    train(what, TOKENS, SETTINGS, Path(sys.argv[2]), data=ABOUT, device='cpu')\n"
        "except InvalidArtifact as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", code, str(parent), str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "log.jsonl: File too large. The last checkpoint remains." in done.stdout
    assert done.stdout.count("\n") == 1


def test_others_may_read_what_was_saved(tmp_path: Path) -> None:
    """The library that writes tensors makes them their owner's alone."""
    supernet = tiny_supernet(tmp_path / "parent")
    supernet.save(tmp_path / "saved")
    supernet.extract(TINY.smallest).save(tmp_path / "model")
    usual = (tmp_path / "saved" / "supernet.json").stat().st_mode
    for folder in ("saved", "model"):
        assert {p.stat().st_mode for p in (tmp_path / folder).iterdir()} == {usual}


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / ".writing-1").mkdir(parents=True)
    (out / ".writing-1" / ".tmpabcdef").write_text("half a file")
    (out / ".writing-1-log.jsonl").write_text("half a line")
    for name in ("weights-of-mine.safetensors", "tokenizer-old.json", "moments-1.txt"):
        (out / name).write_text("kept")
    run(out)
    assert {p.name for p in out.iterdir() if p.is_dir() or p.read_bytes() == b"kept"} == {
        "weights-of-mine.safetensors", "tokenizer-old.json", "moments-1.txt",
    }  # fmt: skip
    assert len(list(out.glob(".writing-*"))) == 0


def test_saved_again_after_as_many_steps_the_state_before_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files have the same number in their names, and were overwritten before the card was."""
    supernet = tiny_supernet(tmp_path / "parent")
    supernet.save(tmp_path / "out")
    before = supernet.digest()
    with torch.no_grad():
        supernet.model.norm.weight.zero_()
    monkeypatch.setattr("hwbench.supernet.snapshot.CARD", "absent/supernet.json")
    with pytest.raises(InvalidArtifact, match="Cannot write to"):
        supernet.save(tmp_path / "out")
    monkeypatch.undo()
    assert Supernet.load(tmp_path / "out").digest() == before


@pytest.mark.parametrize("run_", [5, {}, {"step": 1}, {"step": "1", "settings": {}, "data": {}}])
def test_a_card_with_a_damaged_run_is_refused_in_one_line(run_: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    tiny_supernet(tmp_path / "parent").save(out)
    card = json.loads((out / "supernet.json").read_text())
    (out / "supernet.json").write_text(json.dumps({**card, "run": run_}))
    what = Subnetworks(Supernet.from_pretrained(tmp_path / "parent", TINY))
    for use in (
        lambda: train(what, TOKENS, SETTINGS, out, data=ABOUT, device="cpu"),
        lambda: Supernet.load(out),
        lambda: describe(out),
    ):
        with pytest.raises(InvalidArtifact, match="a run must have 'settings'"):
            use()


def test_a_launchers_accumulation_divides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """accelerate reads it from its own configuration, and scaled every loss down once more."""
    plain = run(tmp_path / "a", replace(SETTINGS, steps=2))
    norms = [line["gradient_norm"] for line in log(tmp_path / "a")]
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    again = run(tmp_path / "b", replace(SETTINGS, steps=2))
    assert [line["gradient_norm"] for line in log(tmp_path / "b")] == norms
    assert again.digest() == plain.digest()


def test_a_file_that_may_not_grow_is_no_half_checkpoint(tmp_path: Path) -> None:
    """The kernel's own refusal, in the library that writes the tensors."""
    parent = tmp_path / "parent"
    tiny_supernet(parent).save(tmp_path / "out")
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from hwbench.errors import InvalidArtifact\n"
        "from hwbench.supernet import Supernet\n"
        "from tests.supernet.test_train import _disk_of\n"
        "supernet = Supernet.load(Path(sys.argv[1]))\n"
        "supernet.history = ({'steps': 1},)\n"
        "_disk_of(20_000)\n"
        "try:\n"
        "    supernet.save(Path(sys.argv[1]))\n"
        "except InvalidArtifact as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Cannot write to" in done.stdout
    assert done.stdout.count("\n") == 1
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before


def test_two_processes_into_one_folder_are_refused(tmp_path: Path) -> None:
    from hwbench.records import files

    out = tmp_path / "out"
    out.mkdir()
    with files.locked(out), pytest.raises(InvalidValue, match="Another process trains into"):
        run(out)


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="The loss must stay finite"):
        run(tmp_path / "out", replace(SETTINGS, learning_rate=1e30, clip=0.0, warmup_steps=0))


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"steps": 0}, "'steps' .* an int >= 1. Got 0"),
        ({"steps": 1.5}, "'steps' .* Got 1.5"),
        ({"batch_size": True}, "'batch_size' .* Got True"),
        ({"warmup_steps": -1}, "'warmup_steps' .* >= 0. Got -1"),
        ({"learning_rate": float("nan")}, "'learning_rate' .* Got nan"),
        ({"learning_rate": float("inf")}, "'learning_rate' .* Got inf"),
        ({"learning_rate": "fast"}, "'learning_rate' .* Got 'fast'"),
        ({"final_share": 1.1}, "'final_share' .* from 0 to 1. Got 1.1"),
        ({"batch_size": 4, "accumulation": 3}, "multiple of accumulation, 3. Got 4"),
        ({"distill": True, "strategy": "random"}, "Distillation needs .* 'sandwich'. Got 'random'"),
    ],
)
def test_settings_out_of_range_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        replace(SETTINGS, **changes)


def test_unknown_names_are_told() -> None:
    with pytest.raises(UnknownName, match=r"'sandwhich'\. Did you mean 'sandwich'"):
        replace(SETTINGS, strategy="sandwhich")
    with pytest.raises(UnknownName, match="precision 'fp16'"):
        replace(SETTINGS, precision="fp16")


def test_text_and_context_must_fit(tmp_path: Path) -> None:
    what = Subnetworks(tiny_supernet(tmp_path / "parent"))
    with pytest.raises(InvalidValue, match=r"at most the model's 24\. Got 25"):
        train(what, TOKENS, replace(SETTINGS, context=25), tmp_path / "a", data=ABOUT)
    with pytest.raises(InvalidValue, match=r"more tokens than the context of 24\. Got 24"):
        train(what, TOKENS[:24], SETTINGS, tmp_path / "b", data=ABOUT)
    with pytest.raises(InvalidValue, match=r"'device' .* 'cpu', or not given\. Got 'tpu'"):
        train(what, TOKENS, SETTINGS, tmp_path / "c", data=ABOUT, device="tpu")
    for wrong, got in (
        (TOKENS + 261, r"Got 'int64 of shape \(3000,\), 261 to 300'"),
        (TOKENS - 1, "-1 to 38"),
        (TOKENS.astype(np.float32), "float32"),
        (TOKENS[:, None], r"\(3000, 1\)"),
    ):
        with pytest.raises(InvalidValue, match=f"a list of ints from 0 to 299.*{got}"):
            train(what, wrong, SETTINGS, str(tmp_path / "c"), data=ABOUT)
    assert not any((tmp_path / name).exists() for name in "abc")


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
        "from tests.supernet.test_train import ABOUT, SETTINGS, TOKENS, stop_after\n"
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
