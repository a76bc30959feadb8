"""Hugging Face's checkpoints are inherited in all their forms, and refused with one line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2LMHeadModel

from hwbench.architectures import space
from hwbench.errors import InvalidArtifact, InvalidValue, MissingDependency, UnknownName
from hwbench.model import Model, ModelConfig, gpt2_name, is_transposed
from hwbench.supernet import Supernet, read_gpt2, write_gpt2
from hwbench.supernet.checkpoint import read_config, weight_files
from hwbench.supernet.supernet import inferred_space
from tests.supernet.tiny import TINY, hugging_face, tiny_supernet, tokens, write_checkpoint

ATOL = 1e-4


def _to_bin(folder: Path, *, legacy: bool) -> None:
    """Safetensors into torch's own format, as transformers wrote it for years."""
    weights = load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
    (folder / "model.safetensors").unlink()


def _to_bin_shards(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    files = {n: f"pytorch_model-0000{1 + i % 2}-of-00002.bin" for i, n in enumerate(names)}
    for file in set(files.values()):
        torch.save({n: weights[n] for n in names if files[n] == file}, folder / file)
    index = {"metadata": {}, "weight_map": files}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))


def _with_old_buffers(folder: Path) -> None:
    """What checkpoints of 2019 hold: no prefix, masks beside the weights, the head apart."""
    weights = load_file(folder / "model.safetensors")
    old = {k.removeprefix("transformer."): v for k, v in weights.items()}
    for layer in range(3):
        old[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 24, 24).tril()
        old[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    old["lm_head.weight"] = old["wte.weight"].clone()
    save_file(old, folder / "model.safetensors")


FORMS: dict[str, Callable[[Path], None]] = {
    "safetensors": lambda folder: None,
    "bin": lambda folder: _to_bin(folder, legacy=False),
    "bin before torch 1.6": lambda folder: _to_bin(folder, legacy=True),
    "bin in shards": _to_bin_shards,
    "with old buffers": _with_old_buffers,
}


@pytest.mark.parametrize("form", FORMS)
def test_the_largest_gives_hugging_faces_logits(form: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    FORMS[form](tmp_path)
    supernet, given = Supernet.from_pretrained(tmp_path, TINY), tokens(2, 24)
    with torch.inference_mode():
        expected = hugging_face(TINY)(given).logits
        assert torch.allclose(supernet.logits(TINY.largest, given), expected, rtol=0, atol=ATOL)


def test_safetensors_in_shards(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, max_shard_size="20KB")
    assert len(weight_files(tmp_path)) > 2
    given = tokens(2, 24)
    with torch.inference_mode():
        found = read_gpt2(tmp_path)(given)
        assert torch.allclose(found, hugging_face(TINY)(given).logits, rtol=0, atol=ATOL)


def test_half_precision_is_read_into_either(tmp_path: Path) -> None:
    hugging_face(TINY).to(torch.bfloat16).save_pretrained(tmp_path)
    whole, half = read_gpt2(tmp_path), read_gpt2(tmp_path, torch.bfloat16)
    assert {p.dtype for p in whole.parameters()} == {torch.float32}
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    with torch.inference_mode():
        expected = hugging_face(TINY).to(torch.bfloat16).to(torch.float32)(tokens(1, 9)).logits
        assert torch.allclose(whole(tokens(1, 9)), expected, rtol=0, atol=ATOL)


@pytest.mark.parametrize("name", ["s", "m", "l", "xl"])
def test_the_space_is_inferred_from_the_size(name: str, tmp_path: Path) -> None:
    owner = space(name)
    config = {
        "model_type": "gpt2",
        "n_embd": max(owner.embed_dim),
        "n_layer": max(owner.n_layer),
        "n_head": max(owner.n_head),
        "vocab_size": 50257,
        "n_positions": 1024,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert inferred_space(read_config(tmp_path), tmp_path) == owner


def test_a_space_may_be_any_that_fits(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    with pytest.raises(InvalidValue, match="none of s, m, l, xl"):
        Supernet.from_pretrained(tmp_path)
    narrow = replace(TINY, name="narrow", embed_dim=(8, 16), n_layer=(1, 2), n_head=(1, 3))
    assert Supernet.from_pretrained(tmp_path, narrow).space == narrow
    for change, said in (
        ({"embed_dim": (16, 64)}, "embed_dim is 32. Got 64"),
        ({"n_layer": (1, 4)}, "n_layer is 3. Got 4"),
        ({"n_head": (5,)}, "n_head is 4. Got 5"),
        ({"mlp_ratio": (5,)}, "mlp_ratio x embed_dim is 128. Got 160"),
        ({"head_size": 16}, "head_size 8. Got 16"),
    ):
        with pytest.raises(InvalidValue, match=r"must (fit inside|have) the parent") as error:
            Supernet.from_pretrained(tmp_path, replace(TINY, **change))
        assert said in str(error.value)


def test_what_write_gpt2_writes_hugging_face_reads(tmp_path: Path) -> None:
    made = hugging_face(TINY)
    made.save_pretrained(tmp_path / "theirs")
    write_gpt2(read_gpt2(tmp_path / "theirs"), tmp_path / "ours")
    given = tokens(1, 24)
    with torch.inference_mode():
        again = GPT2LMHeadModel.from_pretrained(tmp_path / "ours").eval()(given).logits
        assert torch.allclose(again, made(given).logits, rtol=0, atol=ATOL)
    odd = Model(ModelConfig.of(TINY.sample(1, seed=0)[0], "gpt2", vocabulary=10, context=8))
    with pytest.raises(InvalidValue, match="same heads and ratio"):
        write_gpt2(odd, tmp_path / "odd")


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"model_type": "llama"}, "'model_type' in .* must be 'gpt2'. Got 'llama'"),
        ({"activation_function": "relu"}, "'gelu_new' or 'gelu_pytorch_tanh'. Got 'relu'"),
        ({"layer_norm_epsilon": 1e-6}, "'layer_norm_epsilon' .* must be 1e-05"),
        ({"scale_attn_by_inverse_layer_idx": True}, "must be False. Got True"),
        ({"tie_word_embeddings": False}, "must be True. Got False"),
        ({"n_embd": 0}, "'n_embd' .* must be an int >= 1. Got 0"),
        ({"n_embd": "32"}, "'n_embd' .* must be an int >= 1. Got '32'"),
        ({"n_head": 5}, "'n_head' .* must divide 32. Got 5"),
        ({"n_inner": 33}, "'n_embd' .* must divide 33. Got 32"),
        ({"n_layer": None}, "'n_layer' .* must be an int >= 1. Got None"),
    ],
)
def test_configs_of_another_model_are_refused(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(InvalidArtifact, match=said):
        Supernet.from_pretrained(tmp_path, TINY)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "\xff"])
