"""`GemmRecord`: measured times of matrix products, one JSON file a device and type."""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hwbench.cost.transformer import Gemm
from hwbench.errors import InvalidStore, brief, invalid

FORMAT = "hwbench gemm record"
VERSION = 1

_SIZES = ("m", "n", "k", "batch")


@dataclass(frozen=True, slots=True)
class Measured:
    """One product with its raw times.

    Attributes:
        gemm: The product; how often a step runs it is not kept.
        times_us: Microseconds of one kernel, in the order they were taken.
    """

    gemm: Gemm
    times_us: tuple[float, ...]

    @property
    def median_us(self) -> float:
        """The median time."""
        return statistics.median(self.times_us)

    @property
    def spread(self) -> float:
        """Interquartile range over the median; 0 of a single time."""
        if len(self.times_us) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times_us, n=4, method="inclusive")
        return (high - low) / self.median_us


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmRecord:
    """Measured products of one device and type.

    A product of a fused attention kernel has its share of that kernel's time: a half of the
    forward's, a fifth of the backward's.

    Attributes:
        device: What was measured, as it names itself.
        dtype: Type of the operands.
        method: How times were read.
        warmup: Runs before the first that counts.
        versions: Versions of what ran, by name.
        measured: The products.
    """

    device: str
    dtype: str
    method: str
    warmup: int
    versions: Mapping[str, str] = field(default_factory=dict)
    measured: tuple[Measured, ...] = ()

    def time_us(self, gemm: Gemm) -> float | None:
        """The median time of a product, or None where it was not measured.

        A product counts as the same where its sizes, its role and its kind of kernel are.
        """
        wanted = key(gemm)
        return next((m.median_us for m in self.measured if key(m.gemm) == wanted), None)

    def missing(self, gemms: Iterable[Gemm]) -> list[Gemm]:
        """The products that were not measured yet, each once."""
        have = {key(m.gemm) for m in self.measured}
        found: dict[object, Gemm] = {}
        for gemm in gemms:
            if key(gemm) not in have:
                found.setdefault(key(gemm), replace(gemm, count=1))
        return list(found.values())

    def with_measured(self, more: Iterable[Measured]) -> GemmRecord:
        """The record with more products."""
        return replace(self, measured=(*self.measured, *more))

    def write(self, path: str | Path) -> None:
        """Write the record beside its place and rename it, so that it is never half there."""
        file = Path(path)
        table = {
            "format": FORMAT,
            "version": VERSION,
            "device": self.device,
            "dtype": self.dtype,
            "method": self.method,
            "warmup": self.warmup,
            "versions": dict(self.versions),
            "gemms": [
                {
                    **{k: v for k, v in asdict(m.gemm).items() if k != "count"},
                    "times_us": [round(t, 4) for t in m.times_us],
                }
                for m in self.measured
            ],
        }
        beside = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            beside.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)

    @classmethod
    def read(cls, path: str | Path) -> GemmRecord:
        """Read a record.

        Raises:
            InvalidStore: The file cannot be read, or is no record.
        """
        file = Path(path)
        try:
            table = json.loads(file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise InvalidStore(f"Cannot read the record {str(file)!r}: {error}") from None
        if not isinstance(table, dict) or table.get("format") != FORMAT:
            raise InvalidStore(f"{str(file)!r} is no {FORMAT}: its 'format' says otherwise.")
        if table.get("version") != VERSION:
            raise InvalidStore(
                f"The version of record {str(file)!r} must be {VERSION}. "
                f"Got {brief(table.get('version'))}."
            )
        try:
            return cls(
                device=str(table["device"]),
                dtype=str(table["dtype"]),
                method=str(table["method"]),
                warmup=int(table["warmup"]),
                versions={str(k): str(v) for k, v in table["versions"].items()},
                measured=tuple(_measured(entry) for entry in table["gemms"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidStore(f"{str(file)!r} is damaged: {brief(error)}.") from None


def key(gemm: Gemm) -> tuple[object, ...]:
    """What makes two products the same to a measurement."""
    kind = "weight" if gemm.role == "weight gradient" else "row"
    role = (gemm.name, gemm.role) if gemm.fused else kind
    return (gemm.m, gemm.n, gemm.k, gemm.batch, gemm.fused, role)


def read_sizes(path: str | Path) -> list[Gemm]:
    """Read products from a text file: m, n, k and perhaps batch a line, apart by commas or blanks.

    Empty lines, and what follows a "#", are left out.

    Raises:
        InvalidValue: The file cannot be read, holds no product, or a line is none.
    """
    file = Path(path)
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise invalid("shapes", "gemm", f"a readable text file ({error})", str(path)) from None
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) not in (3, 4) or not all(w.isascii() and w.isdigit() for w in words):
            raise invalid("shapes", "gemm", f"m, n, k and perhaps batch in line {number}", line)
        sizes = [int(w) for w in words]
        if min(sizes) < 1 or max(sizes) >= 2**31:
            raise invalid("shapes", "gemm", f"of sizes from 1 to 2^31 - 1 in line {number}", line)
        m, n, k, batch = (*sizes, 1)[:4]
        found.append(Gemm("product", "forward", m, n, k, batch))
    if not found:
        raise invalid("shapes", "gemm", "a file with a product in it", str(path))
    return found


def _measured(entry: Mapping[str, Any]) -> Measured:
    times = tuple(float(t) for t in entry["times_us"])
    sizes = [entry[size] for size in _SIZES]
    if not times or not all(math.isfinite(t) and t > 0 for t in times):
        raise ValueError("times must be finite and > 0")
    if any(type(size) is not int or size < 1 for size in sizes):
        raise ValueError("sizes must be ints >= 1")
    m, n, k, batch = sizes
    name, role, fused = str(entry["name"]), str(entry["role"]), bool(entry["fused"])
    return Measured(Gemm(name, role, m, n, k, batch, fused=fused), times)
