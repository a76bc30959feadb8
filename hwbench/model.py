"""The dense subnetwork in torch: both blocks, per-layer heads and MLP ratios, a cache for decoding.

`gpt2` is GPT-2's block: learned positions, sequential residual, a two-matrix GELU MLP, the head
tied to the token embedding. `hwgpt` is the block that HW-GPT-Bench recorded: rotary positions on a
quarter of each head, parallel residual, a gated MLP of three matrices, an untied head. Attention's
inner width is head_size x heads in both and need not be embed_dim.

Letters of the shape comments: B sequences, T new tokens, S tokens seen so far and new, C embed_dim,
H heads of a layer, A head_size, V vocabulary.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hwbench.architectures import Architecture
from hwbench.cost import block_config
from hwbench.errors import InvalidArtifact, InvalidValue, MissingDependency, invalid

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F  # noqa: N812
except ImportError:
    raise MissingDependency(
        "hwbench.model needs torch, which is not installed: pip install 'hwbench[torch]'."
    ) from None

_ROTARY_SHARE = 4
_ROTARY_BASE = 10_000.0
_INIT_STD = 0.02
_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_DAMAGE = (OSError, ValueError, TypeError, LookupError, RuntimeError)

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines of the rotary angles, each (T, rotated / 2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The sizes of a dense model.

    Attributes:
        block: "gpt2" or "hwgpt".
        embed_dim: Width of the residual stream.
        n_head: Attention heads, one entry a layer.
        mlp_ratio: Width of the MLP as a multiple of embed_dim, one entry a layer.
        bias: Whether linear layers have biases, and in gpt2 the norms.
        head_size: Width of a head.
        vocabulary: Rows of the token embedding.
        context: The longest sequence; in gpt2 the rows of the position embedding.

    Raises:
        InvalidValue: A size is no int >= 1, or the lists are not of one length.
        UnknownName: No such block.
    """

    block: str
    embed_dim: int
    n_head: tuple[int, ...]
    mlp_ratio: tuple[int, ...]
    bias: bool
    head_size: int = 64
    vocabulary: int
    context: int

    def __post_init__(self) -> None:
        """Check every size."""
        block_config(self.block)
        for name in ("embed_dim", "head_size", "vocabulary", "context", "n_head", "mlp_ratio"):
            value = getattr(self, name)
            listed = name in ("n_head", "mlp_ratio")
            sizes = (value or (0,)) if listed else (value,)
            if (
                isinstance(value, tuple) != listed
                or any(type(v) is not int for v in sizes)
                or min(sizes) < 1
            ):
                allowed = "a tuple of ints >= 1" if listed else "an int >= 1"
                raise invalid(name, "ModelConfig", allowed, value)
        if len(self.n_head) != len(self.mlp_ratio):
            allowed = f"of one entry a layer, {len(self.n_head)} as n_head has"
            raise invalid("mlp_ratio", "ModelConfig", allowed, self.mlp_ratio)

    @classmethod
    def of(
        cls,
        arch: Architecture,
        block: str = "hwgpt",
        *,
        vocabulary: int | None = None,
        context: int | None = None,
    ) -> ModelConfig:
        """The sizes of an architecture.

        Args:
            arch: The architecture.
            block: "gpt2" or "hwgpt".
            vocabulary: Rows of the token embedding; the block's own unless given.
            context: The longest sequence; the block's learned positions, or the space's `seq_len`
                where the block has none, unless given.
        """
        sizes = block_config(block)
        return cls(
            block=block,
            embed_dim=arch.embed_dim,
            n_head=arch.n_head,
            mlp_ratio=arch.mlp_ratio,
            bias=arch.bias,
            head_size=arch.search_space.head_size,
            vocabulary=vocabulary or sizes.vocabulary,
            context=context or sizes.positions or arch.search_space.seq_len,
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelConfig:
        """Read the dict form, lists for the tuples.

        Raises:
            InvalidValue: A field is missing, unknown or has a value that is not allowed.
        """
        known = {f.name for f in fields(cls)}
        if set(values) != known:
            allowed = f"made of {', '.join(sorted(known))}"
            raise invalid("values", "ModelConfig.from_dict", allowed, sorted(values))
        sizes: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        return cls(**sizes)

    def to_dict(self) -> dict[str, Any]:
        """All fields by name, ready for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


class Cache:
    """Keys and values of the tokens that a model has seen, one pair of buffers a layer.

    Attributes:
        length: How many tokens were seen.
        keys: One tensor a layer, (B, H, context, A).
        values: Likewise.
    """

    def __init__(
        self, config: ModelConfig, batch_size: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        """Make room for `config.context` tokens of `batch_size` sequences."""
        self.length = 0
        shapes = [(batch_size, h, config.context, config.head_size) for h in config.n_head]
        self.keys = [torch.zeros(s, device=device, dtype=dtype) for s in shapes]
        self.values = [torch.zeros(s, device=device, dtype=dtype) for s in shapes]

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write a layer's new keys and values; returns all of them up to the newest."""
        end = self.length + k.shape[2]
        self.keys[layer][:, :, self.length : end] = k  # (B, H, T, A)
        self.values[layer][:, :, self.length : end] = v
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]  # (B, H, S, A)


