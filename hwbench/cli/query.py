"""`hwbench query`: what an architecture costs, and how sure that is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hwbench.cli.options import JsonOption, example, split_names
from hwbench.cli.output import print_json, print_rows, print_text
from hwbench.errors import InvalidArchitecture, Unsupported, brief

if TYPE_CHECKING:
    from hwbench.architectures import Architecture, SearchSpace
    from hwbench.benchmark import Prediction


def register(app: typer.Typer) -> None:
    """Put the command into the app."""
    app.command(
        epilog=example(
            "hwbench query --space s --device h100 --arch random --seed 0",
            "hwbench query --space m --device h100,p100 --metric latency --arch arch.json --json",
        )
    )(query)


def query(
    space: Annotated[str, typer.Option(help="A named space, or a TOML file of one's own.")],
    arch: Annotated[
        str, typer.Option(help="An architecture's text, a JSON file with its dict, or 'random'.")
    ],
    device: Annotated[
        list[str] | None, typer.Option(help="Devices; all unless given. Repeat or join by commas.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Metrics; all unless given. Repeat or join by commas.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws the random architecture.")] = 0,
    level: Annotated[float, typer.Option(help="Probability of the interval shown.")] = 0.9,
    artifacts: Annotated[
        Path | None, typer.Option(help="One's own artefacts, laid over those of hwbench.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="A record store; what it holds is shown as measured.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the metrics of an architecture on devices, with an interval for one measurement."""
    from hwbench.benchmark import Benchmark

    bench = Benchmark(space, artifacts=artifacts, store=store)
    architecture = _architecture(arch, bench.space, seed)
    devices, metrics = split_names(device), split_names(metric)
    answer = bench.query(architecture, devices, metrics)
    predictions = answer.predictions()
    _refuse_absent(predictions, named=devices is not None, metrics=metrics)
    rows = [_row(p, level) for p in predictions]
    if as_json:
        print_json({"arch": architecture.to_dict(), "text": str(architecture), "answers": rows})
        return
    print_text(f"{architecture}\n")
    shown = [r for r in rows if r["supported"]]
    columns = ("metric", "device", "unit", "median", "low", "high", "source", "evidence")
    print_rows([{c: r[c] for c in columns} for r in shown], as_json=False)
    for reason in dict.fromkeys(r["reason"] for r in rows if not r["supported"]):
        print_text(reason)


def _refuse_absent(
    predictions: list[Prediction], *, named: bool, metrics: list[str] | None
) -> None:
    """What is asked for by name is an answer or an error, never a gap."""
    if metrics is None:
        return
    answered = {p.metric.name for p in predictions if p.supported}
    for p in predictions:
        if not p.supported and (named or p.metric.name not in answered):
            raise Unsupported(p.reason)


def _row(p: Prediction, level: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "metric": p.metric.name,
        "device": p.device,
        "unit": p.unit,
        "supported": p.supported,
        "reason": p.reason,
    }
    if not p.supported:
        return {**row, "median": None, "low": None, "high": None, "source": None, "evidence": None}
    low, high = p.interval(level)
    if p.source == "analytic":
        exact = int(p.median)
        return {
            **row,
            "median": exact,
            "low": exact,
            "high": exact,
            "source": p.source,
            "evidence": None,
        }
    parts = p.components
    return {
        **row,
        "median": p.median,
        # JSON has no infinity: an end that nothing supports is absent.
        "low": low if math.isfinite(low) else None,
        "high": high if math.isfinite(high) else None,
        "level": level,
        "mean": p.mean,
        "std": p.std,
        "components": {"repeat": parts.repeat, "drift": parts.drift, "model": parts.model},
        "source": p.source,
        "evidence": p.evidence,
        "artifact": p.artifact,
        "workload": None if p.workload is None else p.workload.to_dict(),
    }


def _architecture(text: str, space: SearchSpace, seed: int) -> Architecture:
    """The architecture that an option names: drawn, read from a file, or parsed."""
    from hwbench.architectures import Architecture

    if text == "random":
        return space.sample(1, seed)[0]
    if not text.endswith(".json"):
        return Architecture.parse(text, space)
    try:
        content = json.loads(Path(text).read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidArchitecture(f"The file {text} is not JSON: {brief(str(error))}.") from None
    if isinstance(content, str):
        return Architecture.parse(content, space)
    return Architecture.from_dict(content, space)
