"""A folder on disk that holds a state as a whole: tensors, texts, and a card that names them.

The card is replaced last. Until then the files that the old card names are untouched, so a writer
that is killed or runs out of space leaves the state before; a reader never sees half of one.
"""

from __future__ import annotations

import json
import os
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
            files = values.pop("files")
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
        tag: Stands in the files' names, so that they do not replace those of the state before.

    Raises:
        InvalidArtifact: A file could not be written; the state before is untouched.
    """
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".writing-{os.getpid()}"
    files: dict[str, dict[str, Any]] = {}
    placed: list[Path] = []
    try:
        for part in (*tensors, *texts):
            suffix = "safetensors" if part in tensors else "json"
            path = folder / f"{part}-{tag}.{suffix}"
            if part in tensors:
                save_file({k: v.contiguous() for k, v in tensors[part].items()}, beside)
            else:
                beside.write_text(texts[part], "utf-8")
            files[part] = {
                "file": path.name,
                "sha256": sha256(beside),
                "bytes": beside.stat().st_size,
            }
            if not path.exists():
                placed.append(path)
            beside.replace(path)
        card = json.dumps({**values, "files": files}, indent=1, ensure_ascii=False)
        beside.write_text(card + "\n", "utf-8")
        beside.replace(folder / CARD)
    except (OSError, SafetensorError) as error:
        for path in (beside, *placed):
            path.unlink(missing_ok=True)
        raise InvalidArtifact(
            f"Cannot write to {folder}: {_line(error)}. What it held before is untouched."
        ) from None
    named = {entry["file"] for entry in files.values()}
    for part in ("weights", "moments", "tokenizer"):
        for path in folder.glob(f"{part}-*"):
            if path.name not in named:
                path.unlink()
    return Snapshot(folder, values, files)


def _line(error: Exception) -> str:
    """What went wrong, in words: the system's where it has some."""
    said = getattr(error, "strerror", None) or str(error)
    return " ".join(said.split()).rstrip(".")