def test_unreadable_configs_are_refused(content: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "config.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidArtifact, match=r"config\.json") as error:
        Supernet.from_pretrained(tmp_path, TINY)
    assert "\n" not in str(error.value)


def _change(name: str, change: Callable[[torch.Tensor], torch.Tensor | None]) -> Any:
    def damage(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        changed = change(weights.pop(name))
        if changed is not None:
            weights[name] = changed.contiguous()
        save_file(weights, folder / "model.safetensors")

    return damage


def _add(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        save_file({**weights, name: torch.ones(3)}, folder / "model.safetensors")

    return damage


def _cut(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


def _not_a_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"no pickle at all")


def _malicious(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"a": shutil.rmtree}, folder / "pytorch_model.bin")


def _again(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    twice = {**weights, _FC.removeprefix("transformer."): 2 * weights[_FC]}
    save_file(twice, folder / "model.safetensors")


def _bytes(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save({k.encode(): v for k, v in weights.items()}, folder / "pytorch_model.bin")


_FC = "transformer.h.1.mlp.c_fc.weight"

DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a missing weight": (_change(_FC, lambda w: None), "must hold 'h.1.mlp.c_fc.weight'"),
    "a transposed weight": (_change(_FC, lambda w: w.T), r"the shape \(32, 128\)|\(128, 32\)"),
    "a NaN": (_change(_FC, lambda w: w.fill_(float("nan"))), "must be finite"),
    "an infinity": (_change(_FC, lambda w: w.fill_(float("inf"))), "must be finite"),
    "numbers of 8 bits": (_change(_FC, lambda w: w.to(torch.float8_e4m3fn)), "16 bits or more"),
    "whole numbers": (_change(_FC, lambda w: w.to(torch.int8)), "Got torch.int8"),
    "complex numbers": (_change(_FC, lambda w: w.to(torch.complex64)), "Got torch.complex64"),
    "a weight twice": (_again, "each name once"),
    "names that are bytes": (_bytes, "must hold 'wte.weight'"),
    "an unknown weight": (_add("transformer.h.1.crossattention.q"), "left over"),
    "a fourth layer": (_add("transformer.h.3.ln_1.weight"), "left over"),
    "another head": (_add("lm_head.weight"), "must be the token embedding again"),
    "half a file": (_cut, "Cannot read"),
    "no pickle": (_not_a_pickle, "Cannot read"),
    "code in a pickle": (_malicious, "Cannot read"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "It holds neither"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_weights_are_refused_with_one_line(damage: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    do, said = DAMAGES[damage]
    do(tmp_path)
    with pytest.raises(InvalidArtifact, match=said) as error:
        Supernet.from_pretrained(tmp_path, TINY)
    assert "\n" not in str(error.value)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, max_shard_size="20KB")
    shard = sorted(tmp_path.glob("model-*.safetensors"))[1]
    shard.unlink()
    with pytest.raises(InvalidArtifact, match=f"lacks the shard '{shard.name}'"):
        Supernet.from_pretrained(tmp_path, TINY)


def test_a_shard_outside_the_folder_is_not_read(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a", max_shard_size="20KB")
    index = tmp_path / "a" / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"] = {k: f"../b/{v}" for k, v in content["weight_map"].items()}
    index.write_text(json.dumps(content))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(InvalidArtifact, match="lacks the shard"):
        Supernet.from_pretrained(tmp_path / "a", TINY)


def test_a_name_without_a_network_points_to_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        InvalidValue, match=r"no folder 'gpt2-xl' here.*give the path of its folder"
    ):
        Supernet.from_pretrained("gpt2-xl")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingDependency, match=r"pip install 'hwbench\[supernet\]'"):
        Supernet.from_pretrained("gpt2-xl")


def test_of_an_older_name_on_the_hub_the_bin_files_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path / "hub")
    _to_bin(tmp_path / "hub", legacy=False)

    def download(name: str, allow_patterns: list[str]) -> str:
        for path in (tmp_path / "hub").iterdir():
            if any(path.match(pattern) for pattern in allow_patterns):
                (tmp_path / "cache").mkdir(exist_ok=True)
                shutil.copy(path, tmp_path / "cache")
        return str(tmp_path / "cache")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    supernet = Supernet.from_pretrained("someone/older", TINY)
    assert supernet.origin["name"] == "someone/older"
    assert supernet.tokeniser is not None


def test_sizes_past_all_memory_are_said(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "vocab_size": 10**14}))
    with pytest.raises(InvalidArtifact, match=r"not enough memory for the 3,200,\d+,\d+,\d+,\d+ w"):
        Supernet.from_pretrained(tmp_path, TINY)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"mlp_ratio": (4, 2, 4)}, "mlp_ratio x embed_dim is 64. Got 128"),
        ({"bias": False}, "tiny has biases, which the parent has not"),
        ({"block": "hwgpt"}, "must be of block 'gpt2'. Got 'hwgpt'"),
    ],
)
def test_a_parent_must_hold_every_slice(change: dict[str, Any], said: str) -> None:
    """A layer narrower than the first was cut short without a word."""
    config = ModelConfig.of(TINY.largest, "gpt2", vocabulary=10, context=8)
    with pytest.raises(InvalidValue, match=said):
        Supernet(Model(replace(config, **change)), TINY)


