"""The sizes in a Hugging Face config.json, for the kinds of decoder that are known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hwbench.errors import InvalidValue, brief, unknown

_GPT2_KEYS = {
    "hidden": "n_embd",
    "heads": "n_head",
    "layers": "n_layer",
    "vocab": "vocab_size",
    "seq": "n_positions",
    "mlp_width": "n_inner",
}
_LLAMA_KEYS = {
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_size": "head_dim",
    "layers": "num_hidden_layers",
    "vocab": "vocab_size",
    "seq": "max_position_embeddings",
    "mlp_width": "intermediate_size",
}
_NEOX_KEYS = {k: v for k, v in _LLAMA_KEYS.items() if k not in ("kv_heads", "head_size")}
_OPT_KEYS = {**_NEOX_KEYS, "mlp_width": "ffn_dim"}

KINDS: Mapping[str, tuple[Mapping[str, str], Mapping[str, Any]]] = MappingProxyType(
    {
        "gpt2": (_GPT2_KEYS, {"mlp": "gelu", "tied": True}),
        "gptj": (_GPT2_KEYS, {"mlp": "gelu", "tied": False, "parallel_layers": True}),
        "gpt_neox": (_NEOX_KEYS, {"mlp": "gelu", "tied": False, "parallel_layers": True}),
        "opt": (_OPT_KEYS, {"mlp": "gelu", "tied": True}),
        "llama": (_LLAMA_KEYS, {"mlp": "swiglu", "tied": False}),
        "mistral": (_LLAMA_KEYS, {"mlp": "swiglu", "tied": False}),
        "qwen2": (_LLAMA_KEYS, {"mlp": "swiglu", "tied": False}),
        "gemma": (_LLAMA_KEYS, {"mlp": "swiglu", "tied": True}),
    }
)
"""The known values of `model_type`: which key holds which size, and what the kind implies."""

_OPTIONAL = ("kv_heads", "head_size", "mlp_width")
# Where the library has a default of its own, the config may leave the key out.
_REQUIRED = ("hidden", "heads", "layers", "vocab", "seq")


def sizes_of_config(path: str | Path) -> dict[str, Any]:
    """Read the sizes of a decoder from its config.json.

    Args:
        path: The file.

    Returns:
        The fields of a `TransformerShape` that it fixes: hidden, heads, layers, vocab, seq (the
        longest that it allows), mlp and tied, and what else it names.

    Raises:
        InvalidValue: The file cannot be read, is an encoder's, or lacks a size.
        UnknownName: Its `model_type` is not one of `KINDS`.
    """
    file = Path(path)
    try:
        config = json.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidValue(f"Cannot read the config {str(file)!r}: {error}") from None
    if not isinstance(config, dict):
        raise InvalidValue(f"A config must be a JSON object. Got {brief(config)} in {str(file)!r}.")
    return sizes_of(config)


def sizes_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes in a config that was read already; see `sizes_of_config`.

    >>> sizes_of({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12,
    ...           "vocab_size": 50257, "n_positions": 1024})["hidden"]
    768
    """
    kind = config.get("model_type")
    if config.get("is_encoder_decoder") is True:
        raise InvalidValue(
            f"A config must be of a decoder alone, one of {', '.join(KINDS)}. Got an encoder and "
            f"decoder of model_type {brief(kind)}."
        )
    if not isinstance(kind, str) or kind not in KINDS:
        raise unknown("model_type of a decoder", kind, KINDS)
    keys, implied = KINDS[kind]
    missing = [keys[size] for size in _REQUIRED if config.get(keys[size]) is None]
    if missing:
        raise InvalidValue(f"A config of model_type {kind!r} must have {missing[0]!r}. Got none.")
    sizes = {size: config[keys[size]] for size in _REQUIRED}
    for size in _OPTIONAL:
        value = config.get(keys[size]) if size in keys else None
        if value is not None:
            sizes[size] = value
    found: dict[str, Any] = {**sizes, **implied}
    if isinstance(config.get("tie_word_embeddings"), bool):
        found["tied"] = config["tie_word_embeddings"]
    if isinstance(config.get("use_parallel_residual"), bool):
        found["parallel_layers"] = config["use_parallel_residual"]
    # A head size that follows from the others need not be kept apart, so that heads may change.
    if found.get("head_size") and found["head_size"] * found["heads"] == found["hidden"]:
        del found["head_size"]
    return found
