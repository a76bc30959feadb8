"""Leaderboards: suites, their runs and tables, pictures, checking and submission."""

from hwbench.leaderboard.suite import Part, Suite, read_suite

__all__ = ["Part", "Suite", "read_suite"]