class _Linear(nn.Linear):
    """A linear layer whose weights the model draws, which knows what leads into the residual."""

    def reset_parameters(self) -> None:
        """Draw nothing."""


class _Embedding(nn.Embedding):
    """An embedding whose weights the model draws."""

    def reset_parameters(self) -> None:
        """Draw nothing."""


class Attention(nn.Module):
    """Causal self-attention of inner width head_size x heads."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        """Make the layer's two projections."""
        super().__init__()
        self.layer, self.heads, self.size = layer, config.n_head[layer], config.head_size
        inner = self.heads * self.size
        self.qkv = _Linear(config.embed_dim, 3 * inner, bias=config.bias)
        self.out = _Linear(inner, config.embed_dim, bias=config.bias)

    def forward(self, x: Tensor, rotation: Rotation | None, cache: Cache | None) -> Tensor:
        """Attend from each new token, (B, T, C), to itself and all before it."""
        B, T, _ = x.shape
        qkv = self.qkv(x).view(B, T, 3, self.heads, self.size)  # (B, T, 3, H, A)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # 3 x (B, H, T, A)
        if rotation is not None:
            q, k = _rotate(q, *rotation), _rotate(k, *rotation)
        mask, start = None, 0 if cache is None else cache.length
        if cache is not None:
            k, v = cache.extend(self.layer, k, v)  # (B, H, S, A)
            k, v = k.to(q.dtype), v.to(q.dtype)
        if start and T > 1:
            mask = torch.ones(T, start + T, dtype=torch.bool, device=x.device).tril(start)  # (T, S)
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=start == 0 and T > 1)
        y = y.transpose(1, 2).reshape(B, T, self.heads * self.size)  # (B, T, H A)
        projected: Tensor = self.out(y)  # (B, T, C)
        return projected


