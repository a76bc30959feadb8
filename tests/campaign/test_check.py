"""The short GPU check: it needs no XGBoost, and its lines become a valid store."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from hwbench import space
from hwbench.measure.setup import Absent, Outcome, Reading, Setup
from hwbench.records import Store, validate

SCRIPT = Path(__file__).parents[2] / "scripts/check_profile_gpu.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_profile_gpu", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_planning_and_measuring_need_no_xgboost() -> None:
    code = (
        "import sys; sys.modules['xgboost'] = None\n"
        "from hwbench import space\n"
        "from hwbench.campaign.plan import make_plan\n"
        "import hwbench.measure.setup\n"
        "assert len(make_plan(space('s')).items) == 64\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=SCRIPT.parents[1])


def test_the_parts_hold_what_was_asked_for(script: ModuleType) -> None:
    def setup_of(owner: object, **more: object) -> Setup:
        phase = str(more.get("phase", "forward"))
        return Setup(batch_size=1, seq_len=8, phase=phase, new_tokens=2 * (phase == "decode"))

    found = {part: len(set(archs)) for part, _, _, archs in script.parts(setup_of)}
    assert found == {"s": 65, "xl": 16, "decode": 6, "train": 6}
    assert sum(script.SECONDS.values()) <= 600


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
