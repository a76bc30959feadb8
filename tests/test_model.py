"""The dense model: what `count` counts, and the logits of independent implementations."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from hwbench.architectures import Architecture, SearchSpace, space, spaces
from hwbench.cost import CONFIGS, count
from hwbench.errors import InvalidArtifact, InvalidValue

torch = pytest.importorskip("torch", reason="torch is not installed")
model = pytest.importorskip("hwbench.model")

TINY = SearchSpace(
    "tiny", (24, 48), (1, 2, 3), (1, 2, 4), (2, 3, 4), (True, False), head_size=16, seq_len=32
)


def randomised(made: Any, seed: int) -> Any:
    """The model with every parameter drawn, norms and biases too: their defaults hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(1.0 if p.dim() == 1 else 0.0, 0.1, generator=generator)
    return made.eval()


def tiny(block: str, seed: int, arch: Architecture | None = None) -> Any:
    arch = arch or TINY.sample(1, seed)[0]
    config = model.ModelConfig.of(arch, block, vocabulary=50, context=32)
    return randomised(model.Model(config), seed)


def tokens(seed: int, *shape: int, vocabulary: int = 50) -> Any:
    return torch.randint(vocabulary, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("drawn", [5, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("block", CONFIGS)
@pytest.mark.parametrize("name", spaces())
def test_parameters_are_those_that_count_counts(name: str, block: str, drawn: int) -> None:
    owner = space(name)
    for arch in [owner.smallest, owner.largest, *owner.sample(drawn, seed=drawn)]:
        with torch.device("meta"):
            made = model.Model(model.ModelConfig.of(arch, block))
        assert sum(p.numel() for p in made.parameters()) == count(arch, block=block).params


@pytest.mark.parametrize("block", CONFIGS)
@pytest.mark.parametrize("seed", range(6))
def test_decoding_token_by_token_gives_the_logits_of_one_pass(block: str, seed: int) -> None:
    made = tiny(block, seed)
    given = tokens(seed, 2, 20)
    with torch.inference_mode():
        whole = made(given)
        cache = model.Cache(made.config, 2, torch.device("cpu"), torch.float32)
        # A prompt, a chunk that attends to it, then one token after another.
        pieces = [given[:, :7], given[:, 7:12], *given[:, 12:].split(1, dim=1)]
        parts = [made(piece, cache) for piece in pieces]
    assert cache.length == 20
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("block", CONFIGS)
def test_no_token_sees_a_later_one(block: str) -> None:
    made, given = tiny(block, 3), tokens(3, 1, 16)
    other = given.clone()
    other[:, 9:] = (other[:, 9:] + 1) % 50
    with torch.inference_mode():
        before, after = made(given), made(other)
    torch.testing.assert_close(before[:, :9], after[:, :9])
    assert (before[:, 9:] != after[:, 9:]).any()


def hf_gpt2(n_layer: int, embed_dim: int, n_head: int, ratio: int, vocabulary: int) -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=vocabulary,
        n_positions=64,
        n_embd=embed_dim,
        n_layer=n_layer,
        n_head=n_head,
        n_inner=ratio * embed_dim,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return transformers.GPT2LMHeadModel(config).eval()


def past_of(theirs: Any) -> dict[str, Any]:
    """An empty cache under the name that the installed version of transformers takes it by."""
    transformers = pytest.importorskip("transformers")
    takes = inspect.signature(theirs.forward).parameters
    return {"cache" if "cache" in takes else "past_key_values": transformers.DynamicCache()}


@pytest.mark.parametrize(
    "n_layer, embed_dim, n_head, ratio, vocabulary",
    [(1, 16, 1, 4, 30), (2, 32, 2, 3, 50), (3, 48, 4, 2, 77), (12, 768, 12, 4, 50257)],
)
def test_gpt2_gives_hugging_faces_logits(
    n_layer: int, embed_dim: int, n_head: int, ratio: int, vocabulary: int
) -> None:
    theirs = hf_gpt2(n_layer, embed_dim, n_head, ratio, vocabulary)
    if embed_dim < 768:  # GPT-2's own scale at GPT-2's own size
        randomised(theirs, seed=n_layer)
    ours = model.Model(
        model.ModelConfig(
            block="gpt2",
            embed_dim=embed_dim,
            n_head=(n_head,) * n_layer,
            mlp_ratio=(ratio,) * n_layer,
            bias=True,
            head_size=embed_dim // n_head,
            vocabulary=vocabulary,
            context=64,
        )
    )
    ours.load_gpt2(theirs.state_dict())
    given = tokens(1, 2, 24, vocabulary=vocabulary)
    with torch.inference_mode():
        wanted = theirs(given).logits
        torch.testing.assert_close(ours(given), wanted, atol=1e-4, rtol=0)
        past = past_of(theirs)
        theirs(given[:, :20], use_cache=True, **past)
        cache = model.Cache(ours.config, 2, torch.device("cpu"), torch.float32)
        ours(given[:, :20], cache)
        for at in range(20, 24):
            answer = theirs(given[:, at : at + 1], use_cache=True, **past)
            got = ours(given[:, at : at + 1], cache)
            torch.testing.assert_close(got, answer.logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize("bias", [True, False])
def test_hwgpt_gives_the_logits_of_gpt_neox_with_a_gated_mlp(bias: bool) -> None:
    # GPT-NeoX has the rotary quarter and the parallel residual, Llama the gated MLP of three.
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaMLP

    sizes = SearchSpace("three", (48,), (2,), (3,), (2, 4), (True, False), head_size=16, seq_len=32)
    arch = Architecture(sizes, 2, 48, (3, 3), (2, 4), bias)
    ours = tiny("hwgpt", 5, arch)
    theirs = transformers.GPTNeoXForCausalLM(
        transformers.GPTNeoXConfig(
            vocab_size=50,
            hidden_size=48,
            num_hidden_layers=2,
            num_attention_heads=3,
            intermediate_size=96,
            rotary_pct=0.25,
            max_position_embeddings=32,
            use_parallel_residual=True,
            attention_bias=bias,
            hidden_dropout=0.0,
            attention_dropout=0.0,
        )
    ).eval()
    with torch.no_grad():
        for ratio, layer, block in zip(
            arch.mlp_ratio, theirs.gpt_neox.layers, ours.blocks, strict=True
        ):
            layer.mlp = LlamaMLP(
                transformers.LlamaConfig(
                    num_attention_heads=3,
                    hidden_size=48,
                    intermediate_size=ratio * 48,
                    mlp_bias=bias,
                )
            )
            for mine, other in (
                (block.norm_1, layer.input_layernorm),
                (block.norm_2, layer.post_attention_layernorm),
                (block.attention.out, layer.attention.dense),
                (block.mlp.gate, layer.mlp.gate_proj),
                (block.mlp.up, layer.mlp.up_proj),
                (block.mlp.down, layer.mlp.down_proj),
            ):
                other.load_state_dict(mine.state_dict())
            # Theirs holds the query, key and value of one head after another.
            for name, p in block.attention.qkv.named_parameters():
                parts = p.view(3, 3, 16, -1).transpose(0, 1).reshape(p.shape)
                getattr(layer.attention.query_key_value, name).copy_(parts)
        theirs.gpt_neox.final_layer_norm.load_state_dict(ours.norm.state_dict())
        theirs.gpt_neox.embed_in.load_state_dict(ours.tokens.state_dict())
        theirs.get_output_embeddings().load_state_dict(ours.head.state_dict())
        given = tokens(2, 2, 32)
        torch.testing.assert_close(ours(given), theirs(given).logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize("block", CONFIGS)
def test_a_saved_model_comes_back(tmp_path: Path, block: str) -> None:
    made, given = tiny(block, 4), tokens(4, 1, 9)
    made.save(tmp_path / "m")
    back = model.Model.load(tmp_path / "m").eval()
    assert back.config == made.config
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    with torch.inference_mode():
        assert torch.equal(back(given), made(given))


def test_a_damaged_model_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidArtifact, match=r"Cannot load a model from .*nowhere"):
        model.Model.load(tmp_path / "nowhere")
    tiny("gpt2", 1).save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "vocabulary": 51}))
    with pytest.raises(InvalidArtifact, match="size mismatch"):
        model.Model.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "extra": 1}))
    with pytest.raises(InvalidArtifact, match="extra"):
        model.Model.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(InvalidArtifact, match="Cannot load"):
        model.Model.load(tmp_path)


