"""`import_hwgptbench`: HW-GPT-Bench's observations as a record store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from hwbench.errors import InvalidValue
from hwbench.records import files
from hwbench.records.importing import merged, raw
from hwbench.records.importing.collect import Collection
from hwbench.records.importing.report import ImportReport
from hwbench.records.write import StoreWriter

NAME = "hw-gpt-bench"
RAW = "automl/HW-GPT-Bench, commit c730d4b4099e91f5ec666755f02d19d0b4183b2e"
MERGED = "automl/HW-GPT-Bench, merged stats.pkl"
LICENCE = "Apache-2.0"


Track = Callable[[Sequence[Any]], Iterable[Any]]
"""Passes files on one by one, and may show how far it has come."""


def import_hwgptbench(source: str | Path, out: str | Path, *, track: Track = iter) -> ImportReport:
    """Import HW-GPT-Bench's observations into a new store.

    Args:
        source: A checkout of HW-GPT-Bench: at the commit that still holds the raw observations, or
            a later one with merged `stats.pkl` files, or such a file. Where both are there the raw
            ones are read.
        out: The store's folder; it must not exist, or be empty. It appears when all is done.
        track: Passes on the files to be read.

    Returns:
        What was read, kept and left out.

    Raises:
        InvalidValue: There is nothing to import at `source`, or there is something at `out`.
        InvalidPickle: A file is damaged, or holds what is not read.
        InvalidStore: The store could not be written.
    """
    origin = Path(source)
    if not origin.exists():
        raise InvalidValue(f"The source to import must exist. Got {origin} instead.")
    with files.new_folder(Path(out)) as folder:
        collection = Collection()
        shards = raw.find(origin, collection) if origin.is_dir() else []
        tables = merged.find(origin)
        if not shards and not tables:
            raise InvalidValue(
                f"The source to import must hold {raw.ROOTS[0]}/, {raw.ROOTS[1]}/, "
                f"arch_ppl_bench_<space>/ or a stats.pkl. Got {origin} instead."
            )
        names = [p.relative_to(origin).as_posix() if p != origin else p.name for p in tables]
        if shards:
            for name in names:
                collection.account.ignored.append((name, "the raw observations are there"))
            for shard in track(shards):
                raw.read(shard, collection)
        else:
            for path, name in track(list(zip(tables, names, strict=True))):
                merged.read(path, name, collection)
        store = folder / "store"
        said = RAW if shards else MERGED
        writer = StoreWriter.create(store, name=NAME, source=said, licence=LICENCE)
        counts = collection.write(writer)
        with files.writing(Path(out)):
            for path in store.iterdir():
                path.rename(folder / path.name)
            store.rmdir()
    return collection.account.report(counts)
