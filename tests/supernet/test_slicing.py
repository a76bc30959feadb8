"""A slice is the extracted model, and both are what the weights say when written out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from hwbench.architectures import space
from hwbench.errors import InvalidArchitecture, InvalidValue, UnknownName
from hwbench.model import Model
from hwbench.supernet import Supernet, read_gpt2, sort_by_importance, write_gpt2
from hwbench.supernet.slicing import layers_of
from tests.supernet.tiny import (
    TINY,
    dense_logits,
    hugging_face,
    shrunk,
    text,
    tiny_supernet,
    tokens,
)

ATOL = 1e-4


def inherited(
    folder: Path, name: str, **strategies: str
) -> tuple[Supernet, dict[str, torch.Tensor]]:
    owner = shrunk(name)
    made = hugging_face(owner)
    made.save_pretrained(folder)
    return Supernet.from_pretrained(folder, owner, **strategies), made.state_dict()


@pytest.mark.parametrize("layers", ["prefix", "strided"])
@pytest.mark.parametrize("name", ["s", "m", "l", "xl"])
def test_sliced_is_extracted_is_dense(name: str, layers: str, tmp_path: Path) -> None:
    supernet, state = inherited(tmp_path, name, layers=layers)
    owner, given = supernet.space, tokens(2, 9)
    drawn = [owner.smallest, owner.largest, *owner.sample(50, seed=1)]
    assert {a.bias for a in drawn} == {True, False}
    with torch.inference_mode():
        for arch in drawn:
            taken = layers_of(layers, arch.n_layer, max(owner.n_layer))
            sliced = supernet.logits(arch, given)
            extracted = supernet.extract(arch)(given)
            dense = dense_logits(state, arch, owner.head_size, taken, given)
            assert sliced.shape == (2, 9, 300)
            assert torch.allclose(sliced, extracted, rtol=0, atol=ATOL)
            assert torch.allclose(sliced, dense, rtol=0, atol=ATOL)


def test_an_extracted_model_is_saved_and_loaded(tmp_path: Path) -> None:
    supernet, given = tiny_supernet(tmp_path / "parent"), tokens(1, 24)
    arch = TINY.sample(1, seed=3)[0]
    supernet.extract(arch).save(tmp_path / "model")
    with torch.inference_mode():
        found = Model.load(tmp_path / "model")(given)
        assert torch.equal(found, supernet.extract(arch)(given))
    assert {p.name for p in (tmp_path / "model").iterdir()} == {"config.json", "model.safetensors"}


def test_an_extracted_model_shares_no_memory(tmp_path: Path) -> None:
    supernet = tiny_supernet(tmp_path)
    before = supernet.digest()
    with torch.no_grad():
        for p in supernet.extract(TINY.largest).parameters():
            p.zero_()
    assert supernet.digest() == before


def test_gradients_of_a_slice_reach_the_parent_where_it_was_cut(tmp_path: Path) -> None:
    supernet = tiny_supernet(tmp_path)
    supernet(TINY.smallest, tokens(1, 5)).sum().backward()
    gradient = supernet.model.tokens.weight.grad
    assert gradient is not None
    assert gradient[:, :16].abs().sum() > 0
    assert gradient[:, 16:].abs().sum() == 0
    first, last = supernet.model.blocks[0], supernet.model.blocks[2]
    assert all(p.grad is not None for n, p in first.named_parameters() if n.endswith("weight"))
    assert all(p.grad is None for p in last.parameters())


def test_no_slice_is_left_behind(tmp_path: Path) -> None:
    supernet, given = tiny_supernet(tmp_path), tokens(1, 8)
    with torch.inference_mode():
        whole = supernet.logits(TINY.largest, given)
        supernet.logits(TINY.smallest, given)
        assert torch.equal(supernet.logits(TINY.largest, given), whole)


def test_nothing_outside_the_space_is_rounded_to_it(tmp_path: Path) -> None:
    supernet = tiny_supernet(tmp_path)
    wrong = (
        replace(TINY, embed_dim=(16, 30)).largest,
        replace(TINY, mlp_ratio=(4, 5)).largest,
        replace(TINY, n_head=(3,)).largest,
        replace(TINY, n_layer=(4,)).largest,
        space("s").smallest,
    )
    for arch in wrong:
        with pytest.raises(InvalidArchitecture, match="must be one of its space tiny"):
            supernet.logits(arch, tokens(1, 4))
        with pytest.raises(InvalidArchitecture, match="must be one of its space tiny"):
            supernet.extract(arch)


def test_tokens_and_context_are_checked(tmp_path: Path) -> None:
    supernet = tiny_supernet(tmp_path)
    for wrong in (torch.tensor([[0, 300]]), torch.tensor([[-1]])):
        with pytest.raises(InvalidValue, match="indices from 0 to 299"):
            supernet.logits(TINY.largest, wrong)
    for wrong in (torch.zeros(1, 4), tokens(4)):
        with pytest.raises(InvalidValue, match=r"int64 or int32 of shape \(B, T\)"):
            supernet.logits(TINY.largest, wrong)
    with pytest.raises(InvalidValue, match="24"):
        supernet.logits(TINY.largest, tokens(1, 25))
    assert supernet.logits(TINY.largest, tokens(1, 0)).shape == (1, 0, 300)


@pytest.mark.parametrize("total", [1, 6, 12, 24, 48])
def test_strided_layers_are_spread_evenly_with_first_and_last(total: int) -> None:
    for n in range(1, total + 1):
        taken = layers_of("strided", n, total)
        assert len(set(taken)) == n
        assert taken == tuple(sorted(taken))
        assert taken[0] == 0
        assert n == 1 or taken[-1] == total - 1
        gaps = {b - a for a, b in pairwise(taken)}
        assert not gaps or max(gaps) - min(gaps) <= 1
        assert layers_of("prefix", n, total) == tuple(range(n))


def test_unknown_strategies_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"layer strategy 'stride'\. Did you mean 'strided'"):
        layers_of("stride", 1, 2)
    for name in ("widths", "layers"):
        with pytest.raises(UnknownName, match="strategy 'best'"):
            tiny_supernet(tmp_path / name, **{name: "best"})


# Importance


def test_importance_leaves_the_function_as_it_was(tmp_path: Path) -> None:
    made = hugging_face(TINY)
    made.save_pretrained(tmp_path)
    sorted_, given = read_gpt2(tmp_path), tokens(4, 24, seed=5)
    before = {k: v.clone() for k, v in sorted_.state_dict().items()}
    sort_by_importance(sorted_, [tokens(4, 24, seed=s) for s in range(3)])
    moved = [k for k, v in sorted_.state_dict().items() if not torch.equal(v, before[k])]
    assert sorted(moved) == sorted(before)  # every weight has channels, heads or neurons
    with torch.inference_mode():
        assert torch.allclose(sorted_(given), made(given).logits, rtol=0, atol=ATOL)


def test_importance_puts_the_most_active_first(tmp_path: Path) -> None:
    """A head, a neuron and a channel that do the most by far are found in the first places."""
    made = hugging_face(TINY)
    with torch.no_grad():
        made.transformer.h[1].attn.c_attn.weight[:, 2 * 32 + 3 * 8 :] *= 50  # values of head 3
        made.transformer.h[1].mlp.c_fc.bias[77] = 90.0
        for name, p in made.named_parameters():
            if "ln_" in name and name.endswith("weight"):
                p[21] = 40.0
    made.save_pretrained(tmp_path)
    model, before = read_gpt2(tmp_path), read_gpt2(tmp_path)
    sort_by_importance(model, [tokens(4, 24)])
    block, old = model.blocks[1], before.blocks[1]
    assert model.norm.weight[0] == 40.0
    assert block.mlp.up.bias[0] == 90.0
    assert torch.equal(
        block.attention.qkv.bias.view(3, 4, 8)[:, 0], old.attention.qkv.bias.view(3, 4, 8)[:, 3]
    )


def test_sorted_slices_are_extracted_and_dense_too(tmp_path: Path) -> None:
    calibration = [tokens(4, 24, seed=s) for s in range(2)]
    supernet = tiny_supernet(tmp_path / "a", widths="importance", calibration=calibration)
    write_gpt2(supernet.model, tmp_path / "b")
    state = Supernet.from_pretrained(tmp_path / "b", TINY)
    given = tokens(2, 7)
    with torch.inference_mode():
        for arch in TINY.sample(20, seed=2):
            found = supernet.logits(arch, given)
            assert torch.allclose(found, supernet.extract(arch)(given), rtol=0, atol=ATOL)
            assert torch.allclose(found, state.logits(arch, given), rtol=0, atol=ATOL)


def test_importance_needs_text(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="needs calibration text"):
        tiny_supernet(tmp_path / "a", widths="importance")
    with pytest.raises(InvalidValue, match="at least one batch"):
        tiny_supernet(tmp_path / "b", widths="importance", calibration=[])
    short = tmp_path / "short.txt"
    short.write_text("the cat")
    with pytest.raises(InvalidValue, match="more tokens than the context of 24"):
        tiny_supernet(tmp_path / "c", widths="importance", calibration=short)


def test_importance_of_a_file_is_the_same_every_time(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text(text())
    made = [
        tiny_supernet(tmp_path / str(i), widths="importance", calibration=path) for i in range(2)
    ]
    assert made[0].digest() == made[1].digest()
    assert made[0].digest() != tiny_supernet(tmp_path / "plain").digest()
