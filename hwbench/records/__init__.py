"""The record store: what was measured, every raw repeat with how it was taken."""

from hwbench.records.describe import describe
from hwbench.records.observations import Observations, Repeats
from hwbench.records.readings import Condition, Readings
from hwbench.records.recorded import RecordedArchitectures
from hwbench.records.split import digest, split
from hwbench.records.store import Store
from hwbench.records.validate import Finding, Report, validate
from hwbench.records.write import StoreWriter

__all__ = [
    "Condition",
    "Finding",
    "Observations",
    "Readings",
    "RecordedArchitectures",
    "Repeats",
    "Report",
    "Store",
    "StoreWriter",
    "describe",
    "digest",
    "split",
    "validate",
]
