"""`hwbench evaluate`: scores of artefacts on held-out architectures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hwbench.cli.options import JsonOption, example, split_names
from hwbench.cli.output import print_rows
from hwbench.cli.progress import progress
from hwbench.errors import InvalidArtifact, InvalidValue

if TYPE_CHECKING:
    from hwbench.surrogate import Card


def register(app: typer.Typer) -> None:
    """Put the command into the app."""
    app.command(
        epilog=example(
            "hwbench evaluate --space s --metric latency",
            "hwbench evaluate --store my-store --artifacts my-artifacts --out my-scores",
        )
    )(evaluate)


def evaluate(
    store: Annotated[
        Path | None, typer.Option(help="Score anew on this store; without it, show the cards.")
    ] = None,
    artifacts: Annotated[
        Path | None, typer.Option(help="The artefacts; those that come with hwbench by default.")
    ] = None,
    space: Annotated[list[str] | None, typer.Option(help="Only these spaces.")] = None,
    device: Annotated[list[str] | None, typer.Option(help="Only these devices.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Only these metrics.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write scores.md, scores.csv and scores.json here.")
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Write a reliability plot a device here; needs --store.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Score artefacts on architectures that their fits have not seen."""
    from hwbench.records import Store
    from hwbench.surrogate import report
    from hwbench.surrogate.fit_all import rescore

    if plots is not None and store is None:
        raise InvalidValue("The option --plots needs --store, whose measurements it draws.")
    cards = _cards(artifacts, space, device, metric)
    opened = None if store is None else Store.open(store)
    scored: list[tuple[Card, Any]] = []
    with progress("scoring", total=len(cards)) as advance:
        for card in cards:
            scored.append((card, card.scores if opened is None else rescore(opened, card)))
            advance()
    rows = report.rows([(c, s) for c, s in scored if s is not None])
    if not rows:
        raise InvalidArtifact("None of these artefacts was scored when it was fitted.")
    if out is not None:
        report.write(rows, out)
    if plots is not None and opened is not None:
        _plot(opened, cards, plots)
    print_rows(rows, as_json=as_json)


def _cards(
    artifacts: Path | None,
    space: list[str] | None,
    device: list[str] | None,
    metric: list[str] | None,
) -> list[Card]:
    from hwbench.devices import canonical
    from hwbench.errors import unknown
    from hwbench.metrics import metric as metric_of
    from hwbench.surrogate import Catalogue, shipped

    catalogue = Catalogue.of(artifacts if artifacts is not None else shipped())
    devices, metrics = split_names(device), split_names(metric)
    wanted = (
        ("space", split_names(space)),
        ("device", devices and [canonical(d) for d in devices]),
        ("metric", metrics and [metric_of(m).name for m in metrics]),
    )
    keys = list(catalogue.cards)
    for place, (kind, names) in enumerate(wanted):
        there = sorted({str(key[place]) for key in keys if key[place] is not None})
        for name in names or ():
            if name not in there:
                raise unknown(f"{kind} of the artefacts", name, there)
        if names:
            keys = [key for key in keys if key[place] in names]
    found = [catalogue.card(*key) for key in keys]
    if not found:
        raise InvalidArtifact("There is no artefact of all that was asked for.")
    return [card for card in found if card is not None]


def _plot(store: Any, cards: list[Card], folder: Path) -> None:
    """A picture and its numbers for each device, and one for the metrics without one."""
    import pandas as pd

    from hwbench.surrogate.artifact import write_file
    from hwbench.surrogate.reliability import plot, reliability

    for device in dict.fromkeys(card.device for card in cards):
        rows = [r for c in cards if c.device == device for r in reliability(store, c)]
        name = device or "quality"
        plot(rows, name, folder / name)
        numbers = pd.DataFrame(rows).to_csv(index=False, float_format="%.6g", lineterminator="\n")
        write_file(folder / f"{name}.csv", numbers.encode())
