"""`hwbench search`: run an optimiser on the benchmark, one trajectory file a seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hwbench.cli.options import JsonOption, example
from hwbench.cli.output import print_rows
from hwbench.cli.progress import progress
from hwbench.errors import InvalidValue

if TYPE_CHECKING:
    from hwbench.search import Evaluator, Run


def register(app: typer.Typer) -> None:
    """Put the command into the app."""
    app.command(
        epilog=example(
            "hwbench search --space s --objectives perplexity,latency@h100 --seeds 0-9 --out runs"
        )
    )(search)


def search(
    space: Annotated[str, typer.Option(help="A named space, or a TOML file of one's own.")],
    objectives: Annotated[
        list[str],
        typer.Option(
            help="Two or more of metric, metric@device or metric@device:quantile, joined by commas."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder for the trajectory files.")],
    algorithm: Annotated[
        str,
        typer.Option(
            help="random, local, mo-rea, nsga2, sms-emoa, tpe, bo-linear, bo-random or ehvi."
        ),
    ] = "nsga2",
    evaluations: Annotated[int, typer.Option(help="Evaluations of each run.")] = 1000,
    seeds: Annotated[str, typer.Option(help="Seeds, such as 0-9 or 0,3,5-7.")] = "0",
    constraint: Annotated[
        list[str] | None,
        typer.Option(help="A bound, such as 'latency@h100:0.95<=20'. May be repeated."),
    ] = None,
    noisy: Annotated[
        bool, typer.Option("--noisy", help="Observe single measurements, drawn by the seed.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, which share the seeds out.")] = 1,
    artifacts: Annotated[
        Path | None, typer.Option(help="One's own artefacts, laid over those of hwbench.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Search a space for several objectives; runs that are there already are not run again."""
    from hwbench.search import Run
    from hwbench.search import algorithm as algorithm_of
    from hwbench.search.run import check_folder

    name = algorithm_of(algorithm).name
    if evaluations < 1:
        raise InvalidValue(
            f"The option --evaluations must be an int of at least 1. Got {evaluations} instead."
        )
    numbers = parse_seeds(seeds)
    named = [name.strip() for each in objectives for name in each.split(",")]
    asked = (space, named, constraint or [], noisy, artifacts)
    evaluator = _evaluator(*asked)
    if constraint:
        from hwbench.search.extremes import check_feasible

        check_feasible(evaluator)
    runs = [Run(name, seed, evaluations) for seed in numbers]
    check_folder(out, runs, evaluator)
    rows: list[dict[str, Any]] = []
    with progress("searching", total=len(runs)) as advance:
        if jobs == 1 or len(runs) == 1:  # what is loaded serves every seed
            for run in runs:
                rows.append(_one(evaluator, run, out))
                advance()
        else:
            from hwbench.processes import shared_out

            arguments = [(*asked, run, out) for run in runs]
            for row in shared_out(_afresh, arguments, jobs):
                rows.append(row)
                advance()
    rows.sort(key=lambda row: int(row["seed"]))
    print_rows(rows, as_json=as_json)


def _evaluator(
    space: str,
    objectives: list[str],
    constraints: list[str],
    noisy: bool,
    artifacts: Path | None,
) -> Evaluator:
    from hwbench.benchmark import Benchmark
    from hwbench.search import Evaluator, Task

    bench = Benchmark(space, artifacts=artifacts)
    return Evaluator(Task.of(bench.space, objectives, constraints, noisy=noisy), bench)


def _one(evaluator: Evaluator, run: Run, out: Path) -> dict[str, Any]:
    from hwbench.search.run import kept, summary

    path, found = kept(evaluator, run, out)
    return {**summary(found), "file": str(path)}


def _afresh(*arguments: Any) -> dict[str, Any]:
    """One run in a process of its own, which loads what it needs."""
    *asked, run, out = arguments
    return _one(_evaluator(*asked), run, out)


def parse_seeds(text: str) -> list[int]:
    """The seeds that an option names, in order without repeats.

    Raises:
        InvalidValue: The text is of another form, or names more than 10,000.

    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(end.isascii() and end.isdigit() and len(end) < 10 for end in ends):
            raise InvalidValue(
                f"The option --seeds must be numbers and ranges, such as 0-9 or 0,3,5-7. "
                f"Got {text!r} instead."
            )
        low, high = map(int, ends)
        if high < low or high - low >= 10_000:
            raise InvalidValue(
                f"The option --seeds must have ranges that rise, of at most 10000 seeds. "
                f"Got {part.strip()!r} instead."
            )
        found += range(low, high + 1)
    return list(dict.fromkeys(found))
