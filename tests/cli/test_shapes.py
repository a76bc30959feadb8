"""`hwbench advise` and `hwbench gemm`: what they print, and each mistake as one line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hwbench import space
from hwbench.cli import app

GPT3 = [
    *("--hidden", "2560", "--heads", "32", "--layers", "32", "--vocab", "50257"),
    *("--seq", "2048", "--microbatch", "4"),
]
TINY = [
    *("--hidden", "32", "--heads", "4", "--layers", "2", "--vocab", "64"),
    *("--seq", "16", "--dtype", "float32", "--phase", "forward"),
]
ARCH = str(space("s").largest)

Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str) -> str:
        assert app.run(args) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return str(out)

    return call


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str) -> str:
        assert app.run(args) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        return str(err)

    return call


def test_advice_is_a_verdict_and_three_tables(run: Run) -> None:
    text = run("advise", *GPT3, "--device", "a100")
    assert "A training step of 2.77 billion parameters" in text
    for title in ("Products, the worst first", "Rules", "Proposals"):
        assert f"\n{title}\n" in text
    assert "vocab=50304" in text


def test_advice_as_json_has_as_many_proposals_as_asked(run: Run) -> None:
    made = json.loads(run("advise", *GPT3, "--device", "a100", "--json", "--proposals", "200"))
    assert len(made["proposals"]) == 200
    heads = {p["head_size"] for p in made["proposals"]}
    assert {64, 128} <= heads
    assert made["shape"]["hidden"] == 2560


def test_advice_on_an_architecture(run: Run) -> None:
    text = run("advise", "--arch", ARCH, "--device", "h100")
    assert "One forward of 8 x 1024 tokens" in text
    assert "layers 0-11 (12 heads, ratio 4)" in text
    made = json.loads(
        run("advise", "--arch", ARCH, "--device", "h100", "--json", "--microbatch", "2")
    )
    assert made["batch_size"] == 2


def test_a_config_is_read_and_flags_go_before_it(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps(
            {
                "model_type": "llama",
                "hidden_size": 4096,
                "num_attention_heads": 32,
                "num_hidden_layers": 32,
                "vocab_size": 32000,
                "max_position_embeddings": 2048,
                "intermediate_size": 10922,
            }
        )
    )
    made = json.loads(
        run("advise", "--config", str(path), "--layers", "4", "--device", "h100", "--json")
    )
    assert (made["shape"]["layers"], made["shape"]["mlp_width"]) == (4, 10922)
    broken = [r["rule"] for r in made["rules"] if r["state"] == "broken"]
    assert "mlp-width-64" in broken


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """A device of one's own."""
    path = tmp_path / "mine.toml"
    path.write_text(
        'generation = "ampere"\nmultiprocessors = 10\nhalf_tflops = 20\nfloat32_tflops = 10\n'
        'bandwidth_gb_s = 100\nmemory_gb = 8\nfigures_from = "a guess"\n'
    )
    return str(path)


def test_a_device_of_ones_own(run: Run, mine: str) -> None:
    assert json.loads(run("advise", *GPT3, "--device", mine, "--json"))["device"] == "mine"


MISTAKES: list[tuple[str, list[str]]] = [
    ("advise --device a100", ["--hidden, --heads, --layers", "Got no --hidden"]),
    ("advise {gpt3} --device a10", ["Unknown device 'a10'", "Did you mean 'a100'"]),
    ("advise {gpt3} --device cpu_amd_7502", ["no peak figures of device 'cpu_amd_7502'", "a100"]),
    ("advise {gpt3} --device none.toml", ["Cannot read the device file 'none.toml'"]),
    ("advise {gpt3} --device a100 --heads 33", ["'heads'", "divisor of hidden=2560", "Got 33"]),
    ("advise {gpt3} --device a100 --tensor-parallel 5", ["'tensor_parallel'", "heads=32", "Got 5"]),
    ("advise {gpt3} --device a100 --seq 0", ["'seq'", "Got 0"]),
    ("advise {gpt3} --device a100 --layers -3", ["'layers'", "Got -3"]),
    ("advise {gpt3} --device a100 --mlp relu", ["'mlp'", "gelu, swiglu", "'relu'"]),
    ("advise {gpt3} --device a100 --tolerance 2", ["'tolerance'", "[0, 0.5]", "Got 2.0"]),
    ("advise {gpt3} --device a100 --proposals -1", ["--proposals", "-1"]),
    ("advise {gpt3} --device a100 --measured none.json", ["Cannot read the record 'none.json'"]),
    ("advise --config none.json --device a100", ["Cannot read the config 'none.json'"]),
    ("advise --arch gpt-s-1 --device a100", ["gpt-s-1"]),
    ("advise --arch {arch} --device a100 --hidden 8", ["'arch'", "without the sizes", "--hidden"]),
    ("gemm --device cpu", ["--hidden, --heads", "Got no --hidden"]),
    ("gemm --device tpu {tiny}", ["'device'", "cpu, cuda or cuda:N", "'tpu'"]),
    ("gemm --device cpu --shapes none.txt", ["'shapes'", "a readable text file"]),
    ("gemm --device cpu --shapes none.txt --hidden 3", ["given alone", "hidden"]),
    ("gemm --device cpu {tiny} --figures h1", ["Unknown device 'h1'", "Did you mean 'h100'"]),
]


