"""`hwbench leaderboard`: run a suite, build its tables, check them, draw, score and submit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hwbench.cli.options import JsonOption, example
from hwbench.cli.output import print_rows, print_text
from hwbench.cli.progress import progress
from hwbench.errors import InvalidValue, unknown

if TYPE_CHECKING:
    from hwbench.leaderboard import Part, Suite
    from hwbench.search import Task

_SUITE = "leaderboards/small"

Folder = Annotated[Path, typer.Argument(help="The suite's folder, which holds suite.toml.")]
Jobs = Annotated[int, typer.Option(min=1, help="Processes.")]


def register(app: typer.Typer) -> None:
    """Put the commands into the app."""
    group = typer.Typer(rich_markup_mode=None, help="Compare optimisers, architectures, devices.")
    for command, line in (
        (fronts, f"hwbench leaderboard fronts {_SUITE}"),
        (run, f"hwbench leaderboard run {_SUITE} --jobs 2"),
        (build, f"hwbench leaderboard build {_SUITE}"),
        (check, f"hwbench leaderboard check {_SUITE}"),
        (plot, f"hwbench leaderboard plot devices {_SUITE} --out devices"),
        (score, f"hwbench leaderboard score runs/nsga2-seed-0.jsonl --suite {_SUITE}"),
        (submit, f"hwbench leaderboard submit my-run.jsonl --suite {_SUITE}"),
    ):
        group.command(epilog=example(line))(command)
    app.add_typer(group, name="leaderboard")


def fronts(
    suite: Folder,
    update: Annotated[
        bool, typer.Option("--update", help="Search again and join what is found to what is there.")
    ] = False,
    jobs: Jobs = 1,
) -> None:
    """Compute best known fronts, and best architectures under budgets, where they are missing."""
    from hwbench.leaderboard import read_suite
    from hwbench.leaderboard.budgets import METRICS, compute_winners
    from hwbench.leaderboard.results import compute_fronts

    found = read_suite(suite)
    with progress("fronts", total=len(found.tasks())) as advance:
        compute_fronts(found, jobs=jobs, update=update, advance=advance)
    total = len(found.spaces) * len(found.devices) * len(METRICS)
    with progress("architectures", total=total) as advance:
        compute_winners(found, jobs=jobs, advance=advance)


def run(
    suite: Folder,
    part: Annotated[str | None, typer.Option(help="Only this part of the suite.")] = None,
    jobs: Jobs = 1,
) -> None:
    """Run every optimiser on every task of the suite; what is there is not run again."""
    from hwbench.leaderboard import read_suite
    from hwbench.leaderboard.results import run_suite

    found = read_suite(suite)
    parts = found.parts if part is None else (found.part(part),)
    total = sum(len(one.tasks()) * len(one.algorithms) for one in parts)
    with progress("running", total=total) as advance:
        run_suite(found, jobs=jobs, advance=advance, parts=parts)


def build(
    suite: Folder,
    html: Annotated[
        bool, typer.Option(help="Also write index.html, which needs hwbench[plot].")
    ] = True,
) -> None:
    """Build the tables as Markdown, CSV and JSON, and one HTML page with pictures."""
    from hwbench.leaderboard import read_suite
    from hwbench.leaderboard.build import files, leaderboard, write

    found = read_suite(suite)
    board = leaderboard(found)
    written = write(found.folder, files(board))
    if html:
        from hwbench.leaderboard.gallery import page

        written += write(found.folder, {"index.html": page(board)})
    for path in written:
        print_text(str(path))


def check(suite: Folder) -> None:
    """Build the tables anew and compare them with the files, byte for byte."""
    from hwbench.leaderboard import read_suite
    from hwbench.leaderboard.build import require

    require(read_suite(suite))
    print_text("The leaderboard is what is built from its results.")


def plot(
    kind: Annotated[
        str, typer.Argument(help="hypervolume, attainment, front, reliability or devices.")
    ],
    suite: Folder,
    out: Annotated[Path, typer.Option(help="Where to write, without .png and .svg.")],
    part: Annotated[str | None, typer.Option(help="The part; the first unless given.")] = None,
    task: Annotated[
        str | None, typer.Option(help="The task, such as 's: perplexity, latency@h100'.")
    ] = None,
    metric: Annotated[str, typer.Option(help="The metric of 'devices'.")] = "latency",
) -> None:
    """Draw one picture as PNG and SVG."""
    from hwbench.leaderboard import read_suite
    from hwbench.leaderboard.build import leaderboard
    from hwbench.leaderboard.pictures import picture, save

    found = read_suite(suite)
    chosen = None if part is None else found.part(part)
    figure = picture(
        kind,
        found,
        lambda: leaderboard(found),
        part=chosen,
        task=None if task is None else _task(found, chosen, task),
        metric=metric,
    )
    for path in save(figure, out):
        print_text(str(path))


def _task(suite: Suite, part: Part | None, name: str) -> Task:
    tasks = {t.name: t for t in (suite.tasks() if part is None else part.tasks())}
    if name not in tasks:
        raise unknown("task", name, tasks)
    return tasks[name]


def score(
    trajectories: Annotated[list[Path], typer.Argument(help="Trajectory files.")],
    suite: Annotated[
        Path | None, typer.Option(help="A suite with the task's best known front.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Score trajectories: hypervolume, and against the best known front regret, IGD+, epsilon."""
    print_rows([_scored(path, suite) for path in trajectories], as_json=as_json)


def _scored(path: Path, folder: Path | None) -> dict[str, Any]:
    from hwbench.benchmark import Benchmark
    from hwbench.leaderboard import read_suite
    from hwbench.leaderboard.results import check_pins, front_of
    from hwbench.search import Evaluator, read
    from hwbench.search.extremes import bounds
    from hwbench.search.indicators import Frame, of_trajectory, regret

    found = read(path)
    task, count = found.header.task, len(found.texts)
    row: dict[str, Any] = {
        "file": str(path),
        "algorithm": found.header.algorithm,
        "seed": found.header.seed,
        "evaluations": count,
    }
    if folder is None:
        frame = Frame(*bounds(Evaluator(task, Benchmark(task.search_space))))
        scores = of_trajectory(found, frame, frame.normalised(frame.ideal[None]), (count,))
        return {**row, "hypervolume": float(scores.hypervolume[-1])}
    suite = read_suite(folder)
    if task not in suite.tasks():
        raise InvalidValue(
            f"The task of {path} must be one of the suite's, without constraints or noise. "
            f"Got {task.name} instead."
        )
    best = front_of(suite, task)
    check_pins(best, found.header.artifacts)
    scores = of_trajectory(found, best.frame, best.normalised, (count,))
    volume = float(scores.hypervolume[-1])
    return {
        **row,
        "hypervolume": volume,
        "regret": regret(volume, best.hypervolume),
        "igd_plus": float(scores.igd_plus[-1]),
        "epsilon": float(scores.epsilon[-1]),
    }


def submit(
    trajectory: Annotated[Path, typer.Argument(help="The trajectory file.")],
    suite: Annotated[Path, typer.Option(help="The suite's folder.")],
    as_json: JsonOption = False,
) -> None:
    """Check every line of a trajectory, and add its result to a suite if all are true."""
    from hwbench.leaderboard import read_suite
    from hwbench.leaderboard.submit import submit as add

    result = add(read_suite(suite), trajectory)
    row = {
        "algorithm": result.algorithm,
        "task": result.task,
        "seed": result.seed,
        "evaluations": result.at[-1],
        "hypervolume": float(result.hypervolume[-1]),
    }
    print_rows([row], as_json=as_json)
