"""The pictures of a leaderboard, each drawn from one call: PNG and SVG, colours that all can tell.

Colours are Okabe and Ito's palette; lines differ in their dashes too.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hwbench.architectures import Architecture
from hwbench.benchmark import Benchmark
from hwbench.errors import InvalidValue, MissingDependency, unknown
from hwbench.leaderboard.build import Leaderboard
from hwbench.leaderboard.optimisers import Comparison
from hwbench.leaderboard.results import front_of, read_results
from hwbench.leaderboard.suite import Part, Suite
from hwbench.search import ALGORITHMS, Task
from hwbench.search.indicators import attainment
from hwbench.surrogate import Catalogue, shipped
from hwbench.surrogate.artifact import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 2, 2, 2)))


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("Pictures need matplotlib: pip install 'hwbench[plot]'.") from None
    return Figure(figsize=(width, height), layout="constrained")


def _style(i: int) -> dict[str, Any]:
    return {
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": DASHES[(i + i // len(COLOURS)) % len(DASHES)],  # no two of the first 64 alike
        "linewidth": 1.2,
    }


def _title(name: str) -> str:
    return ALGORITHMS[name].title if name in ALGORITHMS else name


def curves(board: Leaderboard, part: Part | None, task: Task | None) -> Figure:
    """Regret of hypervolume over evaluations, a band of 95% over seeds around the mean.

    Of one task, or the mean over all tasks of a part.
    """
    shown = [c for c in board.comparisons if part is None or c.part == part]
    figure = _figure(4.6 * len(shown), 3.6)
    for axes, c in zip(np.atleast_1d(figure.subplots(1, len(shown))), shown, strict=True):
        _curve(axes, c, task)
    return figure


def _curve(axes: Any, c: Comparison, task: Task | None) -> None:
    if task is not None and task.name not in c.tasks:
        raise unknown(f"task of part {c.part.name}", task.name, c.tasks)
    for i, name in enumerate(c.names):
        values = c.regret[i] if task is None else c.regret[i, [c.tasks.index(task.name)]]
        means = values.mean(axis=0)  # (seeds, marks)
        half = 1.96 * means.std(axis=0, ddof=1) / len(means) ** 0.5 if len(means) > 1 else 0.0
        middle = means.mean(axis=0)
        style = _style(i)
        axes.plot(c.at, middle, label=_title(name), **style)
        axes.fill_between(c.at, middle - half, middle + half, color=style["color"], alpha=0.2)
    where = f"{len(c.tasks)} tasks" if task is None else task.name
    axes.set(
        xlabel="evaluations",
        ylabel="hypervolume regret [share of the best known]",
        title=f"{c.part.name}: {where}",
        yscale="log",
    )
    axes.legend(fontsize="x-small")


def attained(suite: Suite, part: Part, task: Task) -> Figure:
    """Median attainment surfaces, and between 25 and 75% of the runs."""
    results = [r for r in read_results(suite, part) if r.task == task.name]
    names = list(dict.fromkeys(r.algorithm for r in results))
    order = [*(a for a in ALGORITHMS if a in names), *(n for n in names if n not in ALGORITHMS)]
    best = front_of(suite, task)
    figure = _figure(4.8, 4.2)
    axes = figure.subplots()
    signs = task.signs
    for i, name in enumerate(order):
        fronts = [r.front * signs for r in results if r.algorithm == name]
        low, middle, high = (s * signs for s in attainment(fronts, (25, 50, 75)))
        style = _style(i)
        axes.step(*_steps(middle), where="post", label=_title(name), **style)
        for surface in (low, high):
            axes.step(*_steps(surface), where="post", **{**style, "linewidth": 0.4})
    axes.plot(*best.values.T, ".", color="0.6", markersize=2, label="best known")
    x, y = task.objectives
    axes.set(xlabel=x.label, ylabel=y.label, title=f"25, 50, 75% attainment\n{task.name}")
    axes.legend(fontsize="x-small")
    return figure


def _steps(surface: Any) -> tuple[Any, Any]:
    ordered = surface[np.argsort(surface[:, 0], kind="stable")]
    return ordered[:, 0], ordered[:, 1]


def uncertain_front(suite: Suite, task: Task, points: int = 25) -> Figure:
    """The best known front with 90% intervals of a single measurement."""
    best = front_of(suite, task)
    bench = Benchmark(task.search_space)
    chosen = np.unique(np.linspace(0, len(best.texts) - 1, points).round().astype(int))
    archs = [Architecture.parse(best.texts[i], bench.space) for i in chosen]
    levels = (0.05, 0.5, 0.95)
    spans = [bench.predict(archs, o.device, o.metric, levels) for o in task.objectives[:2]]
    (x, x_bars), (y, y_bars) = ((s[:, 1], np.abs(s[:, [0, 2]] - s[:, [1]]).T) for s in spans)
    figure = _figure(4.8, 4.0)
    axes = figure.subplots()
    axes.errorbar(
        x, y, xerr=x_bars, yerr=y_bars, fmt="o", markersize=3, color=COLOURS[0],
        ecolor=COLOURS[1], elinewidth=1, capsize=2, label="median and 90% interval",
    )  # fmt: skip
    labels = [o.label for o in task.objectives[:2]]
    axes.set(xlabel=labels[0], ylabel=labels[1], title=f"Best known front\n{task.name}")
    axes.legend(fontsize="small")
    return figure


def reliability(suite: Suite) -> Figure:
    """How often held-out measurements lie in central intervals, from the artefacts' cards."""
    catalogue = Catalogue.of(shipped())
    cards = [catalogue.card(*key) for key in catalogue.cards if key[0] in suite.spaces]
    levels = (50, 80, 90, 95)
    found: dict[str, list[list[float]]] = {}
    for card in cards:
        if card is not None and card.scores is not None:
            covered = [float(card.scores[f"coverage_{q}"]) for q in levels]
            found.setdefault(card.metric, []).append(covered)
    figure = _figure(4.2, 4.2)
    axes = figure.subplots()
    axes.plot([45, 100], [45, 100], color="0.6", linewidth=1, label="perfect")
    for i, (metric, rows) in enumerate(sorted(found.items())):
        values = np.array(rows)
        at = np.array(levels) + (i - len(found) / 2) * 0.6
        low, middle, high = np.quantile(values, [0.1, 0.5, 0.9], axis=0)
        axes.errorbar(
            at, middle, yerr=[middle - low, high - middle], fmt="os^Dv"[i % 5], markersize=4,
            color=COLOURS[i], capsize=2, label=f"{metric}, {len(rows)} artefacts",
        )  # fmt: skip
    axes.set(
        xlabel="level of the predicted interval [%]",
        ylabel="held-out measurements inside [%]",
        title="Reliability: median artefact, 10 to 90%",
        aspect="equal",
    )
    axes.legend(fontsize="small")
    return figure


