"""`hwbench profile`, end to end on this machine's CPU with tiny subnetworks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hwbench.cli.app import run
from hwbench.records import Store, validate

pytest.importorskip("torch", reason="torch is not installed")

OWN = """
name = "tiny"
embed_dim = [16]
n_layer = [1, 2, 3]
n_head = [1, 2]
mlp_ratio = [1, 2]
bias = [true, false]
head_size = 16
batch_size = 1
seq_len = 8
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(OWN)
    return path


def profile(own: Path, out: Path, *more: str) -> int:
    quick = ("--min-time", "0.001", "--min-repeats", "3", "--budget", "8", "--threads", "1")
    named = ("--space", str(own), "--device-name", "my-cpu", "--out", str(out))
    return run(["profile", *named, *quick, *more])


def test_a_profile_of_this_cpu_goes_on_and_is_a_valid_store(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "store"
    assert profile(own, out, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["remaining"] == said["failed"] == 0
    assert said["measured"] >= 10
    assert 0 < said["overhead"] < 1
    store = Store.open(out)
    seen = store.observations("my-cpu", "tiny", "latency")
    assert seen is not None
    assert seen.repeats.lengths.min() >= 3
    assert seen.workload is not None
    assert (seen.workload.batch_size, seen.workload.seq_len) == (1, 8)
    assert [f for f in validate(out).findings if f.severity == "error"] == []
    assert profile(own, out) == 0  # done already
    again = capsys.readouterr().out
    assert "Measured 0 times" in again
    assert f"--space {own} --device my-cpu" in again  # its name alone would be unknown


@pytest.mark.parametrize(
    "more, said",
    [
        (["--dtype", "float33"], "Did you mean 'float32'"),
        (["--until", "soon"], "a percentage such as 0.5%"),
        (["--device-name", "a/b"], "device_name"),
        (["--budget", "3"], "budget"),
        (["--phase", "sleep"], "phase"),
        (["--batch-size", "0"], "batch_size"),
        (["--block", "gpt3"], "block"),
        (["--device", "tpu"], "'cpu' or 'cuda:<index>'"),
        (["--device", "cpu:3"], "'cpu' or 'cuda:<index>'"),
        (["--device-name", "x" * 65], "at most 64 letters"),
        (["--min-time", "inf"], "a finite number > 0"),
        (["--min-time", "nan"], "a finite number > 0"),
        (["--threads", "99999999999999999999"], "an int from 1 to 4096"),
        (["--batch-size", "99999999999999999999"], "at most 2147483647 tokens a pass"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    assert profile(own, tmp_path / "store", *more) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "store").exists()


def test_cuda_is_never_stood_in_for(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is CUDA here")
    assert profile(own, tmp_path / "store", "--device", "cuda:0") == 2
    assert "needs CUDA" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()
