"""The profiling campaign: which architectures to measure, in what order, and when to stop."""

from typing import TYPE_CHECKING, Any

from hwbench.campaign.plan import Item, Plan, make_plan

if TYPE_CHECKING:
    from hwbench.campaign.run import Campaign, Summary, run_campaign

__all__ = ["Campaign", "Item", "Plan", "Summary", "make_plan", "run_campaign"]


def __getattr__(name: str) -> Any:
    """Import what writes stores when it is first used: a plan needs no PyArrow."""
    if name in ("Campaign", "Summary", "run_campaign"):
        from hwbench.campaign import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