class Mlp(nn.Module):
    """GPT-2's two matrices around a GELU, or with `gate` three around a SiLU gate."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        """Make the layer's matrices."""
        super().__init__()
        C = config.embed_dim
        inner = config.mlp_ratio[layer] * C
        gated = block_config(config.block).mlp_up == 2
        self.gate = _Linear(C, inner, bias=config.bias) if gated else None
        self.up = _Linear(C, inner, bias=config.bias)
        self.down = _Linear(inner, C, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each token by itself, (B, T, C)."""
        y = self.up(x)  # (B, T, ratio C)
        y = F.gelu(y, approximate="tanh") if self.gate is None else F.silu(self.gate(x)) * y
        lowered: Tensor = self.down(y)  # (B, T, C)
        return lowered


class Block(nn.Module):
    """One layer: attention and MLP, one after the other in gpt2, side by side in hwgpt."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        """Make the layer."""
        super().__init__()
        self.parallel = config.block == "hwgpt"
        self.norm_1 = _norm(config)
        self.attention = Attention(config, layer)
        self.norm_2 = _norm(config)
        self.mlp = Mlp(config, layer)

    def forward(self, x: Tensor, rotation: Rotation | None, cache: Cache | None) -> Tensor:
        """Add what the layer finds to the residual stream, (B, T, C)."""
        y = x + self.attention(self.norm_1(x), rotation, cache)  # (B, T, C)
        added: Tensor = y + self.mlp(self.norm_2(x if self.parallel else y))  # (B, T, C)
        return added


class Model(nn.Module):
    """A dense GPT of one architecture. Its parameters are those that `hwbench.count` counts.

    Attributes:
        config: The sizes.

    Example:
        >>> import hwbench, torch
        >>> tiny = ModelConfig(block="gpt2", embed_dim=32, n_head=(1, 2), mlp_ratio=(2, 4),
        ...                    bias=True, head_size=16, vocabulary=100, context=8)
        >>> Model(tiny)(torch.zeros(1, 8, dtype=torch.long)).shape
        torch.Size([1, 8, 100])
    """

    def __init__(self, config: ModelConfig) -> None:
        """Make the layers, and draw their weights unless they are on torch's meta device."""
        super().__init__()
        self.config = config
        sizes, C = block_config(config.block), config.embed_dim
        self.tokens = _Embedding(config.vocabulary, C)
        self.positions = _Embedding(config.context, C) if sizes.positions else None
        self.blocks = nn.ModuleList(Block(config, i) for i in range(len(config.n_head)))
        self.norm = _norm(config)
        self.head = None if sizes.tied else _Linear(C, config.vocabulary, bias=False)
        if not self.tokens.weight.is_meta:
            self.reset_parameters()

    @classmethod
    def built(
        cls,
        config: ModelConfig,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
    ) -> Model:
        """A model made in its place, its weights drawn once."""
        with torch.device("meta"):
            model = cls(config)
        model = model.to(dtype).to_empty(device=device)
        model.reset_parameters(seed)
        return model

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        """The logits of the token after each of the given ones.

        Args:
            tokens: Indices, (B, T).
            cache: What was seen before; the new tokens are added to it.

        Returns:
            Logits, (B, T, V).

        Raises:
            InvalidValue: The sequence is longer than the context.
        """
        T, start = tokens.shape[1], 0 if cache is None else cache.length
        if start + T > self.config.context:
            allowed = f"at most {self.config.context} tokens long, those in the cache included"
            raise invalid("tokens", "Model.forward", allowed, start + T)
        places = torch.arange(start, start + T, device=tokens.device)  # (T,)
        x = self.tokens(tokens)  # (B, T, C)
        if self.positions is not None:
            x = x + self.positions(places)  # (B, T, C)
            rotation = None
        else:
            rotation = _angles(places, self.config.head_size)
        for block in self.blocks:
            x = block(x, rotation, cache)  # (B, T, C)
        if cache is not None:
            cache.length += T
        x = self.norm(x)  # (B, T, C)
        logits: Tensor = F.linear(x, self.tokens.weight) if self.head is None else self.head(x)
        return logits  # (B, T, V)

    @torch.no_grad()
    def reset_parameters(self, seed: int = 0) -> None:
        """Draw the weights as GPT-2 does: N(0, 0.02), less by sqrt(2 layers) into the residual."""
        generator = torch.Generator(self.tokens.weight.device).manual_seed(seed)
        into_residual = _INIT_STD / (2 * len(self.blocks)) ** 0.5
        for name, p in self.named_parameters():
            if p.dim() > 1:
                deep = name.endswith(("out.weight", "down.weight"))
                p.normal_(0.0, into_residual if deep else _INIT_STD, generator=generator)
            else:
                p.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)

    @torch.no_grad()
    def load_gpt2(self, weights: Mapping[str, Tensor]) -> None:
        """Take over the weights of a Hugging Face `GPT2LMHeadModel` of this shape.

        Args:
            weights: Its state dict; their matrices are stored transposed. It is read one weight
                at a time, so a mapping that opens a file for each needs no room for all.

        Raises:
            InvalidValue: A weight is missing, left over, there twice, of another shape or kind of
                number, or not finite, the head is not the token embedding, or the block is not
                gpt2.
        """
        if self.config.block != "gpt2":
            raise invalid("weights", "load_gpt2", "for a model of block 'gpt2'", self.config.block)
        given = {name.removeprefix("transformer."): name for name in weights}
        if len(given) < len(weights):
            raise InvalidValue("The weights of load_gpt2 must have each name once. One is twice.")
        # Masks, which old checkpoints hold beside the weights.
        given = {k: v for k, v in given.items() if not k.endswith((".attn.bias", ".masked_bias"))}
        for name, p in self.named_parameters():
            theirs = gpt2_name(name)
            if theirs not in given:
                raise InvalidValue(f"The weights of load_gpt2 must hold {theirs!r}. They do not.")
            w = weights[given.pop(theirs)]
            w = w.t() if is_transposed(theirs) else w
            if w.shape != p.shape:
                raise InvalidValue(
                    f"{theirs!r} of load_gpt2 must have the shape {tuple(p.shape)}. "
                    f"Got {tuple(w.shape)} instead."
                )
            if not w.is_floating_point() or w.itemsize < 2:
                raise InvalidValue(
                    f"{theirs!r} of load_gpt2 must hold floats of 16 bits or more. Got {w.dtype}."
                )
            if not torch.isfinite(w).all():
                raise InvalidValue(
                    f"{theirs!r} of load_gpt2 must be finite. It holds a NaN or an infinity."
                )
            head = given.pop("lm_head.weight", None) if name == "tokens.weight" else None
            if head is not None and not torch.equal(weights[head], w):
                raise InvalidValue(
                    "'lm_head.weight' of load_gpt2 must be the token embedding again. It is not."
                )
            p.copy_(w)
        if given:
            raise InvalidValue(f"The weights of load_gpt2 hold {next(iter(given))!r}, left over.")

    def save(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into a folder; see `write_files`.

        Raises:
            InvalidValue: The folder holds the `config.json` of something else.
            InvalidArtifact: A file could not be written; what the folder held is untouched.
        """
        path = Path(folder) / _CONFIG
        if path.is_file():
            try:
                ModelConfig.from_dict(json.loads(path.read_text("utf-8")))
            except _DAMAGE:
                raise InvalidValue(
                    f"A model needs a folder of its own. {folder} has another {_CONFIG}."
                ) from None
        write_files(Path(folder), self.state_dict(), self.config.to_dict())

    @classmethod
    def load(cls, folder: str | Path, *, device: torch.device | str = "cpu") -> Model:
        """Read what `save` wrote.

        Raises:
            InvalidArtifact: A file is missing or damaged, or the two do not fit each other.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        source = Path(folder)
        try:
            config = ModelConfig.from_dict(json.loads((source / _CONFIG).read_text("utf-8")))
            weights = load_file(source / _WEIGHTS, device=str(device))
            with torch.device("meta"):
                model = cls(config)
            model.load_state_dict(weights, assign=True)
        except (*_DAMAGE, SafetensorError) as error:
            reason = " ".join(str(error).split())
            raise InvalidArtifact(f"Cannot load a model from {source}: {reason}") from None
        return model


def write_files(folder: Path, weights: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Write `model.safetensors` and `config.json` into a folder, both beside and then renamed.

    Raises:
        InvalidArtifact: A file could not be written; what the folder held is untouched.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    # A folder, since the library that writes tensors has temporary files of its own.
    aside = folder / f".writing-{os.getpid()}"
    try:
        aside.mkdir(parents=True, exist_ok=True)
        whole = {name: w.contiguous() for name, w in weights.items()}
        save_file(whole, aside / _WEIGHTS, metadata={"format": "pt"})
        (aside / _WEIGHTS).chmod(aside.stat().st_mode & 0o666)  # the library's is its owner's only
        (aside / _CONFIG).write_text(json.dumps(config, indent=2) + "\n", "utf-8")
        for name in (_WEIGHTS, _CONFIG):
            (aside / name).replace(folder / name)
    except (OSError, SafetensorError) as error:
        reason = " ".join((getattr(error, "strerror", None) or str(error)).split()).rstrip(".")
        raise InvalidArtifact(f"Cannot write a model to {folder}: {reason}.") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _norm(config: ModelConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.embed_dim, bias=config.bias or block_config(config.block).norm_bias)


def _angles(places: Tensor, head_size: int) -> Rotation:
    """Cosines and sines of the rotary angles of some positions, each (T, rotated / 2)."""
    half = head_size // _ROTARY_SHARE // 2
    steps = torch.arange(half, device=places.device) / max(half, 1)
    angles = torch.outer(places.float(), _ROTARY_BASE**-steps)  # (T, rotated / 2)
    return angles.cos(), angles.sin()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the first quarter of each head, (B, H, T, A), by its position (arXiv 2104.09864)."""
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), dim=-1)  # (B, H, T, A)


def gpt2_name(name: str) -> str:
    """Hugging Face's name of a parameter of a gpt2 model.

    >>> gpt2_name("blocks.0.attention.qkv.weight")
    'h.0.attn.c_attn.weight'
    """
    for ours, theirs in (
        ("tokens.", "wte."),
        ("positions.", "wpe."),
        ("blocks.", "h."),
        ("norm_1.", "ln_1."),
        ("norm_2.", "ln_2."),
        ("attention.qkv.", "attn.c_attn."),
        ("attention.out.", "attn.c_proj."),
        ("mlp.up.", "mlp.c_fc."),
        ("mlp.down.", "mlp.c_proj."),
    ):
        name = name.replace(ours, theirs)
    return f"ln_f.{name.removeprefix('norm.')}" if name.startswith("norm.") else name


def is_transposed(theirs: str) -> bool:
    """Whether Hugging Face holds a parameter transposed, as its Conv1D does.

    >>> is_transposed("h.0.attn.c_attn.weight"), is_transposed("wte.weight")
    (True, False)
    """
    return theirs.startswith("h.") and theirs.endswith(".weight") and ".ln_" not in theirs