@pytest.mark.parametrize("name", ["/no/such/folder", "a/b/c", "", "../x", "two words"])
def test_what_is_no_name_is_no_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises((InvalidValue, InvalidArtifact)) as error:
        Supernet.from_pretrained(name or tmp_path / "absent", "s")
    assert "\n" not in str(error.value)


def test_a_file_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidValue, match="must be a folder"):
        Supernet.from_pretrained(tmp_path / "file")


def test_unknown_spaces_are_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    with pytest.raises(UnknownName, match="Unknown space 'xs'"):
        Supernet.from_pretrained(tmp_path, "xs")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["s", "m", "l"])
def test_gpt2s_real_shapes(name: str, tmp_path: Path) -> None:
    """124, 355 and 774 million drawn weights, as `save_pretrained` shards them by default."""
    owner, given = space(name), torch.randint(50257, (1, 64))
    made = hugging_face(owner, std=0.02, n_inner=None, vocab_size=50257, n_positions=1024)
    made.save_pretrained(tmp_path)
    with torch.inference_mode():
        expected = made(given).logits
        del made
        supernet = Supernet.from_pretrained(tmp_path, layers="strided")
        assert supernet.space == owner
        whole = supernet.logits(owner.largest, given)
        assert torch.allclose(whole, expected, rtol=0, atol=ATOL)
        for arch in [owner.smallest, *owner.sample(2, seed=0)]:
            found = supernet.logits(arch, given)
            assert torch.allclose(found, supernet.extract(arch)(given), rtol=0, atol=ATOL)


