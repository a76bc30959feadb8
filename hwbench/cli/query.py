"""`hwbench query`: what an architecture costs, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hwbench.cli.architectures import architecture_of
from hwbench.cli.options import JsonOption, example, split_names
from hwbench.cli.output import print_json, print_text, table
from hwbench.errors import InvalidValue, Unsupported

if TYPE_CHECKING:
    from hwbench.architectures import Architecture
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
    explain: Annotated[
        bool,
        typer.Option(help="Say which layers waste most on each GPU that --device names, and why."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Predict the metrics of an architecture on devices, with an interval for one measurement."""
    from hwbench.benchmark import Benchmark

    bench = Benchmark(space, artifacts=artifacts, store=store)
    architecture = architecture_of(arch, bench.space, seed)
    devices, metrics = split_names(device), split_names(metric)
    predictions = bench.query(architecture, devices, metrics).predictions()
    _refuse_absent(predictions, devices=devices, metrics=metrics)
    wasted = _explained(architecture, devices) if explain else {}
    if as_json:
        rows = [_row(p, level) for p in predictions]
        made = {"arch": architecture.to_dict(), "text": str(architecture), "answers": rows}
        print_json({**made, "explain": wasted} if explain else made)
    else:
        print_text(_page(architecture, predictions, level))
        for name, lines in wasted.items():
            print_text("\n".join((f"\nWhere a forward wastes most on {name}:", *lines)))


def _explained(architecture: Architecture, devices: list[str] | None) -> dict[str, list[str]]:
    """For each device that is named, a line for each kind of layer that wastes most there."""
    from hwbench.advise import explain
    from hwbench.devices import canonical

    if devices is None:
        raise InvalidValue("The option --explain needs --device, whose figures it uses.")
    return {canonical(name): explain(architecture, canonical(name)) for name in devices}


def _refuse_absent(
    predictions: list[Prediction], *, devices: list[str] | None, metrics: list[str] | None
) -> None:
    """What is asked for by name is an answer or an error, never a gap.

    A metric that is named must have an answer on every device that is named, or on one where none
    is; a device that is named must have an answer of one metric.
    """
    answered = {name for p in predictions if p.supported for name in (p.metric.name, p.device)}
    for p in predictions:
        absent = metrics is not None and (devices is not None or p.metric.name not in answered)
        nowhere = devices is not None and p.device is not None and p.device not in answered
        if not p.supported and (absent or nowhere):
            raise Unsupported(p.reason)


def _row(p: Prediction, level: float) -> dict[str, Any]:
    """A prediction for JSON; ends that too few architectures support are null, with a reason."""
    row: dict[str, Any] = {
        "metric": p.metric.name,
        "device": p.device,
        "unit": p.unit,
        "supported": p.supported,
        "reason": p.reason,
        "source": p.source,
        "evidence": p.evidence,
        "artifact": p.artifact,
        "workload": None if p.workload is None else p.workload.to_dict(),
        "level": level,
    }
    numbers = ("median", "low", "high", "mean", "std")
    if not p.supported:
        return {**row, **dict.fromkeys(numbers), "no_interval": None, "components": None}
    unbounded = p.unbounded(level)
    ends = (None, None) if unbounded else p.interval(level)
    values = [_plain(v, p) for v in (p.median, *ends, p.mean, p.std)]
    made = {**row, **dict(zip(numbers, values, strict=True))}
    return {**made, "no_interval": unbounded, "components": dict(p.components)}


def _plain(value: float | None, p: Prediction) -> float | int | None:
    """A number, an exact one as an int."""
    return int(value) if p.source == "analytic" and value is not None else value


def _page(architecture: Architecture, predictions: list[Prediction], level: float) -> str:
    """The answers as a table, what was run for each, and what has no answer."""
    workloads = list(dict.fromkeys(str(p.workload) for p in predictions if p.workload is not None))
    rows, unbounded = [], []
    for p in (p for p in predictions if p.supported):
        made = _row(p, level)
        unbounded.append(made["no_interval"])
        columns = ("metric", "device", "unit", "median", "low", "high", "source", "evidence")
        number = "" if p.workload is None else f"[{workloads.index(str(p.workload)) + 1}]"
        rows.append({**{name: made[name] for name in columns}, "workload": number})
    parts = [
        [str(architecture)],
        [table(rows)] if rows else [],
        _promised(level, unbounded),
        [f"[{i}] {workload}" for i, workload in enumerate(workloads, 1)],
        _gaps(predictions),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _promised(level: float, unbounded: list[str | None]) -> list[str]:
    """What the intervals shown hold, and why some are not shown."""
    lines = [f"{100 * level:g}% of single measurements fall between low and high."]
    shown = None in unbounded
    return (lines if shown else []) + list(dict.fromkeys(line for line in unbounded if line))


def _gaps(predictions: list[Prediction]) -> list[str]:
    """What has no answer: the devices, or the reason where no device has one."""
    lines = []
    for metric in dict.fromkeys(p.metric.name for p in predictions):
        own = [p for p in predictions if p.metric.name == metric]
        absent = [p for p in own if not p.supported]
        if len(absent) > 1 and len(absent) < len(own):
            lines.append(f"No {metric} on {', '.join(str(p.device) for p in absent)}.")
        else:
            lines += list(dict.fromkeys(str(p.reason) for p in absent))
    return lines
