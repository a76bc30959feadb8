"""What a fresh process imports: a query needs no deep-learning framework, a count no booster."""

from __future__ import annotations

import json
import subprocess
import sys

QUERY = "hwbench.Benchmark('s').predict(hwbench.space('s').smallest, 'h100')"
ANSWER = "hwbench.Benchmark('s').query(hwbench.space('s').smallest, 'h100').to_frame()"
COUNT = "hwbench.count(hwbench.space('s').smallest)"


def imported(statement: str) -> set[str]:
    """The modules that a fresh process has after `import hwbench` and a statement."""
    script = f"import json, sys, hwbench\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_a_query_imports_no_framework_and_no_reader_of_stores() -> None:
    """XGBoost itself imports pandas, and pandas the core of pyarrow where it is installed."""
    for statement in (QUERY, ANSWER):
        found = imported(statement)
        assert "xgboost" in found
        heavy = {"torch", "transformers", "matplotlib", "pyarrow.parquet", "hwbench.records"}
        assert found & heavy == set()


def test_spaces_and_counts_import_no_booster_and_no_frames() -> None:
    found = imported(COUNT)
    assert found & {"xgboost", "pandas", "pyarrow", "scipy", "sklearn", "torch"} == set()
