"""What a folder holds, a supernet or a checkpoint of GPT-2, told without reading its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hwbench.architectures import SearchSpace
from hwbench.errors import InvalidArtifact, InvalidValue
from hwbench.model import ModelConfig
from hwbench.records.files import sha256
from hwbench.supernet import checkpoint
from hwbench.supernet.snapshot import CARD, Snapshot
from hwbench.supernet.supernet import inferred_space


def describe(folder: str | Path) -> dict[str, Any]:
    """The public page of a folder.

    Args:
        folder: A supernet's, one whose training has begun, or a Hugging Face checkpoint's of GPT-2.

    Returns:
        `kind`, `parent` (its name and its files' hashes), `model` (the parent's sizes), `space` and
        `architectures` (its number), `widths` and `layers` (the slicing strategies), `steps`
        trained in all, `runs` (one mapping a run, the unfinished one with its `step`), and `files`
        with sizes in bytes and hashes as they are now. Of a checkpoint, `space` is the one that it
        is the largest of, or None.

    Raises:
        InvalidArtifact: The folder holds neither, or a file is missing or damaged.
        OSError: A file cannot be read.
    """
    place = Path(folder)
    if (place / CARD).is_file():
        return _of_snapshot(Snapshot.read(place))
    if not place.is_dir():
        raise InvalidArtifact(f"{place} must be a folder. It is none.")
    config = checkpoint.read_config(place)
    files = [checkpoint.CONFIG, *checkpoint.weight_files(place)]
    try:
        space = inferred_space(config, place)
    except InvalidValue:
        space = None
    hashed = {name: _file(place / name) for name in files}
    return {
        "kind": "checkpoint",
        "parent": {"name": place.resolve().name, "files": _hashes(hashed)},
        "model": config.to_dict(),
        "space": None if space is None else space.to_dict(),
        "architectures": None if space is None else space.size,
        "widths": None,
        "layers": None,
        "steps": 0,
        "runs": [],
        "files": hashed,
    }


def _of_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    values = snapshot.values
    try:
        if values["kind"] != "supernet":
            raise InvalidArtifact(f"{snapshot.folder} must hold a supernet. It does not.")
        space = SearchSpace.from_dict(values["space"])
        model = ModelConfig.from_dict(values["model"])
        runs = [dict(run) for run in values["history"]]
        steps = sum(int(run["steps"]) for run in runs)
        if "run" in values:
            runs.append(dict(values["run"]))
            steps += int(values["run"]["step"])
        parent = {"name": values["origin"]["name"], "files": dict(values["origin"]["files"])}
        widths, layers = values["widths"], values["layers"]
    except (KeyError, TypeError, ValueError, LookupError) as error:
        reason = " ".join(str(error).split())
        raise InvalidArtifact(f"Cannot describe {snapshot.folder}: {reason}.") from None
    for part in snapshot.files:
        snapshot.checked(part)
    return {
        "kind": "supernet",
        "parent": parent,
        "model": model.to_dict(),
        "space": space.to_dict(),
        "architectures": space.size,
        "widths": widths,
        "layers": layers,
        "steps": steps,
        "runs": runs,
        "files": {
            str(entry["file"]): {"bytes": entry["bytes"], "sha256": entry["sha256"]}
            for entry in snapshot.files.values()
        },
    }


def _file(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256(path)}


def _hashes(files: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: values["sha256"] for name, values in files.items()}
