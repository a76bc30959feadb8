"""Reliability: how often single measurements fall below each quantile, in numbers and a picture."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwbench.encode import Features
from hwbench.errors import MissingDependency
from hwbench.records import Store
from hwbench.surrogate.artifact import Card, load, write_file
from hwbench.surrogate.fit_all import held_out

LEVELS: NDArray[np.float64] = np.round(np.arange(0.05, 0.96, 0.05), 2)
"""The quantile levels that are looked at."""


def reliability(store: Store, card: Card) -> list[dict[str, Any]]:
    """The share of held-out single measurements below each quantile; at best equal to its level.

    Args:
        store: The store that the artefact was fitted on.
        card: The artefact's card.

    Returns:
        Rows with device, space, metric, level and below, a share; architectures weigh the same.

    Raises:
        InvalidStore: The store has no observations of the artefact.
    """
    measured, labels = held_out(store, card)
    test = measured.take(labels == "test")
    quantiles = load(card).quantiles(Features(test.table), LEVELS)
    below = (test.values[:, :, None] <= quantiles[:, None, :]).mean(axis=(0, 1))
    head = {"device": card.device, "space": card.search_space.name, "metric": card.metric}
    return [
        {**head, "level": float(q), "below": float(b)} for q, b in zip(LEVELS, below, strict=True)
    ]


def plot(rows: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    """Draw reliability rows, a line for each space and metric, as PNG and SVG.

    Args:
        rows: From `reliability`, of one device.
        title: The picture's title.
        path: Where to write, without a suffix.

    Raises:
        MissingDependency: matplotlib is not installed.
        OSError: The folder cannot be written.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("Pictures need matplotlib: pip install 'hwbench[plot]'.") from None
    figure = Figure(figsize=(4.2, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="perfect")
    # Okabe and Ito's palette can be told apart with any kind of colour vision.
    colours = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
    keys = list(dict.fromkeys((r["metric"], r["space"]) for r in rows))
    for i, (metric, space) in enumerate(keys):
        own = [r for r in rows if (r["metric"], r["space"]) == (metric, space)]
        axes.plot(
            [r["level"] for r in own],
            [r["below"] for r in own],
            color=colours[i % len(colours)],
            marker="os^Dv"[i % 5],
            markersize=3,
            linewidth=1,
            label=f"{metric}, {space}",
        )
    axes.set(
        xlabel="level of the predicted quantile",
        ylabel="share of single measurements below it",
        title=title,
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
    )
    axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "hwbench"}):
        for form, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 150})):
            content = io.BytesIO()
            figure.savefig(content, format=form, **options)
            write_file(path.with_name(f"{path.name}.{form}"), content.getvalue())
