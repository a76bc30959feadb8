"""Importing other benchmarks' observations as a record store."""

from hwbench.records.importing.hwgptbench import import_hwgptbench
from hwbench.records.importing.report import ImportReport, LeftOut
from hwbench.records.importing.unpickle import InvalidPickle, load

__all__ = ["ImportReport", "InvalidPickle", "LeftOut", "import_hwgptbench", "load"]
