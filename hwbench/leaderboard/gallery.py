"""The pictures that stand on the page of a leaderboard."""

from __future__ import annotations

from hwbench.leaderboard.build import Leaderboard
from hwbench.leaderboard.page import to_html
from hwbench.leaderboard.pictures import picture, svg


def page(board: Leaderboard) -> str:
    """The HTML page of a leaderboard, pictures inside.

    Raises:
        MissingDependency: matplotlib is not installed.
    """
    captions = {
        "hypervolume": "Regret of hypervolume over evaluations: mean over tasks and seeds, and a "
        "95% band over seeds.",
        "attainment": "What a quarter, half and three quarters of the runs attained on one task.",
        "front": "A best known front: medians, and 90% intervals of a single measurement.",
        "reliability": "How often held-out single measurements lie in predicted intervals.",
        "devices": "How alike devices rank architectures by latency: Kendall's tau.",
    }
    drawn = {
        caption: svg(picture(kind, board.suite, lambda: board))
        for kind, caption in captions.items()
    }
    return to_html(board, drawn)
