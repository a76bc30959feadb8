"""Compare the model of the hardware with a store's recorded latencies, into docs/.

python scripts/compare_advice.py ../shared/data/hw-gpt-bench
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from hwbench.advise.agreement import UNQUANTISED, WHOLE, Agreement, agreements
from hwbench.cost import gpu, kernels
from hwbench.records import Store

CONSTANTS = (
    *("SUSTAINED", "TILE_REUSE", "PIPELINE_DEPTH", "BANDWIDTH_SHARE", "STRIDED_SHARE"),
    *("KERNEL_US", "FUSED_SHARE"),
)
FACTORS = (0.5, 1.0, 2.0)
TABLE = Path(__file__).parent.parent / "docs/advise-recorded.csv"


def main(path: str) -> None:
    """Write one row a task and print the means."""
    found = list(agreements(Store.open(path)))
    rows = [row(one) for one in found]
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{len(found)} tasks, {sum(one.architectures for one in found)} scored latencies")
    spaces = list(dict.fromkeys(one.space for one in found))
    print("  ".join(["  mean", *(f"{space:>6}" for space in spaces)]))
    for name in found[0].tau:
        means = [np.mean([one.tau[name] for one in found])]
        for space in spaces:
            means.append(np.mean([one.tau[name] for one in found if one.space == space]))
        print("  ".join(f"{mean:.4f}" for mean in means), "", name)
    gains = [one.tau[WHOLE] - one.tau[UNQUANTISED] for one in found]
    print(f"quantised terms: {min(gains):+.4f} to {max(gains):+.4f} a task", end=", ")
    print(f"better in {sum(g > 0 for g in gains)}, worse in {sum(g < 0 for g in gains)}")


def sensitivity(path: str) -> None:
    """Print the mean tau with each constant of the model halved and doubled."""
    store = Store.open(path)
    for name in CONSTANTS:
        homes = [module for module in (gpu, kernels) if hasattr(module, name)]
        value = getattr(homes[0], name)
        scores = []
        for factor in FACTORS:
            for module in homes:
                setattr(module, name, value * factor)
            gpu.estimate.cache_clear()
            scores.append(np.mean([one.tau[WHOLE] for one in agreements(store)]))
        for module in homes:
            setattr(module, name, value)
        print(f"{name:16} x {FACTORS}: " + "  ".join(f"{score:.4f}" for score in scores))


def row(one: Agreement) -> dict[str, object]:
    """One task as it stands in the table."""
    ratios = " ".join(f"{d}:{ratio:.2f}" for d, ratio in one.ratio.items())
    taus = {name: f"{tau:.3f}" for name, tau in one.tau.items()}
    sizes = {"device": one.device, "space": one.space, "architectures": one.architectures}
    return {**sizes, **taus, "predicted over recorded": ratios}


if __name__ == "__main__":
    sensitivity(sys.argv[1]) if "--sensitivity" in sys.argv else main(sys.argv[1])
