"""The record store: what was measured, every raw repeat with how it was taken."""

from hwbench.records.observations import Observations, Repeats
from hwbench.records.recorded import RecordedArchitectures
from hwbench.records.split import digest, split
from hwbench.records.store import Store

__all__ = ["Observations", "RecordedArchitectures", "Repeats", "Store", "digest", "split"]
