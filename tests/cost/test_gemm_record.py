"""Records of measured products: round trips, look-ups, damage, and files of sizes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hwbench.cost.gemm_record import GemmRecord, Measured, read_sizes
from hwbench.cost.transformer import Gemm
from hwbench.errors import InvalidStore, InvalidValue

UP = Gemm("MLP up", "forward", 128, 256, 64, count=12)
RECORD = GemmRecord(
    device="NVIDIA H200",
    dtype="bfloat16",
    method="events",
    warmup=5,
    versions={"torch": "2.13.0"},
    measured=(Measured(replace(UP, count=1), (3.0, 1.0, 2.0)),),
)


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    RECORD.write(path)
    assert GemmRecord.read(path) == RECORD
    assert list(tmp_path.iterdir()) == [path]


def test_a_product_is_found_by_its_sizes_whatever_its_count_and_name() -> None:
    assert RECORD.time_us(UP) == 2.0
    assert RECORD.time_us(replace(UP, name="product", count=3)) == 2.0
    assert RECORD.time_us(replace(UP, k=65)) is None
    assert RECORD.time_us(replace(UP, role="weight gradient")) is None
    assert RECORD.time_us(replace(UP, fused=True)) is None


def test_what_is_missing_is_named_once() -> None:
    other = replace(UP, k=65)
    assert RECORD.missing([UP, other, replace(other, count=7)]) == [replace(other, count=1)]
    assert RECORD.with_measured([Measured(other, (1.0,))]).missing([UP, other]) == []


def test_statistics_are_derived() -> None:
    one = Measured(UP, (1.0, 2.0, 3.0, 4.0, 5.0))
    assert (one.median_us, one.spread) == (3.0, 2 / 3)
    assert Measured(UP, (4.0,)).spread == 0.0


@pytest.mark.parametrize(
    "change, words",
    [
        ({"format": "other"}, "is no hwbench gemm record"),
        ({"version": 2}, "version of record .* must be 1. Got 2"),
        ({"device": None, "warmup": "many"}, "is damaged"),
        ({"gemms": [{"name": "x"}]}, "is damaged"),
        ({"versions": [1]}, "is damaged"),
    ],
)
def test_damage_is_one_line(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = tmp_path / "record.json"
    RECORD.write(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InvalidStore, match=words) as caught:
        GemmRecord.read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "key, value", [("times_us", []), ("times_us", [-1.0]), ("m", 0), ("k", 1.5)]
)
def test_impossible_products_are_damage(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "record.json"
    RECORD.write(path)
    table = json.loads(path.read_text())
    table["gemms"][0][key] = value
    path.write_text(json.dumps(table))
    with pytest.raises(InvalidStore, match="is damaged"):
        GemmRecord.read(path)


@pytest.mark.parametrize("content", [None, b"\xff", b"[1]", b"{"])
def test_what_is_no_record_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "record.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidStore):
        GemmRecord.read(path)


def test_sizes_are_read_from_lines(tmp_path: Path) -> None:
    path = tmp_path / "sizes.txt"
    path.write_text("# m n k batch\n128, 256, 64\n\n8 8 8 12  # attention\n")
    assert read_sizes(path) == [
        Gemm("product", "forward", 128, 256, 64),
        Gemm("product", "forward", 8, 8, 8, 12),
    ]


@pytest.mark.parametrize(
    "text, words",
    [
        ("1 2", "m, n, k and perhaps batch in line 1. Got '1 2'"),
        ("1 2 3\n1 2 x", "in line 2. Got '1 2 x'"),
        ("1 2 -3", "in line 1. Got '1 2 -3'"),
        ("0 2 3", "from 1 to .* in line 1"),
        (f"{2**31} 2 3", "from 1 to .* in line 1"),
        ("# nothing\n", "a file with a product in it"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "sizes.txt"
    path.write_text(text)
    with pytest.raises(InvalidValue, match=words):
        read_sizes(path)
    with pytest.raises(InvalidValue, match="a readable text file"):
        read_sizes(tmp_path / "none.txt")
