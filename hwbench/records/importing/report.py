"""`ImportReport`: what an import read, kept and left out, and why; the numbers add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Readings of one file that were left out for one reason.

    Attributes:
        file: The file, relative to the source.
        metric: The metric's field name.
        reason: Why.
        count: How many.
        examples: The first few: their position in the file and what was wrong.
    """

    file: str
    metric: str
    reason: str
    count: int
    examples: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields by name, ready for JSON."""
        return {
            "file": self.file,
            "metric": self.metric,
            "reason": self.reason,
            "count": self.count,
            "examples": list(self.examples),
        }


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import read, kept and left out.

    A reading is one metric of one architecture in one file. `read` is `kept` plus `left_out`.

    Attributes:
        kept: How many readings of each (file, metric) were kept.
        left_out: The others, by file, metric and reason.
        ignored: Files that were not read, with the reason.
        architectures: How many architectures each space got.
    """

    kept: dict[tuple[str, str], int]
    left_out: tuple[LeftOut, ...]
    ignored: tuple[tuple[str, str], ...]
    architectures: dict[str, int]

    @property
    def readings_kept(self) -> int:
        """How many readings were kept."""
        return sum(self.kept.values())

    @property
    def readings_left_out(self) -> int:
        """How many readings were left out."""
        return sum(item.count for item in self.left_out)

    @property
    def readings(self) -> int:
        """How many readings were read."""
        return self.readings_kept + self.readings_left_out

    def to_dict(self) -> dict[str, Any]:
        """Everything by name, ready for JSON."""
        return {
            "read": self.readings,
            "kept": self.readings_kept,
            "left_out": self.readings_left_out,
            "architectures": dict(self.architectures),
            "files": [
                {"file": file, "metric": metric, "kept": count}
                for (file, metric), count in self.kept.items()
            ],
            "reasons": [item.to_dict() for item in self.left_out],
            "ignored": [{"file": file, "reason": reason} for file, reason in self.ignored],
        }


@dataclass(slots=True)
class Account:
    """Counts while an import runs."""

    kept: Counter[tuple[str, str]] = field(default_factory=Counter)
    ignored: list[tuple[str, str]] = field(default_factory=list)
    _left: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _examples: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)

    def keep(self, file: str, metric: str) -> None:
        """Count a reading as kept."""
        self.kept[file, metric] += 1

    def leave(self, file: str, metric: str, position: int, reason: str, detail: str = "") -> None:
        """Count a reading as left out."""
        key = (file, metric, reason)
        self._left[key] += 1
        examples = self._examples.setdefault(key, [])
        if len(examples) < _EXAMPLES:
            examples.append(f"position {position}" + (f": {detail}" if detail else ""))

    def report(self, architectures: dict[str, int]) -> ImportReport:
        """The counts so far."""
        left = [
            LeftOut(*key, count, tuple(self._examples[key])) for key, count in self._left.items()
        ]
        return ImportReport(dict(self.kept), tuple(left), tuple(self.ignored), architectures)
