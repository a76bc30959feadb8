"""What an architecture costs by arithmetic alone: exact closed forms, without torch."""

from hwbench.cost.blocks import CONFIGS, BlockConfig, block_config
from hwbench.cost.closed_form import (
    DTYPE_BYTES,
    Count,
    CountTable,
    count,
    count_table,
    weight_bytes,
)

__all__ = [
    "CONFIGS",
    "DTYPE_BYTES",
    "BlockConfig",
    "Count",
    "CountTable",
    "block_config",
    "count",
    "count_table",
    "weight_bytes",
]
