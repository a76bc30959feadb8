"""Stores to read, and to break."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hwbench.workload import Workload

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def miniature() -> Path:
    """The store in data/, not to be written."""
    return ROOT / "data/miniature"


@pytest.fixture
def store(miniature: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(miniature, tmp_path / "store"))


@pytest.fixture
def workload() -> Workload:
    return Workload(batch_size=8, seq_len=1024, method="a test", warmup_repeats=3)


@pytest.fixture
def edit(store: Path) -> Callable[..., None]:
    """Replaces columns of one of the copy's files, or drops those that are None."""

    def replace(name: str, **columns: Any) -> None:
        path = store / name
        table = pq.read_table(path)
        for column, values in columns.items():
            at = table.column_names.index(column)
            kind = table.schema.field(column).type
            table = table.remove_column(at)
            if values is not None:
                made = values if isinstance(values, pa.Array) else pa.array(values, kind)
                table = table.add_column(at, column, made)
        pq.write_table(table, path)

    return replace
