"""Sizes from Hugging Face configs: published models' parameters, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hwbench.advise import KINDS, sizes_of_config
from hwbench.advise.huggingface import sizes_of
from hwbench.cost.transformer import TransformerShape
from hwbench.errors import HwbenchError, InvalidValue, UnknownName

GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "vocab_size": 50257,
    "n_positions": 1024,
}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "intermediate_size": 14336,
    "head_dim": 128,
    "tie_word_embeddings": False,
}
NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "vocab_size": 50304,
    "max_position_embeddings": 2048,
    "intermediate_size": 8192,
    "use_parallel_residual": True,
}
GEMMA = LLAMA | {
    "model_type": "gemma",
    "hidden_size": 3072,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "num_hidden_layers": 28,
    "intermediate_size": 24576,
    "vocab_size": 256000,
    "tie_word_embeddings": True,
}


@pytest.mark.parametrize(
    "config, billions",
    [(GPT2, 0.1237), (LLAMA, 8.03), (NEOX, 1.4142), (GEMMA, 8.538)],
    ids=["gpt2", "llama", "gpt_neox", "gemma"],
)
def test_parameters_are_those_of_the_published_model(
    config: dict[str, Any], billions: float
) -> None:
    """GPT-2 small, Llama 3 8B, Pythia 1.4B, Gemma 7B; biases and positions are left out."""
    shape = TransformerShape(**sizes_of(config), microbatch=1)
    assert shape.parameters / 1e9 == pytest.approx(billions, rel=0.002)


def test_a_head_size_that_follows_is_left_out_and_another_is_kept() -> None:
    assert "head_size" not in sizes_of(LLAMA)
    assert sizes_of(GEMMA)["head_size"] == 256


def test_what_a_kind_implies() -> None:
    assert sizes_of(GPT2) == {
        "hidden": 768,
        "heads": 12,
        "layers": 12,
        "vocab": 50257,
        "seq": 1024,
        "mlp": "gelu",
        "tied": True,
    }
    assert sizes_of(NEOX)["parallel_layers"] is True
    assert sizes_of(NEOX | {"use_parallel_residual": False})["parallel_layers"] is False
    assert sizes_of(GPT2 | {"n_inner": None}) == sizes_of(GPT2)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    assert sizes_of_config(path) == sizes_of(LLAMA)


@pytest.mark.parametrize(
    "config, words",
    [
        ({"model_type": "bert"}, "model_type of a decoder 'bert'.*Known: gpt2"),
        ({"model_type": "lama"}, "Did you mean 'llama'"),
        ({}, "model_type of a decoder None"),
        ({"model_type": ["gpt2"]}, "model_type of a decoder"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "of a decoder alone.*'t5'"),
        ({"model_type": "gpt2"}, "must have 'n_embd'. Got none"),
        ({**GPT2, "n_layer": None}, "must have 'n_layer'. Got none"),
    ],
)
def test_other_configs_are_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidValue, UnknownName), match=words) as caught:
        sizes_of(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff\xfe", b"3"])
def test_a_file_that_is_no_config_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InvalidValue, match="config"):
        sizes_of_config(path)
    with pytest.raises(InvalidValue, match="Cannot read the config"):
        sizes_of_config(tmp_path / "none.json")


def test_a_config_of_wrong_types_is_refused_by_the_shape() -> None:
    with pytest.raises(HwbenchError, match=r"'hidden' .* Got 'wide'"):
        TransformerShape(**sizes_of(GPT2 | {"n_embd": "wide"}), microbatch=1)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_can_be_read(kind: str) -> None:
    keys, _ = KINDS[kind]
    values = {"hidden": 64, "heads": 4, "layers": 2, "vocab": 100, "seq": 16}
    config = {keys[size]: value for size, value in values.items()} | {"model_type": kind}
    assert TransformerShape(**sizes_of(config), microbatch=1).hidden == 64
