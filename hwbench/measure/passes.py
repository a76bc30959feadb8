"""The pass that is measured: a dense model of one architecture and what is done with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn import functional

from hwbench.architectures import Architecture
from hwbench.measure.setup import DTYPES, Setup
from hwbench.model import Cache, Model, ModelConfig

Pass = Callable[[], object]
_POOL = 1 << 20

Casting = Callable[[], AbstractContextManager[Any]]


def make_pass(arch: Architecture, setup: Setup) -> Pass:
    """Build the dense model of an architecture and the pass over it.

    Args:
        arch: The architecture.
        setup: What a pass is.

    Returns:
        A function that runs one pass; on CUDA it does not wait for the device.
    """
    device = torch.device(setup.device)
    weights, compute, autocast = DTYPES[setup.dtype]
    config = ModelConfig.of(
        arch, setup.block, context=None if setup.block == "gpt2" else setup.context
    )
    with torch.device("meta"):
        model = Model(config)
    model = model.to(getattr(torch, weights)).to_empty(device=device)
    generator = torch.Generator().manual_seed(setup.seed)
    _fill(model, generator)
    shape = (setup.batch_size, setup.seq_len + 1)
    tokens = torch.randint(config.vocabulary, shape, generator=generator).to(device)  # (B, T + 1)

    def casting() -> AbstractContextManager[Any]:
        if not autocast:
            return nullcontext()
        return torch.autocast(device.type, getattr(torch, compute))

    made = {"forward": _forward, "decode": _decode, "train": _train}[setup.phase]
    return made(model, tokens, setup, casting)


@torch.no_grad()
def _fill(model: Model, generator: torch.Generator) -> None:
    """Fill the weights from one pool of draws over and over: a tenth of the time of drawing all.

    Random they must be: what a device draws depends on how many bits change from product to
    product.
    """
    pool = torch.empty(_POOL).normal_(0.0, 0.02, generator=generator)
    first = next(model.parameters())
    pool = pool.to(device=first.device, dtype=first.dtype)
    for name, p in model.named_parameters():
        if p.dim() == 1:
            p.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
            continue
        flat = p.view(-1)
        whole = len(flat) // _POOL * _POOL
        flat[:whole].view(-1, _POOL).copy_(pool)
        flat[whole:].copy_(pool[: len(flat) - whole])


def _forward(model: Model, tokens: torch.Tensor, setup: Setup, casting: Casting) -> Pass:
    model.eval()
    prompt = tokens[:, :-1]  # (B, T)

    def run() -> object:
        with torch.inference_mode(), casting():
            return model(prompt)

    return run


def _decode(model: Model, tokens: torch.Tensor, setup: Setup, casting: Casting) -> Pass:
    model.eval()
    prompt, token = tokens[:, :-1], tokens[:, -1:]  # (B, T), (B, 1)
    compute = DTYPES[setup.dtype][1]
    cache = Cache(model.config, setup.batch_size, tokens.device, getattr(torch, compute))
    with torch.inference_mode(), casting():
        model(prompt, cache)

    def run() -> object:
        cache.length = setup.seq_len  # forget what the last pass generated
        logits = None
        with torch.inference_mode(), casting():
            for _ in range(setup.new_tokens):
                logits = model(token, cache)
        return logits

    return run


def _train(model: Model, tokens: torch.Tensor, setup: Setup, casting: Casting) -> Pass:
    model.train()
    prompt, targets = tokens[:, :-1], tokens[:, 1:]  # (B, T), (B, T)

    def run() -> object:
        with casting():
            logits = model(prompt)  # (B, T, V)
            loss = functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        model.zero_grad(set_to_none=True)
        return loss

    return run
