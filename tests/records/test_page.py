"""The examples of docs/records.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hwbench.records import Store, validate
from hwbench.records.schema import SCHEMAS, UNITS
from hwbench.workload import Workload

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/records.md").read_text("utf-8")


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    names = {
        "architecture": Store.open("data/miniature").architectures("s").table.architectures()[0],
        "times_ms": [3.0, 2.0, 2.0],
        "workload": Workload(batch_size=1, seq_len=1024, method="a clock", warmup_repeats=1),
    }
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/records.md", "exec"), names)  # noqa: S102
    assert validate("mine").valid
    assert Store.open("mine").metrics("my-gpu", names["architecture"].space) == ("latency",)


def test_every_column_and_metric_is_on_the_page() -> None:
    columns = {name for schema in SCHEMAS.values() for name in schema.names}
    assert [name for name in sorted(columns | set(UNITS)) if f"`{name}`" not in PAGE] == []
