"""`hwbench data`: import, validate and describe a record store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hwbench.cli.options import JsonOption, example
from hwbench.cli.output import print_json, print_rows, print_text
from hwbench.cli.progress import progress

StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the store.")]


def register(app: typer.Typer) -> None:
    """Put the commands into the app."""
    group = typer.Typer(
        rich_markup_mode=None, help="Import, validate and describe stores of recorded observations."
    )
    group.command("import", epilog=example("hwbench data import HW-GPT-Bench --out my-store"))(
        import_
    )
    group.command(epilog=example("hwbench data validate my-store --write-hashes"))(validate)
    group.command(epilog=example("hwbench data describe my-store --json"))(describe)
    app.add_typer(group, name="data")


def import_(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Checkout of HW-GPT-Bench with raw observations or stats.pkl, or a stats.pkl.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="STORE", help="New folder to write the store to.")],
    as_json: JsonOption = False,
) -> None:
    """Import HW-GPT-Bench's observations into a new store, and list what is left out."""
    from hwbench.records.importing import import_hwgptbench

    report = import_hwgptbench(source, out, track=_track)
    if as_json:
        print_json(report.to_dict())
        return
    print_text(
        f"Read {report.readings} readings: kept {report.readings_kept}, "
        f"left out {report.readings_left_out}."
    )
    for item in report.left_out:
        shown = f" ({'; '.join(item.examples)})"
        print_text(f"left out: {item.file}: {item.metric} x {item.count}: {item.reason}{shown}")
    for file, reason in report.ignored:
        print_text(f"ignored: {file}: {reason}")


def validate(
    store: StoreArgument,
    write_hashes: Annotated[
        bool,
        typer.Option(
            "--write-hashes", help="Write the hash of every file into store.toml, if it is valid."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a store's files, schema, values and hashes; errors make the exit status 2."""
    from hwbench.errors import InvalidStore
    from hwbench.records import StoreWriter
    from hwbench.records import validate as check
    from hwbench.records.validate import lines

    report = check(store)
    if write_hashes and all(f.rule == "hashes" for f in report.errors):
        StoreWriter.open(store).write_hashes()
        report = check(store)
    if as_json:
        print_json(report.to_dict())
    else:
        for line in lines(report):
            print_text(line)
        counts = f"{len(report.errors)} errors, {len(report.warnings)} warnings"
        print_text(f"{report.files} files, {report.rows} rows: {counts}.")
    if not report.valid:
        raise InvalidStore(f"{store} must have no error. Got {len(report.errors)}.")


def describe(store: StoreArgument, as_json: JsonOption = False) -> None:
    """List what a store holds: counts, repeats, medians and spread of every metric."""
    from hwbench.records import describe as summary

    rows = summary(store)
    if as_json:
        print_rows(rows, as_json=True)
        return
    print_rows([{k: v for k, v in row.items() if k != "workload"} for row in rows], as_json=False)


def _track(items: Sequence[Any]) -> Iterator[Any]:
    """Pass items on, with a progress bar on a terminal."""
    with progress("importing", total=len(items)) as advance:
        for item in items:
            yield item
            advance()
