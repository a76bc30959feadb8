"""Architectures and the search spaces they come from."""

from hwbench.architectures.architecture import Architecture
from hwbench.architectures.space import SearchSpace, generator, space, spaces
from hwbench.architectures.table import ArchitectureTable

__all__ = ["Architecture", "ArchitectureTable", "SearchSpace", "generator", "space", "spaces"]
