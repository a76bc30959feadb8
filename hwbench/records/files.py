"""Files of a store: written beside and renamed, one writer at a time, known by their hash."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hwbench.errors import InvalidStore, InvalidValue
from hwbench.processes import held_alone
from hwbench.records.schema import MANIFEST, SCHEMAS

_TEMPORARY = ".writing-"


def sha256(path: Path) -> str:
    """The hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def data_files(store: Path) -> list[str]:
    """Relative paths of a store's files apart from `store.toml`, "/" between the parts, sorted.

    What an interrupted write left is not among them.
    """
    found = (p for p in store.rglob("*") if p.is_file() and not is_temporary(p))
    return sorted(p.relative_to(store).as_posix() for p in found if p != store / MANIFEST)


def is_temporary(path: Path) -> bool:
    """Whether the path is one that a write uses until it renames it."""
    return path.name.startswith(_TEMPORARY)


def temporary(path: Path) -> Path:
    """Where to write what is to be renamed to `path`."""
    return path.with_name(f"{_TEMPORARY}{os.getpid()}-{path.name}")


def clear_temporary(store: Path) -> None:
    """Remove what an interrupted write left; only for the one who holds the lock."""
    for path in [p for p in store.rglob(f"{_TEMPORARY}*") if p.is_file()]:
        path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file beside and rename it."""
    beside = temporary(path)
    try:
        beside.write_text(text, "utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_table(path: Path, kind: str, table: Any) -> None:
    """Write a Parquet file of a store.

    Args:
        path: The file, replaced if it is there; its folder is made.
        kind: The store's folder that the file is of, which says its schema.
        table: The `pyarrow.Table`, its columns those of the schema or a part of them.
    """
    fields = [field for field in SCHEMAS[kind] if field.name in table.column_names]
    typed = table.select([field.name for field in fields]).cast(pa.schema(fields))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(typed, path, compression="zstd")


@contextmanager
def writing(what: Path) -> Iterator[None]:
    """Turn a failure of the file system into one line that names the place.

    Raises:
        InvalidStore: A file could not be written.
    """
    try:
        yield
    except OSError as error:
        raise InvalidStore(f"Cannot write {what}: {error.strerror or error}.") from None


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a folder for writing, as `held_alone` holds a file.

    Args:
        folder: The folder.
        wait: Whether to wait for another writer.

    Raises:
        BlockingIOError: Another process holds the folder, and `wait` is False.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        if not held_alone(handle, wait=wait):
            raise BlockingIOError(f"Another process holds {folder}.")
        yield
    finally:
        os.close(handle)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Build a folder beside and rename it when all went well; otherwise nothing is left.

    Args:
        path: The folder to be; it must not exist, or be empty.

    Yields:
        The folder to build in.

    Raises:
        InvalidValue: There is something at `path`.
        InvalidStore: The folder could not be made.
    """
    try:
        taken = path.exists() and (not path.is_dir() or any(path.iterdir()))
    except OSError as error:
        raise InvalidStore(f"Cannot write {path}: {error.strerror}.") from None
    if taken:
        raise InvalidValue(f"The folder to write must be new or empty. Got {path} instead.")
    beside = temporary(path.absolute())
    with writing(path):
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
    try:
        yield beside
        with writing(path):
            if path.is_dir():
                path.rmdir()
            beside.rename(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
