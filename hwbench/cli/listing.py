"""`hwbench devices`, `spaces` and `metrics`: what can be named in a query."""

from __future__ import annotations

import typer

from hwbench.cli.options import JsonOption, example
from hwbench.cli.output import print_rows


def register(app: typer.Typer) -> None:
    """Put the commands into the app."""
    app.command(epilog=example("hwbench devices", "hwbench devices --json"))(devices)
    app.command(epilog=example("hwbench spaces", "hwbench spaces --json"))(spaces)
    app.command(epilog=example("hwbench metrics", "hwbench metrics --json"))(metrics)


def devices(as_json: JsonOption = False) -> None:
    """List the devices of the catalogue, and what is assumed of each."""
    from hwbench.devices import catalogue

    rows = [
        {
            "device": d.name,
            "label": d.label,
            "kind": d.kind,
            "published": d.published,
            "variant": d.variant,
        }
        for d in catalogue().values()
    ]
    print_rows(rows, as_json=as_json)


def spaces(as_json: JsonOption = False) -> None:
    """List the named search spaces: the choices of each, and how many architectures it holds."""
    from hwbench.architectures import space
    from hwbench.architectures import spaces as names

    rows = [
        {
            "space": s.name,
            "embed_dim": s.embed_dim,
            "n_layer": s.n_layer,
            "n_head": s.n_head,
            "mlp_ratio": s.mlp_ratio,
            "bias": s.bias,
            "size": s.size,
        }
        for s in map(space, names())
    ]
    print_rows(rows, as_json=as_json)


def metrics(as_json: JsonOption = False) -> None:
    """List the metrics: unit, direction, and whether a device must be named."""
    from hwbench.metrics import METRICS

    rows = [
        {
            "metric": m.name,
            "unit": m.unit,
            "better": m.better,
            "needs_device": m.needs_device,
            "source": m.source,
            "description": m.description,
        }
        for m in METRICS.values()
    ]
    print_rows(rows, as_json=as_json)