# Saved supernets


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    supernet = tiny_supernet(tmp_path / "parent", layers="strided")
    supernet.save(tmp_path / "saved")
    again = Supernet.load(tmp_path / "saved")
    assert again.card() == supernet.card()
    assert again.digest() == supernet.digest()
    assert again.texts() == supernet.texts()
    given, arch = tokens(1, 9), TINY.sample(1, seed=1)[0]
    with torch.inference_mode():
        assert torch.equal(again.logits(arch, given), supernet.logits(arch, given))
    assert Supernet.open(tmp_path / "saved", TINY).card() == supernet.card()
    with pytest.raises(InvalidValue, match="must be 'strided', the supernet's own"):
        Supernet.open(tmp_path / "saved", layers="prefix")
    with pytest.raises(InvalidValue, match="must be 'tiny', its own"):
        Supernet.open(tmp_path / "saved", "s")


@pytest.mark.parametrize("what", ["weights", "card", "hash", "kind"])
def test_a_damaged_supernet_is_refused(what: str, tmp_path: Path) -> None:
    tiny_supernet(tmp_path / "parent").save(tmp_path / "saved")
    card, [weights] = tmp_path / "saved/supernet.json", (tmp_path / "saved").glob("weights-*")
    match what:
        case "weights":
            weights.unlink()
        case "card":
            card.write_text(card.read_text()[:100])
        case "hash":
            weights.write_bytes(weights.read_bytes()[:-4] + b"abcd")
        case "kind":
            card.write_text(card.read_text().replace('"supernet"', '"other"'))
    with pytest.raises(InvalidArtifact) as error:
        Supernet.load(tmp_path / "saved")
    assert "\n" not in str(error.value)


# Memory

_XL = {"n_embd": 1600, "n_layer": 48, "n_head": 25, "vocab_size": 50257, "n_positions": 1024}


def _peak_while_loading(folder: Path, dtype: str) -> int:
    """Bytes of memory, beyond what files are mapped to, that a load takes at most."""
    code = f"""
import threading, time, torch, hwbench.supernet as s
from pathlib import Path
def anonymous():
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) * 1024
peak, going, before = 0, True, anonymous()
def watch():
    global peak
    while going:
        peak = max(peak, anonymous())
        time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
model = s.read_gpt2(Path({str(folder)!r}), torch.{dtype})
going = False; thread.join()
print(peak - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("form", ["safetensors", "bin"])
def test_xl_loads_in_its_own_size(form: str, tmp_path: Path) -> None:
    """1.56 billion weights: 6.2 GB in float32, of which a load may need 1.2 times as much."""
    size = 4 * _write_xl(tmp_path, form)
    for dtype, whole in (("float32", size), ("bfloat16", size / 2)):
        share = _peak_while_loading(tmp_path, dtype) / whole
        print(f"{form} as {dtype}: {share:.3f} of the weights' {whole / 1e9:.2f} GB")
        assert share < 1.2


def _write_xl(folder: Path, form: str) -> int:
    """Drawn weights in GPT-2 XL's shapes; how many."""
    config = {"model_type": "gpt2", **_XL}
    (folder / "config.json").write_text(json.dumps(config))
    owner = space("xl")
    with torch.device("meta"):
        shapes = Model(ModelConfig.of(owner.largest, "gpt2")).named_parameters()
    rng, weights = np.random.default_rng(0), {}
    for name, p in shapes:
        theirs = gpt2_name(name)
        shape = tuple(reversed(p.shape)) if is_transposed(theirs) else tuple(p.shape)
        weights[f"transformer.{theirs}"] = torch.from_numpy(
            rng.standard_normal(shape, dtype=np.float32)
        )
    if form == "safetensors":
        save_file(weights, folder / "model.safetensors")
    else:
        torch.save(weights, folder / "pytorch_model.bin")
    return sum(w.numel() for w in weights.values())
