"""The description says what is there, in numbers that can be recomputed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwbench import space
from hwbench.records import Readings, Store, StoreWriter, describe
from hwbench.workload import Workload


def test_rows_of_the_miniature(miniature: Path) -> None:
    rows = describe(miniature)
    assert [(r["device"], r["metric"]) for r in rows] == [
        ("cpu_xeon_gold", "energy"),
        ("cpu_xeon_gold", "latency"),
        ("h100", "energy"),
        ("h100", "latency"),
        ("h100", "memory"),
        (None, "accuracy"),
        (None, "perplexity"),
    ]
    seen = Store.open(miniature).observations("h100", "s", "latency")
    assert seen is not None
    kept = seen.kept.matrix
    row = rows[3]
    assert (row["observations"], row["architectures"], row["sessions"]) == (3, 3, 1)
    assert (row["repeats"], row["warmup"], row["unit"]) == ([10, 10], 3, "ms")
    assert row["median"] == pytest.approx(np.median(np.median(kept, axis=1)))
    assert row["relative_std"] == pytest.approx(np.median(kept.std(1, ddof=1) / kept.mean(1)))
    assert "synthetic latency" in row["workload"]
    assert rows[4]["relative_std"] is None
    assert rows[5]["workload"] is None


def test_every_workload_has_its_row(tmp_path: Path) -> None:
    writer = StoreWriter.create(tmp_path / "store", name="a", source="b", licence="c")
    for batch in (1, 8):
        work = Workload(batch_size=batch, seq_len=1024, method="a clock")
        arch = space("s").smallest
        writer.append(Readings.one(arch, "latency", [2.0] * batch, device="x", workload=work))
    assert [r["repeats"] for r in describe(writer.path)] == [[1, 1], [8, 8]]


def test_an_empty_store_has_no_rows(tmp_path: Path) -> None:
    StoreWriter.create(tmp_path / "store", name="a", source="b", licence="c")
    assert describe(tmp_path / "store") == []
