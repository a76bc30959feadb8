"""Which part of the supernet a subnetwork is: widths and layers, each by a named strategy.

Of every width a subnetwork takes the first: channels, heads of a layer, neurons of a layer. The
width strategy is therefore an order of the parent's weights:

    prefix       the order that the parent has (HW-GPT-Bench's choice)
    importance   channels, heads and neurons sorted once, by how large their activations are on
                 some text, so that the first are the most active; the parent's function stays

The layer strategy says which of the parent's layers a subnetwork of fewer takes:

    prefix       the first (HW-GPT-Bench's choice)
    strided      spread evenly, the first and the last among them
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hwbench.errors import InvalidValue, unknown
from hwbench.model import Attention, Block, Mlp, Model, ModelConfig

WIDTHS = ("prefix", "importance")
"""The names of the width strategies."""

LAYERS = ("prefix", "strided")
"""The names of the layer strategies."""


def layers_of(strategy: str, n: int, total: int) -> tuple[int, ...]:
    """The parent's layers that a subnetwork of `n` layers takes.

    Args:
        strategy: One of `LAYERS`.
        n: Layers of the subnetwork, 1 to `total`.
        total: Layers of the parent.

    Raises:
        UnknownName: No such strategy.

    >>> layers_of("prefix", 3, 6), layers_of("strided", 3, 6), layers_of("strided", 1, 6)
    ((0, 1, 2), (0, 3, 5), (0,))
    """
    if strategy not in LAYERS:
        raise unknown("layer strategy", strategy, LAYERS)
    if strategy == "prefix" or n == 1:
        return tuple(range(n))
    # Rounded to the nearest, in ints, so that every machine rounds alike.
    return tuple((2 * i * (total - 1) + n - 1) // (2 * (n - 1)) for i in range(n))


def sliced_weights(parent: Model, layers: Iterable[int], config: ModelConfig) -> dict[str, Tensor]:
    """The weights of a subnetwork, as views of the parent's wherever a view will do.

    Only the queries, keys and values of a layer with fewer heads are copied: three runs of rows.

    Args:
        parent: A dense gpt2 model.
        layers: The parent's layers to take, one for each of the subnetwork's.
        config: The subnetwork's sizes, none greater than the parent's.

    Returns:
        Tensors by the names of the subnetwork's parameters; gradients flow to the parent's.
    """
    C, A = config.embed_dim, config.head_size
    assert parent.positions is not None  # noqa: S101 - a gpt2 model has positions
    weights = {
        "tokens.weight": parent.tokens.weight[:, :C],  # (V, C)
        "positions.weight": parent.positions.weight[:, :C],  # (context, C)
        **_norm("norm", parent.norm, config),
    }
    for i, layer in enumerate(layers):
        block: Any = parent.blocks[layer]
        inner, neurons = config.n_head[i] * A, config.mlp_ratio[i] * C
        at = f"blocks.{i}."
        weights |= _norm(f"{at}norm_1", block.norm_1, config)
        weights |= _norm(f"{at}norm_2", block.norm_2, config)
        qkv = block.attention.qkv
        thirds = qkv.weight.unflatten(0, (3, -1))  # (3, all heads x A, all C)
        weights[f"{at}attention.qkv.weight"] = thirds[:, :inner, :C].flatten(0, 1)  # (3 H A, C)
        weights[f"{at}attention.out.weight"] = block.attention.out.weight[:C, :inner]
        weights[f"{at}mlp.up.weight"] = block.mlp.up.weight[:neurons, :C]
        weights[f"{at}mlp.down.weight"] = block.mlp.down.weight[:C, :neurons]
        if config.bias:
            biases = qkv.bias.unflatten(0, (3, -1))  # (3, all heads x A)
            weights[f"{at}attention.qkv.bias"] = biases[:, :inner].flatten()
            weights[f"{at}attention.out.bias"] = block.attention.out.bias[:C]
            weights[f"{at}mlp.up.bias"] = block.mlp.up.bias[:neurons]
            weights[f"{at}mlp.down.bias"] = block.mlp.down.bias[:C]
    return weights


def _norm(name: str, norm: Any, config: ModelConfig) -> dict[str, Tensor]:
    weights = {f"{name}.weight": norm.weight[: config.embed_dim]}
    if config.bias:
        weights[f"{name}.bias"] = norm.bias[: config.embed_dim]
    return weights


@torch.no_grad()
def sort_by_importance(model: Model, batches: Iterable[Tensor]) -> None:
    """Sort channels, heads and neurons by their activations, the most active first.

    A channel's importance is the mean magnitude of what the norms give it, summed over the norms; a
    head's, of what it gives to the output projection; a neuron's, of what it gives to the matrix
    after it (as in arXiv 2407.14679). The model's function stays the same: whatever leads to a
    sorted place is sorted with it.

    Args:
        model: A dense gpt2 model, changed in place.
        batches: Token indices, each (B, T), at least one.

    Raises:
        InvalidValue: There is no batch.
    """
    with _collected(model) as activity:
        for tokens in batches:
            model(tokens)
        if not activity:
            raise InvalidValue("Sorting by importance needs at least one batch of tokens.")
        channels = sum(v for k, v in activity.items() if isinstance(k, nn.LayerNorm))
    assert isinstance(channels, Tensor)  # noqa: S101 - every model has norms
    _permute_channels(model, _descending(channels))
    size = model.config.head_size
    for block in model.blocks:
        assert isinstance(block, Block)  # noqa: S101
        heads = activity[block.attention.out].unflatten(0, (-1, size)).sum(1)  # (H,)
        _permute_heads(block.attention, _descending(heads), size)
        _permute_neurons(block.mlp, _descending(activity[block.mlp.down]))


@contextmanager
def _collected(model: Model) -> Any:
    """Sums of magnitudes over tokens while the model runs: (width,) for norms and projections."""
    activity: dict[nn.Module, Tensor] = {}

    def add(module: nn.Module, x: Tensor) -> None:
        found = x.abs().double().flatten(0, -2).sum(0)
        activity[module] = activity[module] + found if module in activity else found

    hooks = []
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            hooks.append(module.register_forward_hook(lambda m, _, y: add(m, y)))
        elif isinstance(module, Attention | Mlp):
            into = module.out if isinstance(module, Attention) else module.down
            hooks.append(into.register_forward_pre_hook(lambda m, x: add(m, x[0])))
    try:
        yield activity
    finally:
        for hook in hooks:
            hook.remove()


def _descending(activity: Tensor) -> Tensor:
    return activity.argsort(descending=True, stable=True)


def _permute_channels(model: Model, order: Tensor) -> None:
    """Renumber the channels of the residual stream."""
    for name, p in model.named_parameters():
        # What writes a channel has it as its rows, what reads or holds it as its columns.
        writes = name.endswith(("out.weight", "down.weight", "out.bias", "down.bias"))
        if writes or "norm" in name:
            p.copy_(p[order])
        elif name.endswith(("qkv.weight", "up.weight", "tokens.weight", "positions.weight")):
            p.copy_(p[:, order])


def _permute_heads(attention: Attention, order: Tensor, size: int) -> None:
    """Renumber the heads of a layer."""
    rows = (order[:, None] * size + torch.arange(size, device=order.device)).flatten()  # (H A,)
    thirds = torch.cat([rows + i * len(rows) for i in range(3)])  # (3 H A,)
    attention.qkv.weight.copy_(attention.qkv.weight[thirds])
    attention.qkv.bias.copy_(attention.qkv.bias[thirds])
    attention.out.weight.copy_(attention.out.weight[:, rows])


def _permute_neurons(mlp: Mlp, order: Tensor) -> None:
    """Renumber the neurons of a layer."""
    mlp.up.weight.copy_(mlp.up.weight[order])
    mlp.up.bias.copy_(mlp.up.bias[order])
    mlp.down.weight.copy_(mlp.down.weight[:, order])
