"""Simulate campaigns on a store of recorded observations: the table and picture of docs/profile.md.

    python scripts/simulate_profiles.py STORE docs/profile

writes simulation.csv, a row for each device, space and budget, draws learning_curve.png and prints
the table. What the file holds with as many draws is not made again, so an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from hwbench.campaign.simulate import Simulated, simulate
from hwbench.cli.output import table
from hwbench.devices import published
from hwbench.records import Store
from hwbench.records.files import write_text

SPACES = ("s", "m", "l")
BUDGETS = (24, 32, 48, 64, 96, 128, 256)
SHOWN = 64
"""The budget of the table."""


def run(store: Store, path: Path, draws: int) -> None:
    """Simulate what is not in the file yet."""
    for device in published():
        for space in SPACES:
            known = [(s.device, s.space, s.budget, s.draws) for s in read(path)]
            todo = [b for b in BUDGETS if (device, space, b, draws) not in known]
            observations = store.observations(device, space, "latency")
            if observations is None or not todo:
                continue
            made = simulate(observations, todo, draws=draws)
            keys = {(s.device, s.space, s.budget) for s in made}
            kept = [s for s in read(path) if (s.device, s.space, s.budget) not in keys]
            write(path, [*kept, *made])


def read(path: Path) -> list[Simulated]:
    """The simulations so far."""
    if not path.is_file():
        return []
    types = {"device": str, "space": str, "budget": int, "draws": int, "pool": int}
    with path.open(encoding="utf-8") as file:
        return [
            Simulated(**{k: types.get(k, float)(v) for k, v in row.items()})
            for row in csv.DictReader(file)
        ]


def write(path: Path, found: Iterable[Simulated]) -> None:
    """Write all of them, in one step."""
    lines = io.StringIO()
    writer = csv.DictWriter(lines, list(Simulated.__slots__), lineterminator="\n")
    writer.writeheader()
    for row in map(asdict, found):
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    write_text(path, lines.getvalue())


def show(found: list[Simulated]) -> None:
    """Print the table and what is asked of it."""
    rows = [
        {
            "device": s.device,
            "space": s.space,
            "all": float(f"{s.full:.3g}"),
            "64": float(f"{s.planned:.3g}"),
            "64 random": float(f"{s.chance:.3g}"),
            "64/all": round(s.over_full, 2),
            "64/random": round(s.over_chance, 2),
            "in 90%": round(s.coverage, 1),
        }
        for s in found
    ]
    print(table(rows))
    gpus = [s.over_full for s in found if not s.device.startswith("cpu")]
    print(f"\n64 over all, median of {len(gpus)} GPU tasks: {np.median(gpus):.3f}")
    worst = max(found, key=lambda s: s.over_chance)
    print(f"64 over 64 random, largest: {worst.over_chance:.3f} ({worst.device}, {worst.space})")
    inside = [s.coverage for s in found]
    print(f"coverage of 90% intervals: mean {np.mean(inside):.1f}, smallest {min(inside):.1f}")


def show_curves(found: list[Simulated]) -> None:
    """Print the medians that the picture draws."""
    kinds = {"GPUs": False, "CPUs": True}
    rows = [
        {
            "budget": budget,
            **{
                f"{kind}, {plan}": round(float(np.median(ratios(found, is_cpu, plan, budget))), 2)
                for kind, is_cpu in kinds.items()
                for plan in ("planned", "chance")
            },
        }
        for budget in BUDGETS
    ]
    print("\nmedian of error over that of all\n" + table(rows))


def ratios(found: list[Simulated], is_cpu: bool, plan: str, budget: int) -> list[float]:
    """The error of a plan, "planned" or "chance", over that of all, of each task."""
    return [
        getattr(s, plan) / s.full
        for s in found
        if s.device.startswith("cpu") == is_cpu and s.budget == budget
    ]


def draw(found: list[Simulated], path: Path) -> None:
    """Draw the learning curves: each task, thin, and the medians, random draws dashed."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for kind, is_cpu, color in (("GPUs", False, "tab:blue"), ("CPUs", True, "tab:orange")):
        own = np.array([ratios(found, is_cpu, "planned", b) for b in BUDGETS])
        axes.plot(BUDGETS, own, color=color, alpha=0.2, lw=0.8)
        for plan, style, said in (("planned", "-", "planned"), ("chance", "--", "random")):
            median = [np.median(ratios(found, is_cpu, plan, b)) for b in BUDGETS]
            axes.plot(BUDGETS, median, style, color=color, lw=2.2, label=f"{kind}, {said}")
    axes.axhline(1, color="black", lw=0.8)
    axes.axvline(SHOWN, color="grey", lw=0.8, ls=":")
    axes.set(
        xscale="log",
        xlabel="architectures measured",
        ylabel="error over that of all",
        ylim=(0.9, 3),
    )
    axes.set_xticks(BUDGETS, map(str, BUDGETS))
    axes.minorticks_off()
    axes.legend(frameon=False, title="median of")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--draws", type=int, default=5)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows = given.out / "simulation.csv"
    with threadpool_limits(1):
        run(Store.open(given.store), rows, given.draws)
    everything = read(rows)
    show([s for s in everything if s.budget == SHOWN])
    show_curves(everything)
    draw(everything, given.out / "learning_curve.png")
