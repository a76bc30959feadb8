"""Small parents, in GPT-2's own shape, as Hugging Face writes them; and a dense computation."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from transformers import GPT2Config, GPT2LMHeadModel

from hwbench.architectures import Architecture, SearchSpace, space
from hwbench.supernet import Supernet, Tokeniser

VOCABULARY, CONTEXT = 300, 24

TINY = SearchSpace(
    "tiny", (16, 24, 32), (1, 2, 3), (1, 2, 4), (2, 3, 4), (True, False), head_size=8, seq_len=24
)

WORDS = ("the", "cat", "sat", "on", "a", "green", "mat", "while", "two", "dogs", "ran", "uphill")


def shrunk(name: str) -> SearchSpace:
    """A space with its real choices of layers, heads and ratios, at a sixteenth of its widths."""
    real = space(name)
    widths = tuple(d // 16 for d in real.embed_dim)
    return replace(real, name=f"{name}-small", embed_dim=widths, head_size=4, seq_len=CONTEXT)


def hugging_face(owner: SearchSpace, seed: int = 0, std: float = 0.1, **config: Any) -> Any:
    """A GPT-2 of a space's largest shape, every parameter drawn: norms and biases too."""
    values: dict[str, Any] = {
        "n_embd": max(owner.embed_dim),
        "n_layer": max(owner.n_layer),
        "n_head": max(owner.n_head),
        "n_inner": max(owner.mlp_ratio) * max(owner.embed_dim),
        "vocab_size": VOCABULARY,
        "n_positions": CONTEXT,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    made = GPT2LMHeadModel(GPT2Config(**{**values, **config})).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(1.0 if p.dim() == 1 else 0.0, std, generator=generator)
    return made


def text(words: int = 2000, seed: int = 0) -> str:
    """Some text without a meaning."""
    drawn = np.random.default_rng(seed).choice(WORDS, words)
    return " ".join(drawn.tolist()) + "\n"


def write_checkpoint(folder: Path, owner: SearchSpace = TINY, **saved: Any) -> Path:
    """A checkpoint as `save_pretrained` writes it, with a tokeniser."""
    hugging_face(owner).save_pretrained(folder, **saved)
    made = Tokeniser.trained(iter([text()]), VOCABULARY)
    (folder / "tokenizer.json").write_text(made.to_text(), "utf-8")
    return folder


def tokens(*shape: int, seed: int = 0) -> Tensor:
    """Drawn token indices."""
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def dense_logits(
    state: dict[str, Tensor], arch: Architecture, size: int, layers: tuple[int, ...], given: Tensor
) -> Tensor:
    """What a subnetwork computes, written out from a checkpoint's own weights, head by head.

    Args:
        state: Hugging Face's names and layout.
        arch: The subnetwork.
        size: Width of a head.
        layers: The checkpoint's layers that it takes.
        given: Token indices, (B, T).
    """
    w = {k.removeprefix("transformer."): v for k, v in state.items()}
    C, full = arch.embed_dim, w["wte.weight"].shape[1]
    T = given.shape[1]

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5)
        shift = w[f"{name}.bias"][:C] if arch.bias else 0.0
        return scaled * w[f"{name}.weight"][:C] + shift

    x = w["wte.weight"][given][..., :C] + w["wpe.weight"][:T, :C]
    for i, layer in enumerate(layers):
        at = f"h.{layer}"
        normed, added = norm(x, f"{at}.ln_1"), torch.zeros_like(x)
        for head in range(arch.n_head[i]):
            parts = []
            for third in range(3):
                columns = slice(third * full + head * size, third * full + (head + 1) * size)
                part = normed @ w[f"{at}.attn.c_attn.weight"][:C, columns]
                parts.append(part + (w[f"{at}.attn.c_attn.bias"][columns] if arch.bias else 0.0))
            q, k, v = parts
            scores = q @ k.transpose(1, 2) / math.sqrt(size)
            scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -math.inf)
            rows = slice(head * size, (head + 1) * size)
            added = added + scores.softmax(-1) @ v @ w[f"{at}.attn.c_proj.weight"][rows, :C]
        x = x + added + (w[f"{at}.attn.c_proj.bias"][:C] if arch.bias else 0.0)
        n = arch.mlp_ratio[i] * C
        up = norm(x, f"{at}.ln_2") @ w[f"{at}.mlp.c_fc.weight"][:C, :n]
        up = F.gelu(up + (w[f"{at}.mlp.c_fc.bias"][:n] if arch.bias else 0.0), approximate="tanh")
        down = up @ w[f"{at}.mlp.c_proj.weight"][:n, :C]
        x = x + down + (w[f"{at}.mlp.c_proj.bias"][:C] if arch.bias else 0.0)
    return norm(x, "ln_f") @ w["wte.weight"][:, :C].T


def tiny_supernet(folder: Path, **inherited: Any) -> Supernet:
    """A supernet of the space `TINY`."""
    return Supernet.from_pretrained(write_checkpoint(folder), TINY, **inherited)
