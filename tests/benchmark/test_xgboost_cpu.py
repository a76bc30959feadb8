"""XGBoost's CPU-only package stands in for the full one: the same numbers, and fits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xgboost

SCRIPT = """
import json, sys
from pathlib import Path
import xgboost
import hwbench
from hwbench.records import Store
from hwbench.surrogate.settings import Settings
from hwbench.surrogate.fit_all import fit_all, tasks

store, out = Path(sys.argv[1]), Path(sys.argv[2])
found = {}
for space in ("s", "m", "l"):
    bench = hwbench.Benchmark(space)
    archs = bench.space.sample(100, 0)
    for device, metric in (("h100", "latency"), ("cpu_amd_7513", "energy"), (None, "perplexity")):
        many = bench.predict(archs, device, metric)
        one = bench.predict(archs[0], device, metric)
        found[f"{space} {device} {metric}"] = [many.tolist(), one.tolist()]
quick = Settings(fewest=100, correction_rounds=4, spread_rounds=3)
opened = Store.open(store)
for done in fit_all(opened, out, tasks(opened), settings=quick):
    boosters = done.card.values["boosters"]
    found[str(done.task)] = {part: about["sha256"] for part, about in boosters.items()}
print(json.dumps({"from": xgboost.__file__, "found": found}))
"""


@pytest.fixture(scope="module")
def cpu_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with xgboost-cpu of the installed XGBoost's version, and nothing else."""
    folder = tmp_path_factory.mktemp("xgboost-cpu")
    wanted = f"xgboost-cpu=={xgboost.__version__}"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "--no-deps", "--target", str(folder), wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        pytest.skip(f"pip cannot install {wanted}: {reason}")
    return folder


def run(store: Path, out: Path, path: Path | None = None) -> dict[str, Any]:
    """What a fresh process finds, with a folder before all others where it looks for modules."""
    env = dict(os.environ) if path is None else os.environ | {"PYTHONPATH": str(path)}
    command = [sys.executable, "-c", SCRIPT, str(store), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.network
def test_it_predicts_and_fits_the_same(cpu_only: Path, store: Path, tmp_path: Path) -> None:
    full = run(store, tmp_path / "full")
    light = run(store, tmp_path / "light", cpu_only)
    assert Path(light["from"]).is_relative_to(cpu_only)
    assert not Path(full["from"]).is_relative_to(cpu_only)
    assert light["found"] == full["found"]
