"""Simulate campaigns on a store of recorded observations: the table and picture of docs/profile.md.

    python scripts/simulate_profiles.py STORE docs/profile

writes simulation.csv and learning_curve.csv, goes on where it was interrupted, draws
learning_curve.png and prints the table.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import asdict
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from hwbench.campaign.simulate import Simulated, learning_curve, simulate
from hwbench.cli.output import table
from hwbench.devices import published
from hwbench.records import Store

SPACES = ("s", "m", "l")
BUDGETS = (24, 32, 48, 64, 96, 128, 256)


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none where there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: dict[str, object]) -> None:
    """Append one row."""
    new = not path.is_file()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def run(store: Store, out: Path, draws: int) -> None:
    """Simulate what is not in the files yet."""
    simulation, curves = out / "simulation.csv", out / "learning_curve.csv"
    for device in published():
        for space in SPACES:
            key = (device, space)
            observations = store.observations(device, space, "latency")
            if observations is None:
                continue
            if key not in [(r["device"], r["space"]) for r in rows_of(simulation)]:
                append(simulation, asdict(simulate(observations, draws=draws)))
            if key not in [(r["device"], r["space"]) for r in rows_of(curves)]:
                errors = learning_curve(observations, BUDGETS, draws=max(1, draws // 3))
                row = dict(zip(map(str, BUDGETS), errors, strict=True))
                append(curves, {"device": device, "space": space, **row})


def read(out: Path) -> list[Simulated]:
    """The simulations so far."""
    types = {"device": str, "space": str, "pool": int, "draws": int}
    return [
        Simulated(**{k: types.get(k, float)(v) for k, v in row.items()})
        for row in rows_of(out / "simulation.csv")
    ]


def show(found: list[Simulated]) -> None:
    """Print the table and what is asked of it."""
    rows = [
        {
            "device": s.device,
            "space": s.space,
            "all": s.full,
            "64": s.planned,
            "64 random": s.chance,
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


def draw(out: Path) -> None:
    """Draw the learning curves."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    full = {(s.device, s.space): s.full for s in read(out)}
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    lines = []
    for row in rows_of(out / "learning_curve.csv"):
        ratio = [float(row[str(b)]) / full[row["device"], row["space"]] for b in BUDGETS]
        kind = "tab:orange" if row["device"].startswith("cpu") else "tab:blue"
        axes.plot(BUDGETS, ratio, color=kind, alpha=0.25, lw=1)
        lines.append((kind, ratio))
    for kind, label in (("tab:blue", "GPUs"), ("tab:orange", "CPUs")):
        own = np.array([ratio for k, ratio in lines if k == kind])
        if not len(own):
            continue
        axes.plot(BUDGETS, np.median(own, axis=0), color=kind, lw=2.5, label=f"{label}, median")
    axes.axhline(1, color="black", lw=0.8)
    axes.axvline(64, color="grey", lw=0.8, ls=":")
    axes.set(
        xscale="log",
        xlabel="architectures measured",
        ylabel="error over that of 8,000",
        ylim=(0.9, 3),
    )
    axes.set_xticks(BUDGETS, map(str, BUDGETS))
    axes.minorticks_off()
    axes.legend(frameon=False)
    figure.savefig(out / "learning_curve.png", dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--draws", type=int, default=6)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        run(Store.open(given.store), given.out, given.draws)
    show(read(given.out))
    draw(given.out)
