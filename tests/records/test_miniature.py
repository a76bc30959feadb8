"""The miniature store is what its script makes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pyarrow.parquet as pq

from hwbench.records import Store, files, validate

ROOT = Path(__file__).parent.parent.parent


def test_the_script_makes_it_again(miniature: Path, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("m", ROOT / "scripts/make_miniature.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.make(tmp_path / "again")
    names = files.data_files(miniature)
    assert files.data_files(tmp_path / "again") == names
    for name in names:
        made, kept = (pq.read_table(path / name) for path in (tmp_path / "again", miniature))
        assert made.drop_columns("values" if "values" in made.column_names else []) == (
            kept.drop_columns("values" if "values" in kept.column_names else [])
        )
        if "values" in made.column_names:
            # Another numpy may round the last bit of an exponential otherwise.
            pairs = zip(made["values"].to_pylist(), kept["values"].to_pylist(), strict=True)
            assert all(abs(a - b) <= 1e-6 * b for x, y in pairs for a, b in zip(x, y, strict=True))


def test_it_is_valid_and_says_that_it_is_synthetic(miniature: Path) -> None:
    assert validate(miniature).findings == ()
    store = Store.open(miniature)
    assert store.manifest.source.startswith("synthetic")
    assert all("synthetic" in w.method for w in store.workloads)
