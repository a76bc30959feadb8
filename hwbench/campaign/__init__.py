"""The profiling campaign: which architectures to measure, in what order, and when to stop."""

from hwbench.campaign.plan import Item, Plan, make_plan
from hwbench.campaign.run import Campaign, Summary, run_campaign

__all__ = ["Campaign", "Item", "Plan", "Summary", "make_plan", "run_campaign"]
