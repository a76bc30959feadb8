"""Shipped artefacts beside two simple references, on the same held-out architectures.

    python bench/references.py --store STORE [--artifacts DIR] [--workers 2] [--out FILE.csv]

For latency and energy on the 13 published devices it prints the ratio of the artefact's score to a
reference's, task by task, and their geometric means:

* MAPE of the median against an additive layer-cost table plus a small booster (60 trees of depth 4
  on the counts, absolute error), fitted on all that is not held out;
* CRPS against quantile boosting at five levels (40 trees of depth 3 a level) on the residual of the
  same table, linear on the normal-score axis, recalibrated by the pooled probability integral
  transform of the calibration architectures.
"""
# ruff: noqa: T201 PD011

from __future__ import annotations

import argparse
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import xgboost
from scipy.stats import norm

from hwbench.devices import published
from hwbench.encode import Features, encoder
from hwbench.records import Store, split
from hwbench.surrogate import Catalogue, shipped
from hwbench.surrogate.base import fit_layer_cost
from hwbench.surrogate.fit import Measurements
from hwbench.surrogate.fit_all import Task, observations_of, rescore, tasks
from hwbench.surrogate.scores import pinball_losses

LEVELS = np.arange(1, 100) / 100
KNOTS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
FIXED = {"tree_method": "hist", "nthread": 1, "seed": 0, "learning_rate": 0.1}


def additive_and_booster(measured: Measurements, held: np.ndarray) -> float:
    """MAPE, in percent, of the additive table plus a small booster."""
    features = encoder("layer-counts").encode(measured.table)
    base = fit_layer_cost(measured.table.take(~held), measured.medians[~held])
    line = base.location(Features(measured.table))
    target = np.log(measured.medians) - line
    model = xgboost.train(
        {**FIXED, "objective": "reg:absoluteerror", "max_depth": 4, "base_score": 0.0},
        xgboost.DMatrix(features[~held], target[~held]),
        60,
    )
    predicted = np.exp(line[held] + model.predict(xgboost.DMatrix(features[held])))
    return 100 * float(np.mean(np.abs(predicted / measured.medians[held] - 1)))


def five_level_boosting(measured: Measurements, labels: np.ndarray) -> float:
    """CRPS, in percent of the median, of five-level quantile boosting with one calibration."""
    train, calibrate, held = (labels == name for name in ("train", "calibrate", "test"))
    features = encoder("layer-counts").encode(measured.table)
    base = fit_layer_cost(measured.table.take(train), measured.medians[train])
    line = base.location(Features(measured.table))
    residuals = np.log(measured.values) - line[:, None]
    repeats = min(8, residuals.shape[1])
    data = xgboost.DMatrix(
        np.repeat(features[train], repeats, axis=0), residuals[train][:, :repeats].ravel()
    )
    model = xgboost.train(
        {**FIXED, "objective": "reg:quantileerror", "quantile_alpha": KNOTS, "max_depth": 3},
        data,
        40,
    )
    knots = np.sort(model.predict(xgboost.DMatrix(features)), axis=1)
    scores = norm.ppf(KNOTS)
    seen = np.sort(_scores(knots[calibrate], scores, residuals[calibrate]).ravel())
    asked = np.quantile(seen, LEVELS)
    at = np.clip(np.searchsorted(scores, asked) - 1, 0, len(scores) - 2)
    share = (asked - scores[at]) / np.diff(scores)[at]
    own = knots[held]
    grid = np.exp(line[held, None] + own[:, at] + (own[:, at + 1] - own[:, at]) * share)
    loss = pinball_losses(grid, LEVELS, measured.values[held])
    return 200 * float(np.mean(loss / measured.medians[held]))


def _scores(knots: np.ndarray, scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Normal scores of values, linear between knots and beyond them."""
    at = np.clip((knots[:, None, :] < values[:, :, None]).sum(axis=2) - 1, 0, len(scores) - 2)
    low = np.take_along_axis(knots, at, axis=1)
    gap = np.maximum(np.take_along_axis(knots, at + 1, axis=1) - low, 1e-9)
    return np.clip(scores[at] + (values - low) / gap * np.diff(scores)[at], -60, 60)


def compare(store_path: Path, artifacts: Path, task: Task) -> dict[str, object]:
    """One row: the artefact's scores, the references' and the ratios."""
    store = Store.open(store_path)
    card = Catalogue.of(artifacts).card(task.space, task.device, task.metric)
    assert card is not None, task
    measured = Measurements.of(observations_of(store, task))
    labels = split(measured.table)
    own = rescore(store, card)
    reference_mape = additive_and_booster(measured, labels == "test")
    reference_crps = five_level_boosting(measured, labels)
    gaps = [abs(own[f"coverage_{n}"] - n) for n in (50, 80, 90, 95)]
    return {
        "metric": task.metric,
        "space": task.space,
        "device": task.device,
        "mape": own["mape"],
        "reference_mape": reference_mape,
        "mape_ratio": own["mape"] / reference_mape,
        "crps": own["crps"],
        "reference_crps": reference_crps,
        "crps_ratio": own["crps"] / reference_crps,
        "coverage_gap_mean": float(np.mean(gaps)),
        "coverage_gap_max": max(gaps),
        "cells_90": " ".join(f"{v:.1f}" for v in own["coverage_90_by_width"].values()),
    }


def main() -> None:
    """Compare all tasks, print each row as it is done and the summary at the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--artifacts", type=Path, default=shipped())
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    chosen = tasks(Store.open(args.store), devices=list(published()), metrics=["latency", "energy"])
    work = (joblib.delayed(compare)(args.store, args.artifacts, t) for t in chosen)
    rows = []
    for row in joblib.Parallel(args.workers, return_as="generator")(work):
        rows.append(row)
        print(
            f"{row['metric']:8}{row['space']:2}{row['device']:16}"
            f" MAPE {row['mape']:7.3f} ({row['mape_ratio']:.3f})"
            f" CRPS {row['crps']:7.3f} ({row['crps_ratio']:.3f})"
            f" gap {row['coverage_gap_mean']:.2f} {row['coverage_gap_max']:.2f}"
            f" [{row['cells_90']}]",
            flush=True,
        )
    table = pd.DataFrame(rows)
    if args.out is not None:
        table.to_csv(args.out, index=False, float_format="%.6g")
    cells = np.array([float(c) for line in table["cells_90"] for c in line.split()])
    for metric, own in table.groupby("metric"):
        ratio = own["mape_ratio"]
        print(
            f"{metric}: MAPE ratio, geometric mean {np.exp(np.log(ratio).mean()):.4f}, "
            f"greatest {ratio.max():.3f}"
        )
    ratio = table["crps_ratio"]
    print(
        f"CRPS ratio, geometric mean {np.exp(np.log(ratio).mean()):.4f}, "
        f"greatest {ratio.max():.3f}\n"
        f"coverage gap, mean {table['coverage_gap_mean'].mean():.2f}, "
        f"greatest {table['coverage_gap_max'].max():.2f} points\n"
        f"90% inside a width: {(cells >= 85).sum()} of {len(cells)} cells at least 85%, "
        f"least {cells.min():.1f}%"
    )


if __name__ == "__main__":
    main()
