"""Closed forms of parameters, MACs and FLOPs, exact, for one architecture or a table of them.

Every form is written once, for Python ints and for int64 arrays alike. With d = embed_dim,
a = head_size, L = layers, H = heads and R = MLP ratios summed over the layers, and u the matrices
that lead into the MLP (1 in gpt2, 2 in the gated MLP of hwgpt):

    weights of the layers = 4 a d H + (u + 1) d^2 R
    their biases          = 3 a H + u d R + 2 d L              where the architecture has biases
    norms                 = (2 L + 1) d, and as many biases
    MACs a token          = weights of the layers + vocabulary x d

For hwgpt these reproduce every parameter and MAC count that HW-GPT-Bench recorded; for gpt2 with
GPT-2's own sizes, the parameter counts of Hugging Face's models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace
from hwbench.cost.blocks import BlockConfig, block_config
from hwbench.errors import InvalidArchitecture, InvalidValue, brief, invalid, unknown

N = TypeVar("N", int, NDArray[np.int64])

DTYPE_BYTES: Mapping[str, int] = MappingProxyType(
    {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}
)
"""Bytes of one number of each type that weights are held in."""


@dataclass(frozen=True, slots=True)
class Count:
    """What one forward of one architecture takes, in exact ints.

    Two conventions stand side by side: `flops` counts the matrix products with weights only, as
    HW-GPT-Bench does; `total_flops` adds attention's own products. Neither counts norms,
    activations, softmax, rotations, biases or the look-up of embeddings.

    Attributes:
        params: Parameters; a matrix that head and embedding share counts once.
        macs: Multiply-accumulates of the matrix products with weights, the head's included, for
            all tokens.
        flops: 2 x macs.
        attention_flops: The products of queries with keys and of weights with values, 2 FLOPs a
            multiply-accumulate, over the full s x s square of a sequence of s tokens (nothing is
            saved by the causal mask).
        total_flops: flops + attention_flops.
        tokens: Tokens of the forward.
        block: "hwgpt" or "gpt2".
    """

    params: int
    macs: int
    flops: int
    attention_flops: int
    total_flops: int
    tokens: int
    block: str


@dataclass(frozen=True, slots=True, eq=False)
class CountTable:
    """What one forward of each architecture of a table takes: `Count`, column by column.

    Attributes:
        params: As in `Count`, int64, shape (n,).
        macs: As in `Count`, int64, shape (n,).
        flops: As in `Count`, int64, shape (n,).
        attention_flops: As in `Count`, int64, shape (n,).
        total_flops: As in `Count`, int64, shape (n,).
        tokens: Tokens of the forward, the same for all.
        block: "hwgpt" or "gpt2".
    """

    params: NDArray[np.int64]
    macs: NDArray[np.int64]
    flops: NDArray[np.int64]
    attention_flops: NDArray[np.int64]
    total_flops: NDArray[np.int64]
    tokens: int
    block: str


@dataclass(frozen=True, slots=True)
class _Sums(Generic[N]):
    """The sums over layers that every closed form is made of; `bias` is 0 or 1."""

    n_layer: N
    embed_dim: N
    heads: N
    ratios: N
    bias: N


def count(arch: Architecture, tokens: int | None = None, block: str = "hwgpt") -> Count:
    """Count parameters, MACs and FLOPs of one forward, exactly.

    Args:
        arch: The architecture.
        tokens: Tokens of the forward, an int >= 1; unless given, the space's `tokens` (8192, 4096,
            1024, 1024 for s, m, l, xl and their wide spaces). They are cut into sequences of the
            space's `seq_len`; what is left over makes one shorter sequence. Only
            `attention_flops` depends on the cut.
        block: "hwgpt", the block that HW-GPT-Bench recorded, or "gpt2", GPT-2's own with learned
            positions, a two-matrix MLP and tied embeddings.

    Returns:
        The counts.

    Raises:
        InvalidArchitecture: `arch` is no `Architecture`.
        InvalidValue: `tokens` is no int >= 1, or a sequence is longer than the block's learned
            positions.
        UnknownName: No block bears the name.

    >>> from hwbench.architectures import space
    >>> counted = count(space("s").largest)
    >>> counted.params, counted.macs, counted.flops == 2 * counted.macs
    (190594560, 1243883765760, True)
    """
    if not isinstance(arch, Architecture):
        raise InvalidArchitecture(
            f"The 'arch' parameter of count must be an Architecture. Got {brief(arch)} instead."
        )
    config = block_config(block)
    tokens = _tokens(tokens, "count", config, arch.search_space)
    sums = _Sums(
        arch.n_layer, arch.embed_dim, sum(arch.n_head), sum(arch.mlp_ratio), int(arch.bias)
    )
    return Count(*_forms(config, sums, tokens, arch.search_space), tokens, config.name)


def count_table(
    table: ArchitectureTable, tokens: int | None = None, block: str = "hwgpt"
) -> CountTable:
    """Count parameters, MACs and FLOPs of one forward of each architecture of a table, exactly.

    Args:
        table: The architectures.
        tokens: As in `count`, the same for all.
        block: As in `count`.

    Returns:
        The counts as int64 columns, equal to what `count` gives for each row.

    Raises:
        InvalidValue: `table` is no `ArchitectureTable`, `tokens` is refused as in `count`, or a
            count does not fit 64 bits.
        UnknownName: No block bears the name.

    >>> from hwbench.architectures import ArchitectureTable, space
    >>> count_table(ArchitectureTable.of(space("s").sample(2, seed=0))).params.shape
    (2,)
    """
    if not isinstance(table, ArchitectureTable):
        raise invalid("table", "count_table", "an ArchitectureTable", table)
    config, space = block_config(block), table.search_space
    tokens = _tokens(tokens, "count_table", config, space)
    columns = (table.n_layer, table.embed_dim, table.heads, table.ratios, table.bias)
    # Every form grows with every column: if the columns' maxima together fit, each row does.
    bound = _forms(config, _Sums(*(int(c.max(initial=1)) for c in columns)), tokens, space)
    if max(bound) > np.iinfo(np.int64).max:
        raise InvalidValue(
            f"The counts of count_table must fit 64 bits. Got up to {brief(max(bound))} for "
            f"{brief(tokens)} tokens; count has no such limit."
        )
    sums = _Sums(*(c.astype(np.int64) for c in columns))
    return CountTable(*_forms(config, sums, tokens, space), tokens, config.name)


def weight_bytes(params: N, dtype: str) -> N:
    """Bytes that the weights take when all are held in one type.

    Args:
        params: Numbers of parameters, an int or an array.
        dtype: A name from `DTYPE_BYTES`.

    Returns:
        params x bytes of the type.

    Raises:
        UnknownName: No type bears the name.

    >>> weight_bytes(124_439_808, "float16")
    248879616
    """
    named: object = dtype
    size = DTYPE_BYTES.get(dtype) if isinstance(named, str) else None
    if size is None:
        raise unknown("dtype", dtype, DTYPE_BYTES)
    return params * size


def _forms(
    config: BlockConfig, sums: _Sums[N], tokens: int, space: SearchSpace
) -> tuple[N, N, N, N, N]:
    """The first five fields of a count, in their order."""
    d, a = sums.embed_dim, space.head_size
    weights = 4 * a * d * sums.heads + (config.mlp_up + 1) * d * d * sums.ratios
    biases = 3 * a * sums.heads + config.mlp_up * d * sums.ratios + 2 * d * sums.n_layer
    norms = (2 * sums.n_layer + 1) * d
    rows = config.vocabulary * (1 if config.tied else 2) + config.positions
    norm_biases = norms if config.norm_bias else sums.bias * norms
    macs = tokens * (weights + config.vocabulary * d)
    # Sum of the squared lengths of the sequences; each head multiplies twice, QK' and AV.
    squares = tokens // space.seq_len * space.seq_len**2 + (tokens % space.seq_len) ** 2
    attention = 2 * 2 * a * sums.heads * squares
    params = weights + sums.bias * biases + norms + norm_biases + rows * d
    return params, macs, 2 * macs, attention, 2 * macs + attention


def _tokens(given: object, function: str, config: BlockConfig, space: SearchSpace) -> int:
    if given is None:
        given = space.tokens
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise invalid("tokens", function, "an int >= 1", given)
    tokens = int(given)
    longest = min(tokens, space.seq_len)
    if config.positions and longest > config.positions:
        raise InvalidValue(
            f"A sequence of block {config.name} must have at most {config.positions} tokens. "
            f"Got {longest} from tokens and the seq_len of space {space.name}."
        )
    return tokens
