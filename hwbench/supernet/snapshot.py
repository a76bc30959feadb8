"""A folder on disk that holds a state as a whole: tensors, texts, and a card that names them.

The card is replaced last. Until then the files that the old card names are untouched, for a file's
name holds a part of its hash; so a writer that is killed or runs out of space leaves the state
before, and a reader never sees half of one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from hwbench.errors import InvalidArtifact
from hwbench.records.files import sha256

CARD = "supernet.json"

_PARTS = ("weights", "moments", "tokenizer")
_TEMPORARY = ".writing-"
_FILE = re.compile(rf"({'|'.join(_PARTS)})-\d{{7}}(-end)?(-[0-9a-f]{{8}})?\.(safetensors|json)")
"""The name of a file that `write_snapshot` gave, and in which no other file is lost."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a folder holds.

    Attributes:
        folder: The folder.
        values: What the card says, but for the files.
        files: The card's files by part, each with `file`, `sha256` and `bytes`.
    """

    folder: Path
    values: Mapping[str, Any]
    files: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> Snapshot:
        """Read the card of a folder.

        Raises:
            InvalidArtifact: There is no card, or it is not as it must be.
        """
        path = folder / CARD
        try:
            values = json.loads(path.read_text("utf-8"))
            if not isinstance(values, dict) or not isinstance(values.get("files"), dict):
                raise ValueError("it must hold a mapping with 'files'")
            files = values.pop("files")
            _check_runs(values)
            for entry in files.values():
                if {"file", "sha256", "bytes"} - set(entry) or Path(entry["file"]).name != (
                    entry["file"]
                ):
                    raise ValueError("a file lacks its name, hash or size")
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise InvalidArtifact(f"Cannot read {path}: {_line(error)}.") from None
        return cls(folder, values, files)

    def tensors(self, part: str) -> dict[str, Tensor]:
        """Read the tensors of a part.

        Raises:
            InvalidArtifact: The file is missing, or is not the one that the card names.
        """
        path = self.checked(part)
        try:
            return load_file(path)
        except (OSError, SafetensorError) as error:
            raise InvalidArtifact(f"Cannot read {path}: {_line(error)}.") from None

    def text(self, part: str) -> str | None:
        """Read a text, or None where the folder holds no such part.

        Raises:
            InvalidArtifact: The file is missing, or is not the one that the card names.
        """
        return self.checked(part).read_text("utf-8") if part in self.files else None

    def checked(self, part: str) -> Path:
        """The file of a part, its hash compared with the card's.

        Raises:
            InvalidArtifact: The file is missing, or is not the one that the card names.
        """
        if part not in self.files:
            raise InvalidArtifact(f"{self.folder / CARD} names no {part}.")
        entry = self.files[part]
        path = self.folder / str(entry["file"])
        if not path.is_file():
            raise InvalidArtifact(f"{path} is missing, which {CARD} names.")
        found = sha256(path)
        if found != entry["sha256"]:
            raise InvalidArtifact(
                f"{path} is damaged: its sha256 must be {entry['sha256']}. Got {found} instead."
            )
        return path


def write_snapshot(
    folder: Path,
    values: Mapping[str, Any],
    tensors: Mapping[str, Mapping[str, Tensor]],
    texts: Mapping[str, str],
    tag: str,
) -> Snapshot:
    """Write a state in place of the one that the folder holds.

    Args:
        folder: The folder; made if it is not there.
        values: What the card says, ready for JSON.
        tensors: Named tensors by part.
        texts: Texts by part, kept as JSON files.
        tag: Stands in the files' names, for a reader: seven digits, and "-end" or nothing.

    Raises:
        InvalidArtifact: A file could not be written; the state before is untouched.
    """
    # A folder, since the library that writes tensors has temporary files of its own.
    aside = folder / f"{_TEMPORARY}{os.getpid()}"
    beside = aside / "file"
    files: dict[str, dict[str, Any]] = {}
    placed: list[Path] = []
    try:
        aside.mkdir(parents=True, exist_ok=True)
        for part in (*tensors, *texts):
            if part in tensors:
                save_file({k: v.contiguous() for k, v in tensors[part].items()}, beside)
                beside.chmod(aside.stat().st_mode & 0o666)  # the library's is its owner's only
            else:
                beside.write_text(texts[part], "utf-8")
            digest, suffix = sha256(beside), "safetensors" if part in tensors else "json"
            path = folder / f"{part}-{tag}-{digest[:8]}.{suffix}"
            files[part] = {
                "file": path.name,
                "sha256": digest,
                "bytes": beside.stat().st_size,
            }
            if not path.exists():
                placed.append(path)
            beside.replace(path)
        card = json.dumps({**values, "files": files}, indent=1, ensure_ascii=False)
        beside.write_text(card + "\n", "utf-8")
        beside.replace(folder / CARD)
    except (OSError, SafetensorError) as error:
        for path in placed:
            path.unlink(missing_ok=True)
        raise InvalidArtifact(
            f"Cannot write to {folder}: {_line(error)}. What it held before is untouched."
        ) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    named = {entry["file"] for entry in files.values()}
    for path in list(folder.iterdir()):
        if _FILE.fullmatch(path.name) and path.name not in named:
            path.unlink()
    return Snapshot(folder, values, files)


def clear_temporary(folder: Path) -> None:
    """Remove what a killed writer left; only for the one who holds the folder."""
    for path in list(folder.glob(f"{_TEMPORARY}*")):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _check_runs(values: Mapping[str, Any]) -> None:
    """See that a card tells its finished runs, and the unfinished one, as a run is told.

    Raises:
        ValueError: It does not.
    """
    runs = [("steps", run) for run in values["history"]]
    if "run" in values:
        runs.append(("step", values["run"]))
    for count, run in runs:
        told = isinstance(run, dict) and {"settings", "data", count} <= set(run)
        if not told or type(run[count]) is not int:
            raise ValueError(f"a run must have 'settings', 'data' and {count!r}, an int")


def _line(error: Exception) -> str:
    """What went wrong, in words: the system's where it has some."""
    said = getattr(error, "strerror", None) or str(error)
    return " ".join(said.split()).rstrip(".")