def correlations(board: Leaderboard, metric: str = "latency") -> Figure:
    """Kendall's tau between devices as a heat map, one a space."""
    rows = next(t.rows for t in board.tables if t.name == "devices")
    spaces = list(dict.fromkeys(r["space"] for r in rows if r["metric"] == metric))
    if not spaces:
        raise unknown(
            "metric of pairs of devices", metric, dict.fromkeys(r["metric"] for r in rows)
        )
    figure = _figure(5.2 * len(spaces), 5.0)
    picture = None
    for axes, space in zip(np.atleast_1d(figure.subplots(1, len(spaces))), spaces, strict=True):
        own = [r for r in rows if (r["space"], r["metric"]) == (space, metric)]
        names = list(dict.fromkeys([*(r["device"] for r in own), *(r["other"] for r in own)]))
        grid = np.eye(len(names))
        for r in own:
            i, j = names.index(r["device"]), names.index(r["other"])
            grid[i, j] = grid[j, i] = r["tau"]
        picture = axes.imshow(grid, cmap="cividis", vmin=0.5, vmax=1)
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize="small")
        axes.set_yticks(range(len(names)), names, fontsize="small")
        axes.set_title(f"{metric}, space {space}")
        for (i, j), value in np.ndenumerate(grid):
            dark = value < 0.75
            axes.text(
                j, i, f"{value:.2f}", ha="center", va="center", fontsize=5.5,
                color="white" if dark else "black",
            )  # fmt: skip
    if picture is not None:
        figure.colorbar(picture, ax=figure.axes, label="Kendall's tau [1]", shrink=0.8)
    return figure


KINDS: Mapping[str, str] = MappingProxyType(
    {
        "hypervolume": "regret of hypervolume over evaluations with bands",
        "attainment": "attainment surfaces of a task",
        "front": "the best known front of a task with uncertainty bars",
        "reliability": "coverage of predicted intervals",
        "devices": "rank correlation of devices as a heat map",
    }
)
"""What can be drawn."""


def picture(
    kind: str,
    suite: Suite,
    made: Callable[[], Leaderboard],
    *,
    part: Part | None = None,
    task: Task | None = None,
    metric: str = "latency",
) -> Figure:
    """Draw one kind of picture of a suite.

    Args:
        kind: A key of `KINDS`.
        suite: The suite.
        made: Gives its leaderboard, where the picture needs that.
        part: The part; the first by default.
        task: The task; all of the part for "hypervolume", otherwise the first by default.
        metric: The metric of "devices".

    Raises:
        UnknownName: No such kind.
        MissingDependency: matplotlib is not installed.
    """
    chosen = part or suite.parts[0]
    one = task or chosen.tasks()[0]
    match kind:
        case "hypervolume":
            return curves(made(), part, task)
        case "attainment":
            return attained(suite, chosen, one)
        case "front":
            return uncertain_front(suite, one)
        case "reliability":
            return reliability(suite)
        case "devices":
            return correlations(made(), metric)
    raise unknown("picture", kind, KINDS)


def svg(figure: Figure) -> str:
    """A figure as SVG text, the same text each time."""
    import matplotlib as mpl

    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "hwbench"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and SVG, each beside its place and then renamed.

    Args:
        figure: The figure.
        path: Where to write, without a suffix.

    Raises:
        InvalidValue: The path has no last part to name the files after.
    """
    if not path.name:
        raise InvalidValue(f"The pictures' path must end in a name. Got {str(path)!r} instead.")
    path.parent.mkdir(parents=True, exist_ok=True)
    vector = svg(figure).encode()  # first: drawing at another resolution moves the layout
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=150)
    written = []
    for suffix, content in ((".png", png.getvalue()), (".svg", vector)):
        written.append(path.with_name(path.name + suffix))
        write_file(written[-1], content)
    return written
