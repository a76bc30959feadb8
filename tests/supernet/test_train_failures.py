"""What goes wrong in training costs no checkpoint, and is told in one line."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hwbench.errors import InvalidArtifact, InvalidValue, UnknownName
from hwbench.supernet import Subnetworks, Supernet, describe, train
from tests.supernet.tiny import TINY, tiny_supernet
from tests.supernet.training import ABOUT, ROOT, SETTINGS, TOKENS, Stopped, log, run, stop_after


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
    with pytest.raises(Stopped):
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
        "from tests.supernet.test_train_failures import _disk_of, ABOUT, SETTINGS, TOKENS\n"
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
        "from tests.supernet.test_train_failures import _disk_of\n"
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
