"""The short GPU check: it needs numpy and torch alone, and its lines become a valid store."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from hwbench import space
from hwbench.measure.setup import Absent, Outcome, Reading, Setup
from hwbench.records import Store, validate
from tests.measure.fakes import Clock, FakeGpu, FakeNvml

SCRIPT = Path(__file__).parents[2] / "scripts/check_profile_gpu.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_profile_gpu", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_needs_numpy_and_torch_alone() -> None:
    """PyArrow was once imported with the plan, where it is only needed to write a store."""
    pytest.importorskip("torch", reason="torch is not installed")
    needed = tomllib.loads((SCRIPT.parents[1] / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[^\w-]", line)[0].lower() for line in needed["dependencies"]} - {"numpy"}
    assert {"pyarrow", "xgboost", "pandas", "scipy", "typer"} <= names
    code = (
        "import runpy, sys\n"
        f"sys.modules |= dict.fromkeys({sorted(names)})\n"
        f"made = runpy.run_path({str(SCRIPT)!r})\n"
        "from hwbench.measure.instruments import Instruments\n"
        "from hwbench.measure.setup import Setup\n"
        "def setup_of(owner, **more):\n"
        "    return Setup.of_space(owner, 'cpu', **more)\n"
        "assert len(list(made['parts'](setup_of))) == 4\n"
        "Instruments.open(Setup(batch_size=1, seq_len=8)).card()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=SCRIPT.parents[1])


def test_the_parts_hold_what_was_asked_for(script: ModuleType) -> None:
    def setup_of(owner: object, **more: object) -> Setup:
        phase = str(more.get("phase", "forward"))
        return Setup(batch_size=1, seq_len=8, phase=phase, new_tokens=2 * (phase == "decode"))

    found = {part: len(set(archs)) for part, _, _, archs in script.parts(setup_of)}
    assert found == {"s": 65, "xl": 16, "decode": 6, "train": 6}
    assert sum(script.SECONDS.values()) <= 600


@pytest.fixture
def small(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The space xl as small as s, whose smallest takes a second."""
    monkeypatch.setattr(script, "space", lambda name: space("s"))


@pytest.mark.usefixtures("small")
def test_a_dry_run_measures_every_part_and_becomes_a_store(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    out = tmp_path / "lines.jsonl"
    script.check(out, "cpu", dry_run=True)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert Counter(line["part"] for line in lines) == {
        **dict.fromkeys(("s", "xl", "decode", "train"), 2),
        "card": 4,
        "summary": 4,
    }
    assert all(line["latency_ms"] > 0 for line in lines if "latency_ms" in line)
    assert capsys.readouterr().out.count("\n") == len(lines)
    script.make_store(out, tmp_path / "store", "gpu")
    assert not validate(tmp_path / "store").errors
    phases = {w.phase for w in Store.open(tmp_path / "store").workloads}
    assert phases == {"forward", "decode", "train"}


@pytest.mark.usefixtures("small")
def test_one_that_fails_does_not_cost_the_others(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from hwbench.measure.instruments import Instruments

    def broken(self: Instruments, arch: object) -> None:
        raise RuntimeError("CUDA error: misaligned address")

    monkeypatch.setattr(Instruments, "measure", broken)
    out = tmp_path / "lines.jsonl"
    script.check(out, "cpu", dry_run=True)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    failed = [line for line in lines if line["part"] == "failed"]
    assert len(failed) == 8
    assert {line["reason"] for line in failed} == {"CUDA error: misaligned address"}


@pytest.mark.parametrize("counter", [True, False])
def test_energy_by_the_counter_against_integrated_power(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counter: bool
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from hwbench.measure import energy, environment, nvml, passes

    clock = Clock()
    gpu = FakeGpu("GPU-1", clock, counter=counter)
    monkeypatch.setattr(nvml, "load", lambda: FakeNvml(gpu))
    monkeypatch.setattr(environment, "cuda_uuid", lambda device: "1")
    monkeypatch.setattr(passes, "make_pass", lambda arch, setup: lambda: clock.pass_time(0.05))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    # The machine's clock is the test's, and no thread reads the counters.
    metered = partial(energy.EnergyMeter, now=clock, threaded=False)
    monkeypatch.setattr(energy, "EnergyMeter", metered)
    monkeypatch.setattr(energy, "NvmlPower", partial(energy.NvmlPower, now=clock))
    out = tmp_path / "lines.jsonl"
    script.compare_energy(script.Results(out), Setup(batch_size=1, seq_len=8))
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert {line["part"] for line in lines} == {"energy"}
    if counter:
        assert len(lines) == 5
        for line in lines:
            assert line["power_over_counter"] == pytest.approx(1.0, abs=0.02)
            assert [len(found) for found in line["windows"].values()] == [2, 2]
    else:
        (line,) = lines
        assert "Not Supported" in line["reason"]


def test_the_lines_become_a_valid_store(script: ModuleType, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    results = script.Results(lines)
    setup = Setup(batch_size=1, seq_len=8)
    results.write("card", of="s", card={}, setup=asdict(setup))
    latency = Reading(values=(1.0, 1.1), method="events", warmup=(9.0,))
    energy = Absent(status="skipped", reason="no counter", method="none")
    outcome = Outcome(readings={"latency_ms": latency, "energy_j": energy}, measured_s=0.1)
    for arch in space("s").sample(3, seed=0):
        results.write("s", space="s", arch=str(arch), wall_s=0.2, **script.plain(outcome))
    results.write("summary", of="s", measured=3, wall_s=1.0, overhead=0.1)
    assert json.loads(lines.read_text().splitlines()[1])["latency_ms"] == 1.05
    script.make_store(lines, tmp_path / "store", "h200")
    seen = Store.open(tmp_path / "store").observations("h200", "s", "latency")
    assert seen is not None
    np.testing.assert_allclose(seen.repeats.matrix, [[1.0, 1.1]] * 3, rtol=1e-6)
    assert not validate(tmp_path / "store").errors
