"""The two blocks as the few facts in which they differ, so that one formula serves both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hwbench.errors import invalid, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockConfig:
    """A transformer block, and the model around it, as far as costs depend on it.

    Common to all: attention of inner width head_size x heads with one query-key-value and one
    output projection, an MLP of inner width mlp_ratio x embed_dim, two LayerNorms a layer and one
    after the last, a head without bias over the vocabulary.

    Attributes:
        name: The block's name in a workload.
        vocabulary: Rows of the token embedding.
        positions: Rows of the learned position embedding; 0 for rotary positions, which have no
            parameters.
        tied: Whether the head shares the token embedding's matrix.
        mlp_up: Matrices from embed_dim to the MLP's inner width: 1, or 2 in a gated MLP. One more
            leads back.
        norm_bias: Whether LayerNorms have biases even where the architecture's `bias` is False.
    """

    name: str
    vocabulary: int
    positions: int
    tied: bool
    mlp_up: int
    norm_bias: bool


_ALL = (
    BlockConfig(
        name="gpt2", vocabulary=50257, positions=1024, tied=True, mlp_up=1, norm_bias=False
    ),
    BlockConfig(name="hwgpt", vocabulary=50254, positions=0, tied=False, mlp_up=2, norm_bias=True),
)

CONFIGS: Mapping[str, BlockConfig] = MappingProxyType({c.name: c for c in _ALL})
"""The blocks by the names of `hwbench.workload.BLOCKS`."""


def block_config(name: str) -> BlockConfig:
    """The block of that name.

    Raises:
        InvalidValue: The name is no text.
        UnknownName: No block bears the name.

    >>> block_config("gpt2").vocabulary
    50257
    """
    if not isinstance(name, str):
        raise invalid("block", "block_config", "a str", name)
    found = CONFIGS.get(name)
    if found is None:
        raise unknown("block", name, CONFIGS)
    return found
