"""`hwbench fit`: artefacts from a record store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hwbench.cli.options import JsonOption, example, split_names
from hwbench.cli.output import print_rows
from hwbench.cli.progress import progress
from hwbench.errors import InvalidStore

if TYPE_CHECKING:
    from hwbench.surrogate.fit_all import Outcome


def register(app: typer.Typer) -> None:
    """Put the command into the app."""
    app.command(epilog=example("hwbench fit --store my-store --out my-artifacts"))(fit)


def fit(
    store: Annotated[Path, typer.Option(help="The record store.")],
    out: Annotated[Path, typer.Option(help="Where the artefacts go; what fits is kept.")],
    space: Annotated[list[str] | None, typer.Option(help="Only these spaces.")] = None,
    device: Annotated[list[str] | None, typer.Option(help="Only these devices.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Only these metrics.")] = None,
    workers: Annotated[int, typer.Option(help="Processes; the result is the same.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of every draw in a fit.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Fit a surrogate of every metric that a store has observations of.

    A fit that was interrupted goes on where it was: artefacts of the same data, split, settings and
    versions are not fitted again. A metric that cannot be fitted is named after all others were.
    """
    from hwbench.records import Store
    from hwbench.surrogate.fit_all import fit_all, tasks
    from hwbench.surrogate.settings import Settings

    opened = Store.open(store)
    names = (split_names(given) for given in (space, device, metric))
    chosen = tasks(opened, *names)
    rows: list[dict[str, Any]] = []
    try:
        with progress("fitting", total=len(chosen)) as advance:
            for done in fit_all(opened, out, chosen, settings=Settings(seed=seed), workers=workers):
                advance()
                rows.append(_row(done))
    except InvalidStore:  # after all that could be fitted
        if rows:
            _show(rows, as_json=as_json)
        raise
    _show(rows, as_json=as_json)


def _row(done: Outcome) -> dict[str, Any]:
    card, scores = done.card, done.card.values["scores"]
    return {
        "metric": card.metric,
        "space": card.search_space.name,
        "device": card.device,
        "held_out": scores["architectures"] if scores else 0,
        "mape_percent": scores["mape"] if scores else None,
        "in_90_percent": scores["coverage_90"] if scores else None,
        "evidence": card.evidence,
        "fitted": done.fitted,
    }


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    rows.sort(key=lambda r: (r["metric"], r["space"], r["device"] or ""))
    print_rows(rows, as_json=as_json)
