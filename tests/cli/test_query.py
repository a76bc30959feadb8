"""`hwbench query`: a table or JSON of the same numbers as the API, and one line a mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hwbench
from hwbench.cli.app import run

MINIATURE = Path(__file__).parent.parent.parent / "data/miniature"
ARCH = hwbench.space("s").sample(1, 11)[0]
Capture = pytest.CaptureFixture[str]


def asked(capsys: Capture, *args: str) -> dict[str, Any]:
    """What the command prints as JSON."""
    assert run(["query", *args, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: Capture, *args: str) -> str:
    """The one line of a command that fails."""
    assert run(["query", *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    return err


def test_the_table(capsys: Capture) -> None:
    line = ["query", "--space", "s", "--device", "h100,P100", "--metric", "latency,params"]
    assert run([*line, "--arch", str(ARCH)]) == 0
    first, _, header, *lines = capsys.readouterr().out.splitlines()
    assert first == str(ARCH)
    columns = "metric device unit median low high source evidence workload"
    assert header.split() == columns.split()
    bench = hwbench.Benchmark("s")
    for shown, device in zip(lines[:2], ("h100", "p100"), strict=True):
        low, median, high = bench.predict(ARCH, device)[0]
        numbers = [f"{v:.6g}" for v in (median, low, high)]
        assert shown.split()[:6] == ["latency", device, "ms", *numbers]
    assert lines[2].split()[3:6] == [str(hwbench.count(ARCH).params)] * 3
    rest = lines[3:]
    assert rest[0] == ""
    assert rest[1] == "90% of single measurements fall between low and high."
    assert rest[3].startswith("[1] hwgpt forward, batch 8 x 1024 tokens, float32 weights under bf")
    assert rest[4].startswith("[2] hwgpt forward, batch 8 x 1024 tokens, float32 weights under fl")
    assert len(rest) == 5


def test_json_is_what_the_api_answers(capsys: Capture) -> None:
    found = asked(capsys, "--space", "s", "--arch", str(ARCH))
    assert found["text"] == str(ARCH)
    assert hwbench.Architecture.from_dict(found["arch"]) == ARCH
    predictions = hwbench.Benchmark("s").query(ARCH).predictions()
    assert len(found["answers"]) == len(predictions)
    for row, p in zip(found["answers"], predictions, strict=True):
        assert (row["metric"], row["device"], row["unit"]) == (p.metric.name, p.device, p.unit)
        assert (row["supported"], row["reason"]) == (p.supported, p.reason)
        assert (row["source"], row["evidence"]) == (p.source, p.evidence)
        assert row["artifact"] == p.artifact
        assert row["workload"] == (None if p.workload is None else p.workload.to_dict())
        if p.supported:
            assert (row["low"], row["high"]) == p.interval(0.9)
            assert (row["median"], row["mean"], row["std"]) == (p.median, p.mean, p.std)
            assert row["no_interval"] is None
            assert row["components"] == dict(p.components)
        else:
            keys = ("median", "low", "high", "mean", "std", "no_interval", "components")
            assert [row[key] for key in keys] == [None] * 7
    assert len({tuple(row) for row in found["answers"]}) == 1  # all have the same keys
    exact = next(row for row in found["answers"] if row["metric"] == "macs")
    assert type(exact["median"]) is int
    assert exact["median"] == hwbench.count(ARCH).macs


def test_the_level(capsys: Capture) -> None:
    line = ["--space", "s", "--arch", str(ARCH), "--device", "a40", "--metric", "energy"]
    (row,) = asked(capsys, *line, "--level", "0.5")["answers"]
    p = hwbench.Benchmark("s").query(ARCH, "a40", "energy")["a40"]["energy"]
    assert (row["low"], row["high"]) == p.interval(0.5)
    assert row["level"] == 0.5
    assert row["no_interval"] is None


def test_a_level_beyond_the_calibration_has_no_numbers_and_one_line_that_says_so(
    capsys: Capture,
) -> None:
    """The lower end was once 0, beside a promise that 99.999% of measurements lie above."""
    line = ["--space", "s", "--arch", str(ARCH), "--device", "a40,h100", "--metric", "energy"]
    first, second = asked(capsys, *line, "--level", "0.99999")["answers"]
    p = hwbench.Benchmark("s").query(ARCH, "a40", "energy")["a40"]["energy"]
    for row in (first, second):
        assert (row["low"], row["high"]) == (None, None)
        assert row["median"] > 0
    assert first["no_interval"] == p.unbounded(0.99999)
    assert run(["query", *line, "--level", "0.99999"]) == 0
    found = capsys.readouterr()
    assert found.err == ""
    lines = found.out.splitlines()
    assert [cells.split()[4:6] for cells in lines[3:5]] == [["-", "-"]] * 2
    said = [text for text in lines if "99.999%" in text]
    assert said == [first["no_interval"], second["no_interval"]]


def test_a_seed_draws_the_same_architecture(capsys: Capture) -> None:
    drawn = [
        asked(capsys, "--space", "m", "--arch", "random", "--metric", "params", *seed)["text"]
        for seed in ((), ("--seed", "0"), ("--seed", "1"))
    ]
    assert drawn[0] == drawn[1] == str(hwbench.space("m").sample(1, 0)[0])
    assert drawn[2] == str(hwbench.space("m").sample(1, 1)[0])


@pytest.mark.parametrize("form", ["dict", "sampled", "bare", "text"])
def test_an_architecture_in_a_file(capsys: Capture, tmp_path: Path, form: str) -> None:
    own = ARCH.to_dict()
    sampled = {
        "sample_n_layer": ARCH.n_layer,
        "sample_embed_dim": ARCH.embed_dim,
        "sample_n_head": [*ARCH.n_head, 4, 4],
        "sample_mlp_ratio": [*ARCH.mlp_ratio, 2, 2],
        "sample_bias": ARCH.bias,
        "sample_layer_indices": list(range(ARCH.n_layer)),
    }
    content = {
        "dict": own,
        "sampled": sampled,
        "bare": {k: v for k, v in own.items() if k != "space"},
        "text": str(ARCH),
    }[form]
    path = tmp_path / "arch.json"
    path.write_text(json.dumps(content))
    found = asked(capsys, "--space", "s", "--arch", str(path), "--metric", "params")
    assert found["text"] == str(ARCH)


def test_what_has_no_answer_is_told_in_one_line_each(capsys: Capture) -> None:
    assert run(["query", "--space", "xl", "--arch", "random"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("There is no artefact")] == [
        f"There is no artefact of {m} in space xl. Spaces with {m}: s, m, l."
        for m in ("latency", "energy", "memory", "perplexity", "accuracy")
    ]
    assert run(["query", "--space", "s", "--arch", "random"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("No memory on a40, h100, ") for line in lines) == 1
    assert sum(line.startswith("There is no artefact of energy on cpu_p100") for line in lines) == 1
    # A metric that some device answers may be asked of all.
    assert run(["query", "--space", "s", "--arch", "random", "--metric", "memory"]) == 0
    assert capsys.readouterr().out.count("memory  ") == 2


@pytest.mark.parametrize(
    "args, words",
    [
        ("--space s --device h100 --metric memory", "Devices with memory there: a100, rtx2080."),
        ("--space s --device h100,a100 --metric memory", "no artefact of memory on h100"),
        ("--space s --device h100 --metric latency,memory", "no artefact of memory on h100"),
        ("--space s --device cpu_p100_host --metric energy", "Devices with energy there: a100,"),
        ("--space s --device h200", "no artefact of latency on h200 in space s. Devices with"),
        ("--space s --device h100,h200", "no artefact of latency on h200"),
        ("--space xl --metric latency", "Spaces with latency: s, m, l."),
        ("--space xl --device h100 --metric latency", "Spaces with latency: s, m, l."),
        ("--space xl --metric ppl", "Spaces with perplexity: s, m, l."),
    ],
)
def test_what_is_asked_for_by_name_is_an_error_if_absent(
    capsys: Capture, args: str, words: str
) -> None:
    assert words in refused(capsys, *args.split(), "--arch", "random")


@pytest.mark.parametrize(
    "args, words",
    [
        ("--space q --arch random", "Unknown space 'q'. Known: s, m, l"),
        ("--space nope.toml --arch random", "Cannot read the space file 'nope.toml'"),
        ("--space s --arch random --device h10", "Unknown device 'h10'. Did you mean 'h100'?"),
        ("--space s --arch random --device h100,", "Unknown device ''."),
        ("--space s --arch random --metric latenc", "Unknown metric 'latenc'. Did you mean"),
        ("--space s --arch random --level 1", "'level' parameter of interval must be a number in"),
        ("--space s --arch random --level 0", "Got 0.0 instead"),
        ("--space s --arch random --level nan", "Got nan instead"),
        ("--space s --arch random --level much", "Invalid value for '--level'"),
        ("--space s --arch random --seed -1", "Invalid value for '--seed'"),
        ("--space s --arch random --seed x", "Invalid value for '--seed'"),
        ("--space s", "--arch"),
        ("--arch random", "--space"),
        ("--space s --arch nope", "must be of the form gpt-<space>-<n_layer>-"),
        ("--space s --arch nope.json", "No such file or directory: 'nope.json'."),
        ("--space s --arch random --artifacts nowhere", "'nowhere'"),
        ("--space s --arch random --store nowhere", "no record store at nowhere"),
        ("--space s --arch random --colour", "No such option"),
    ],
)
def test_a_mistake_is_one_line(capsys: Capture, args: str, words: str) -> None:
    assert words in refused(capsys, *args.split())


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 10**6, "is not JSON"),
        (b"1" * 5000, "is not JSON"),
        (b"[1]", "must be a mapping. Got [1]"),
        (b"null", "must be a mapping. Got None"),
        (b'"gpt-s"', "must be of the form gpt-<space>"),
        (b"{}", "Got no key 'n_layer'"),
        (b'{"space": "m"}', "names the space 'm', but space 's' was given"),
        (b'{"n_layer": NaN}', "must have the keys"),
    ],
)
def test_a_file_that_holds_no_architecture(
    capsys: Capture, tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "arch.json"
    path.write_bytes(content)
    assert words in refused(capsys, "--space", "s", "--arch", str(path))


def test_values_outside_the_space_are_named(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "arch.json"
    for change, words in (
        ({"bias": "False"}, "bias must be True or False in space s. Got 'False'"),
        ({"n_head": [4] * 3}, "n_head must have one entry a layer"),
        ({"embed_dim": 100}, "embed_dim must be one of 192, 384, 768 in space s. Got 100"),
        ({"heads": 3}, "Got unknown key 'heads'"),
    ):
        path.write_text(json.dumps({**ARCH.to_dict(), **change}))
        assert words in refused(capsys, "--space", "s", "--arch", str(path))
    path = tmp_path / "folder.json"
    path.mkdir()
    assert "Is a directory" in refused(capsys, "--space", "s", "--arch", str(path))
    other = str(hwbench.space("m").smallest)
    assert "names the space 'm'" in refused(capsys, "--space", "s", "--arch", other)


def test_a_space_of_one_s_own_has_its_closed_forms(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("embed_dim = [64]\nn_layer = [2]\nn_head = [1]\nmlp_ratio = [2]\n")
    found = asked(capsys, "--space", str(path), "--arch", "random")
    assert [r["metric"] for r in found["answers"] if r["supported"]] == ["params", "macs", "flops"]
    assert found["text"].startswith("gpt-own-2-64-2-2-1-1-")


def test_what_a_store_holds_is_shown_as_measured(capsys: Capture) -> None:
    arch = str(hwbench.space("s").sample(1, 20240524)[0])
    line = ["--space", "s", "--arch", arch, "--device", "h100", "--metric", "latency"]
    (row,) = asked(capsys, *line, "--store", str(MINIATURE))["answers"]
    assert row["source"] == "measured"
    assert row["components"]["model"] is None
    assert row["workload"]["method"] == "synthetic latency"
    (row,) = asked(capsys, *line)["answers"]
    assert row["source"] == "surrogate"


def test_explain_says_what_wastes_most_on_each_device_that_is_named(capsys: Capture) -> None:
    line = ["--space", "s", "--arch", "random", "--metric", "latency", "--explain"]
    found = asked(capsys, *line, "--device", "h100,a40")["explain"]
    assert list(found) == ["h100", "a40"]
    assert all(text.startswith("layer") for lines in found.values() for text in lines)
    assert "needs --device" in refused(capsys, *line)
    assert "no peak figures" in refused(capsys, *line, "--device", "cpu_xeon_gold")