@pytest.mark.parametrize("line, words", MISTAKES, ids=[m[0][:60] for m in MISTAKES])
def test_a_mistake_is_one_line(fails: Run, line: str, words: list[str]) -> None:
    if line.startswith("gemm"):
        pytest.importorskip("torch")
    args = line.format(gpt3=" ".join(GPT3), tiny=" ".join(TINY), arch=ARCH).split()
    message = fails(*args)
    assert [word for word in words if word not in message] == []


def test_an_encoders_config_is_refused(fails: Run, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "bert"}')
    message = fails("advise", "--config", str(path), "--device", "a100")
    assert "model_type of a decoder 'bert'" in message
    assert "llama" in message


def test_products_are_measured_recorded_and_used_as_evidence(
    run: Run, mine: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "record.json"
    args = ["gemm", "--device", "cpu", *TINY, "--repeats", "2", "--out", str(out)]
    made = json.loads(run(*args, "--figures", "a100", "--json"))
    assert {row["gemm"] for row in made["gemms"]} >= {"QKV", "scores", "logits"}
    assert all(row["median_us"] > 0 for row in made["gemms"])
    assert all(row["predicted_over_measured"] > 0 for row in made["gemms"])
    first = out.read_text()
    assert "median_us" in run(*args), "a table without figures"
    assert out.read_text() == first, "nothing was missing, so nothing was measured again"
    advice = json.loads(run("advise", *TINY, "--device", mine, "--measured", str(out), "--json"))
    assert advice["measured_share"] == 1
    assert {row["source"] for row in advice["gemms"]} == {"measured"}


def test_a_record_of_another_type_or_device_is_no_evidence(
    run: Run, fails: Run, mine: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "record.json"
    run("gemm", "--device", "cpu", *TINY, "--repeats", "1", "--out", str(out))
    message = fails("advise", *GPT3, "--device", mine, "--measured", str(out))
    assert "a record of bfloat16 products. Got 'float32'" in message
    message = fails("advise", *TINY, "--device", "a100", "--measured", str(out))
    assert "a record of a100. Got 'cpu'" in message
    other = [*TINY, "--dtype", "bfloat16"]
    message = fails("gemm", "--device", "cpu", *other, "--repeats", "1", "--out", str(out))
    assert "a record of cpu in bfloat16. Got 'cpu in float32'" in message


def test_sizes_from_a_file_are_measured(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    sizes = tmp_path / "sizes.txt"
    sizes.write_text("32 48 64\n16 16 16 4\n")
    args = ("gemm", "--device", "cpu", "--shapes", str(sizes), "--dtype", "float32")
    rows: list[dict[str, Any]] = json.loads(run(*args, "--repeats", "2", "--json"))["gemms"]
    assert [(r["m"], r["n"], r["k"], r["batch"]) for r in rows] == [
        (32, 48, 64, 1),
        (16, 16, 16, 4),
    ]


def test_advice_imports_nothing_heavy() -> None:
    heavy = ("torch", "transformers", "matplotlib", "pandas", "xgboost", "sklearn", "pyarrow")
    code = (
        "import sys; from hwbench.cli.app import run;"
        f"run(['advise', *{GPT3!r}, '--device', 'a100', '--proposals', '200', '--json']);"
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
