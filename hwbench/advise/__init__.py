"""Advice on a model's shape, before it is trained: what the hardware likes, with the evidence."""

from hwbench.advise.architecture import ArchitectureAdvice, LayerRow, advise_architecture, explain
from hwbench.advise.huggingface import KINDS, sizes_of_config
from hwbench.advise.propose import TOLERANCE, Proposal, proposals
from hwbench.advise.shape import ShapeAdvice, advise

__all__ = [
    "KINDS",
    "TOLERANCE",
    "ArchitectureAdvice",
    "LayerRow",
    "Proposal",
    "ShapeAdvice",
    "advise",
    "advise_architecture",
    "explain",
    "proposals",
    "sizes_of_config",
]