def test_what_a_folder_held_is_not_lost_to_a_model(tmp_path: Path) -> None:
    """A checkpoint's config.json and model.safetensors were overwritten without a word."""
    made = tiny("gpt2", 1)
    for content in ('{"model_type": "gpt2"}', "[1]", "no JSON"):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(InvalidValue, match="needs a folder of its own"):
            made.save(tmp_path)
        assert [p.name for p in tmp_path.iterdir()] == ["config.json"]
    (tmp_path / "config.json").unlink()
    made.save(tmp_path)
    tiny("gpt2", 2).save(tmp_path)  # in place of another model is fine
    with pytest.raises(InvalidArtifact, match="Not a directory"):
        made.save(tmp_path / "config.json" / "m")


def test_without_space_a_model_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors import SafetensorError

    def no_space(weights: object, path: Path, **kwargs: object) -> None:
        path.write_bytes(b"half a file")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.torch.save_file", no_space)
    with pytest.raises(InvalidArtifact, match=r"Cannot write .*No space left") as error:
        tiny("gpt2", 1).save(tmp_path / "m")
    assert "\n" not in str(error.value)
    assert list((tmp_path / "m").iterdir()) == []


def test_built_in_its_place_with_the_same_weights_for_the_same_seed() -> None:
    config = model.ModelConfig.of(TINY.largest, "hwgpt", vocabulary=50)
    one, two, other = (model.Model.built(config, seed=s) for s in (7, 7, 8))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.tokens.weight, other.tokens.weight)
    assert abs(float(one.head.weight.detach().std()) - 0.02) < 0.002
    assert (one.norm.weight == 1).all()
    half = model.Model.built(config, dtype=torch.bfloat16)
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("embed_dim", 0, "embed_dim"),
        ("n_head", (), "n_head"),
        ("n_head", [1, 2], "n_head"),
        ("mlp_ratio", (1,), "one entry a layer"),
        ("vocabulary", 2.5, "vocabulary"),
    ],
)
def test_sizes_are_checked(name: str, value: object, said: str) -> None:
    config = model.ModelConfig.of(TINY.largest, "gpt2")
    with pytest.raises(InvalidValue, match=said):
        model.ModelConfig.from_dict({**config.to_dict(), name: value})


def test_what_does_not_fit_is_said() -> None:
    made = tiny("gpt2", 1)
    with pytest.raises(InvalidValue, match="at most 32 tokens long"):
        made(tokens(1, 1, 33))
    with pytest.raises(InvalidValue, match="block 'gpt2'"):
        tiny("hwgpt", 1).load_gpt2({})
    with pytest.raises(InvalidValue, match=r"wte\.weight"):
        made.load_gpt2({})
    theirs = hf_gpt2(1, 16, 1, 4, 30).state_dict()
    sizes = {"n_head": (1,), "mlp_ratio": (4,), "head_size": 16, "vocabulary": 30, "context": 64}
    plain = model.ModelConfig(block="gpt2", embed_dim=16, bias=False, **sizes)
    with pytest.raises(InvalidValue, match="left over"):
        model.Model(plain).load_gpt2(theirs)
    narrow = model.ModelConfig(
        block="gpt2", embed_dim=16, bias=True, **{**sizes, "mlp_ratio": (2,)}
    )
    with pytest.raises(InvalidValue, match="must have the shape"):
        model.Model(narrow).load_gpt2(theirs)
