"""`hwbench supernet`, end to end with a tiny GPT-2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hwbench.cli.app import run

pytest.importorskip("torch", reason="torch is not installed")
tiny = pytest.importorskip("tests.supernet.tiny", reason="hwbench[supernet] is not installed")

SPACE = """
name = "tiny"
embed_dim = [16, 24, 32]
n_layer = [1, 2, 3]
n_head = [1, 2, 4]
mlp_ratio = [2, 3, 4]
bias = [true, false]
head_size = 8
seq_len = 24
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a checkpoint, a space and texts, which the commands run in."""
    tiny.write_checkpoint(tmp_path / "parent")
    (tmp_path / "tiny.toml").write_text(SPACE)
    (tmp_path / "train.txt").write_text(tiny.text(2000))
    (tmp_path / "test.txt").write_text(tiny.text(200, seed=1))
    monkeypatch.chdir(tmp_path)
    return tmp_path


PARENT = ("--checkpoint", "parent", "--space", "tiny.toml")
STEPS = ("--steps", "4", "--batch-size", "4", "--warmup-steps", "1", "--device", "cpu")
TRAIN = ("supernet", "train", *PARENT, "--data", "train.txt", "--out", "trained", *STEPS)
EXTRACT = ("supernet", "extract", *PARENT, "--arch", "random")
EVAL = ("supernet", "eval", "--data", "test.txt", "--device", "cpu")


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What a command prints that succeeds."""
    capsys.readouterr()
    status = run(list(args))
    said = capsys.readouterr()
    assert status == 0, said.err
    return said.out


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The one line of a command that fails."""
    capsys.readouterr()
    assert run(list(args)) == 2
    said = capsys.readouterr()
    [line] = [x for x in said.err.splitlines() if "shards" not in x]
    assert line.startswith("Error: ")
    return line


def test_from_a_checkpoint_to_a_query(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strategies = ("--widths", "importance", "--layers", "strided", "--distill")
    out = printed(capsys, *TRAIN, *strategies, "--learning-rate", "0.02")
    assert out == "trained holds the supernet after 4 steps.\n"
    assert printed(capsys, *TRAIN, *strategies, "--learning-rate", "0.02") == out
    page = printed(capsys, "supernet", "describe", "trained")
    for said in (
        "kind           supernet",
        "parent         parent (embed_dim 32, 3 layers)",
        "space          tiny",
        "architectures  4,914",
        "slices         widths importance, layers strided",
        "steps trained  4",
        "sandwich with distillation, steps 4, batch 4 x 24 tokens, seed 0, data train.txt",
        "model.safetensors ",
    ):
        assert said in page
    many = [*EVAL, "--checkpoint", "trained", "--sample", "40", "--out", "store"]
    said = json.loads(printed(capsys, *many, "--json"))
    assert said["scored"] > 30
    assert "scored 0 architectures" in printed(capsys, *many)
    printed(capsys, "fit", "--store", "store", "--out", "artifacts")
    query = ("query", "--space", "tiny.toml", "--artifacts", "artifacts", "--arch", "random")
    answer = json.loads(printed(capsys, *query, "--metric", "perplexity", "--json"))
    assert answer["answers"]


def test_one_is_scored_with_its_protocol(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = [*EVAL, *PARENT, "--arch", "random", "--seed", "3"]
    found = json.loads(printed(capsys, *one, "--json"))
    assert (found["context"], found["stride"], found["data"]) == (24, 12, "test.txt")
    assert found["words"] == 200
    page = printed(capsys, *one)
    assert found["architecture"] in page
    assert found["data_sha256"] in page
    small = json.loads(printed(capsys, *one, "--json", "--batch-size", "1"))
    assert small["perplexity"] == pytest.approx(found["perplexity"], rel=1e-5)
    largest = json.loads(printed(capsys, *EVAL, *PARENT, "--json"))
    assert largest["architecture"] == str(tiny.TINY.largest)


def test_many_are_listed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archs = tiny.TINY.sample(3, seed=0)
    (here / "archs.txt").write_text(  # with a byte-order mark
        "".join(f" {a} \r\n" for a in archs) + "# three\r\n\r\n", "utf-8-sig", newline=""
    )
    many = [*EVAL, *PARENT, "--many", "archs.txt"]
    assert [r["architecture"] for r in json.loads(printed(capsys, *many, "--json"))] == [
        str(a) for a in archs
    ]
    table = printed(capsys, *many)
    assert table.splitlines()[0].split() == [
        "architecture", "perplexity", "perplexity_per_word", "accuracy",
    ]  # fmt: skip
    assert "context 24, stride 12" in table.splitlines()[-1]
    sampled = json.loads(printed(capsys, *EVAL, *PARENT, "--sample", "3", "--json"))
    assert [r["architecture"] for r in sampled] == [str(a) for a in archs]


def test_an_extracted_model_scores_as_its_slice(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from hwbench.model import Model
    from hwbench.supernet import Data, Supernet, Windows, perplexity

    arch = tiny.TINY.sample(1, seed=5)[0]
    said = printed(capsys, "supernet", "extract", *PARENT, "--arch", str(arch), "--out", "model")
    assert said == f"model holds {arch}.\n"
    found = json.loads(printed(capsys, *EVAL, *PARENT, "--arch", str(arch), "--json"))
    supernet = Supernet.from_pretrained("parent", "tiny.toml")
    data = Data.open("test.txt", supernet.tokeniser, 300)
    alone = perplexity(Model.load("model"), data, Windows(context=24, stride=12))
    assert alone.perplexity == pytest.approx(found["perplexity"], rel=1e-5)


def test_a_checkpoint_is_described(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, "supernet", "describe", "parent")
    assert "space          of one's own: give it with --space" in page
    found = json.loads(printed(capsys, "supernet", "describe", "parent", "--json"))
    assert found["kind"] == "checkpoint"


@pytest.mark.parametrize(
    "args, said",
    [
        ((*EVAL, "--checkpoint", "parent"), "The space of parent must be given"),
        ((*EVAL, "--checkpoint", "train.txt"), "A checkpoint must be a folder"),
        ((*EVAL, *PARENT, "--arch", "random", "--sample", "2"), "Give one of --arch, --many"),
        ((*EVAL, *PARENT, "--arch", "nonsense"), "nonsense"),
        ((*EVAL, *PARENT, "--many", "absent.txt"), "No such file or directory: 'absent.txt'"),
        ((*EVAL, *PARENT, "--many", "empty.txt"), "must hold an architecture a line"),
        ((*EVAL, *PARENT, "--many", "train.txt"), "Line 1 of train.txt: "),
        ((*EVAL, *PARENT, "--context", "25"), "at most the model's 24 tokens. Got 25"),
        ((*EVAL, *PARENT, "--stride", "25"), "from 1 to context, 24. Got 25"),
        ((*EVAL, *PARENT, "--batch-size", "0"), "an int >= 1. Got 0"),
        ((*EVAL, *PARENT, "--widths", "importance"), "needs calibration text"),
        ((*EVAL, *PARENT, "--widths", "wide"), "Unknown width strategy 'wide'"),
        ((*EVAL, *PARENT, "--tokenizer", "absent"), "There is no tokenizer.json in absent"),
        ((*EVAL[:-1], "cuda:9", *PARENT), "Cannot use the device 'cuda:9'"),
        ((*EVAL[:-1], "toaster", *PARENT), "Cannot use the device 'toaster'"),
        (("supernet", "eval", *PARENT, "--data", "empty.txt"), "empty.txt is empty"),
        (("supernet", "eval", *PARENT, "--data", "absent.txt"), "absent.txt is none"),
        ((*TRAIN, "--distill", "--strategy", "random"), "Distillation needs"),
        ((*TRAIN, "--strategy", "sandwhich"), "Did you mean 'sandwich'"),
        ((*TRAIN, "--learning-rate", "nan"), "Got nan"),
        ((*TRAIN, "--steps", "0"), "Got 0"),
        # Told before a checkpoint is read and sorted, which takes its time.
        ((*TRAIN, "--checkpoint", "absent-name", "--steps", "0"), "'steps'"),
        ((*TRAIN, "--out", "parent"), "must be trained into another folder than parent"),
        ((*TRAIN, "--data", "empty.txt"), "empty.txt is empty"),
        (("supernet", "describe", "absent"), "absent must be a folder"),
        (("supernet", "describe", "."), "config.json"),
        (("supernet", "extract", *PARENT, "--arch", "x", "--out", "m"), "'x'"),
        ((*EXTRACT, "--out", "parent"), "must be written into another folder than parent"),
        ((*EXTRACT, "--out", "another"), "needs a folder of its own. another has another"),
        ((*EVAL[:-1], "meta", *PARENT), "Cannot use the device 'meta'"),
    ],
)
def test_mistakes_get_one_line_and_leave_nothing(
    args: tuple[str, ...], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "empty.txt").write_text("")
    (here / "another").mkdir()
    (here / "another" / "config.json").write_text('{"model_type": "llama"}')
    before = sorted(p.relative_to(here) for p in here.rglob("*"))
    assert said in refused(capsys, *args)
    assert sorted(p.relative_to(here) for p in here.rglob("*")) == before


def test_of_several_processes_one_speaks(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hwbench.cli.supernet._is_first_process", lambda: False)
    assert printed(capsys, *TRAIN) == ""


def test_another_run_in_the_folder_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, *TRAIN)
    assert "another run that is finished" in refused(capsys, *TRAIN, "--seed", "1")


@pytest.mark.parametrize("name", ["accelerate", "tokenizers"])
def test_without_the_extra_one_line_says_what_to_install(name: str) -> None:
    code = (
        f"import sys; sys.modules[{name!r}] = None\n"
        "from hwbench.cli.app import run\n"
        "sys.exit(run(['supernet', 'describe', '.']))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (f"Error: The supernet needs {name}: pip install 'hwbench[supernet]'.\n")
