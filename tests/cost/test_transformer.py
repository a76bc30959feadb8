"""The products of a transformer: shapes, totals, and torch's own counter on real modules."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwbench import count, space
from hwbench.cost.forward import Setting, architecture_gemms
from hwbench.cost.transformer import Gemm, TransformerShape, gemms
from hwbench.errors import InvalidValue

TINY: dict[str, Any] = {
    "hidden": 64,
    "heads": 4,
    "layers": 2,
    "vocab": 101,
    "seq": 16,
    "microbatch": 3,
}


def flops(shape: TransformerShape, role: str | None = None) -> int:
    return sum(g.total_flops for g in gemms(shape) if role in (None, g.role))


def test_each_product_has_its_place() -> None:
    shape = TransformerShape(**TINY, kv_heads=2, mlp="swiglu", mlp_width=96, phase="forward")
    sizes = {g.name: (g.m, g.n, g.k, g.batch, g.count) for g in gemms(shape)}
    assert sizes == {
        "QKV": (48, (4 + 2 * 2) * 16, 64, 1, 2),
        "scores": (16, 16, 16, 12, 2),
        "attention over values": (16, 16, 16, 12, 2),
        "projection": (48, 64, 64, 1, 2),
        "MLP up": (48, 96, 64, 1, 4),
        "MLP down": (48, 64, 96, 1, 2),
        "logits": (48, 101, 64, 1, 1),
    }


def test_tensor_parallelism_divides_every_layer() -> None:
    whole = TransformerShape(**{**TINY, "vocab": 100})
    half = dataclasses.replace(whole, tensor_parallel=2)
    assert flops(half) * 2 == flops(whole)
    sizes = {g.name: (g.m, g.n, g.k, g.batch) for g in gemms(half) if g.role == "forward"}
    assert sizes["QKV"] == (48, 96, 64, 1)
    assert sizes["projection"] == (48, 64, 32, 1)
    assert sizes["scores"][3] == 6
    assert sizes["logits"][1] == 50


def test_decoding_is_one_query_for_each_sequence() -> None:
    shape = TransformerShape(**TINY, kv_heads=2, phase="decode")
    sizes = {g.name: (g.m, g.n, g.k, g.batch) for g in gemms(shape)}
    assert sizes["QKV"] == (3, 128, 64, 1)
    assert sizes["scores"] == (2, 16, 16, 6)
    assert sizes["attention over values"] == (2, 16, 16, 6)


@pytest.mark.parametrize("name", ["s", "m", "l", "xl", "s-wide"])
@pytest.mark.parametrize("block", ["hwgpt", "gpt2"])
def test_an_architectures_products_sum_to_the_closed_form(name: str, block: str) -> None:
    owner = space(name)
    for arch in owner.sample(5, seed=1):
        batch = owner.tokens // owner.seq_len
        setting = Setting(block=block, batch_size=batch, seq_len=owner.seq_len)
        products = architecture_gemms(arch, setting)
        counted = count(arch, block=block)
        assert sum(g.total_flops for g in products) == counted.total_flops
        inside = [g for g in products if g.name in ("scores", "attention over values")]
        assert sum(g.total_flops for g in inside) == counted.attention_flops


@given(
    st.integers(1, 8),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 6),
    st.sampled_from(["gelu", "swiglu"]),
    st.sampled_from(["flash", "plain"]),
)
def test_a_training_step_is_three_forwards_and_what_flash_recomputes(
    width: int, kv: int, layers: int, mlp: Any, attention: Any
) -> None:
    shape = TransformerShape(
        hidden=16 * width,
        heads=4,
        kv_heads=kv,
        layers=layers,
        vocab=31,
        seq=8,
        microbatch=2,
        mlp=mlp,
        mlp_width=24,
        attention=attention,
    )
    recomputed = flops(shape, "recomputed")
    assert (recomputed > 0) == (attention == "flash")
    assert flops(shape) - recomputed == 3 * flops(shape, "forward")


def test_fused_products_do_not_move_the_scores() -> None:
    plain = {(g.name, g.role): g for g in gemms(TransformerShape(**TINY, attention="plain"))}
    fused = {(g.name, g.role): g for g in gemms(TransformerShape(**TINY))}
    square = 16 * 16 * 12
    for key, gemm in plain.items():
        saved = square if "scores" in key[0] or "attention" in key[0] else 0
        assert gemm.elements - fused[key].elements == saved
    scores = fused["scores", "forward"]
    assert scores.bytes("bfloat16") == 2 * 12 * (16 * 16 + 16 * 16)
    assert scores.intensity("float32") == scores.flops / (4 * scores.elements)


def test_parameters_are_those_of_the_closed_form_without_biases() -> None:
    arch = space("s").sample(1, seed=0)[0]
    arch = dataclasses.replace(
        arch, n_head=(12,) * arch.n_layer, mlp_ratio=(4,) * arch.n_layer, embed_dim=768, bias=False
    )
    shape = TransformerShape(
        hidden=768,
        heads=12,
        layers=arch.n_layer,
        vocab=50254,
        seq=1024,
        microbatch=8,
        mlp="swiglu",
        mlp_width=4 * 768,
    )
    norm_biases = (2 * arch.n_layer + 1) * 768
    assert shape.parameters == count(arch).params - norm_biases


BAD = [
    ({"heads": 5}, "'heads' .* must be a divisor of hidden=64. Got 5"),
    ({"heads": 0}, "'heads' .* an int from 1 to .* Got 0"),
    ({"hidden": -64}, "'hidden' .* Got -64"),
    ({"hidden": 64.0}, "'hidden' .* Got 64.0"),
    ({"layers": True}, "'layers' .* Got True"),
    ({"seq": 2**40}, "'seq' .* Got 1099511627776"),
    ({"vocab": None}, "'vocab' .* Got None"),
    ({"kv_heads": 3}, "'kv_heads' .* a divisor of heads=4. Got 3"),
    ({"tensor_parallel": 3}, "'tensor_parallel' .* a divisor of heads=4. Got 3"),
    ({"tensor_parallel": 4, "kv_heads": 2}, "a divisor of kv_heads=2. Got 4"),
    ({"tensor_parallel": 2, "mlp_width": 99}, "a divisor of mlp_width=99. Got 2"),
    ({"mlp": "relu"}, "'mlp' .* one of gelu, swiglu. Got 'relu'"),
    ({"phase": ["train"]}, "'phase' .* one of train, forward, decode"),
    ({"dtype": "int8"}, "'dtype' .* one of float16, bfloat16, float32"),
    ({"tied": 1}, "'tied' .* True or False. Got 1"),
]


@pytest.mark.parametrize("change, words", BAD, ids=[str(b[0]) for b in BAD])
def test_a_shape_that_cannot_be_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        TransformerShape(**{**TINY, **change})


@pytest.mark.parametrize("attention", ["plain", "none"])
@pytest.mark.parametrize("mlp", ["gelu", "swiglu"])
@pytest.mark.parametrize("kv", [4, 2])
def test_flops_equal_torchs_counter_on_a_real_module(attention: str, mlp: Any, kv: int) -> None:
    """Forward and training step; "none" leaves attention out, which torch counts apart."""
    torch = pytest.importorskip("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    shape = TransformerShape(**TINY, kv_heads=kv, mlp=mlp, attention="plain", mlp_width=96)
    generator = torch.Generator().manual_seed(0)

    def weight(rows: int, columns: int) -> Any:
        return torch.randn(rows, columns, generator=generator).requires_grad_()

    h, d, w = shape.hidden, shape.head, shape.width
    layers = [
        [weight((4 + 2 * kv) * d, h), weight(h, 4 * d), weight(w, h), weight(w, h), weight(h, w)]
        for _ in range(shape.layers)
    ]
    table, head = weight(shape.vocab, h), weight(shape.vocab, h)
    linear, functional = torch.nn.functional.linear, torch.nn.functional

    def run() -> Any:
        x = functional.embedding(torch.zeros(3, 16, dtype=torch.long), table)
        for qkv, proj, up, gate, down in layers:
            q, k, v = linear(x, qkv).split([4 * d, kv * d, kv * d], dim=-1)
            q, k, v = (t.view(3, 16, -1, d).transpose(1, 2) for t in (q, k, v))
            if attention == "plain":
                k, v = (t.repeat_interleave(4 // kv, dim=1) for t in (k, v))
                with sdpa_kernel(SDPBackend.MATH):
                    q = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                q = q + (k.sum() + v.sum())
            x = x + linear(q.transpose(1, 2).reshape(3, 16, -1), proj)
            inner = linear(x, up)
            inner = inner * linear(x, gate) if mlp == "swiglu" else inner.relu()
            x = x + linear(inner, down)
        return linear(x, head)

    left_out = 0 if attention == "plain" else 1
    for phase in ("forward", "train"):
        with FlopCounterMode(display=False) as counter:
            result = run()
            if phase == "train":
                result.sum().backward()
        products = gemms(dataclasses.replace(shape, phase=phase))  # type: ignore[arg-type]
        inside = sum(
            g.total_flops for g in products if g.name in ("scores", "attention over values")
        )
        total = sum(g.total_flops for g in products) - left_out * inside
        assert counter.get_total_flops() == total


def test_fused_attentions_flops_equal_torchs_formulas() -> None:
    pytest.importorskip("torch")
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

    inside = [g for g in gemms(TransformerShape(**TINY, head_size=24)) if g.fused]
    size = (3, 4, 16, 24)
    forward = sum(g.flops for g in inside if g.role == "forward")
    backward = sum(g.flops for g in inside if g.role != "forward")
    assert forward == sdpa_flop_count(size, size, size)
    assert backward == sdpa_backward_flop_count(size, size, size, size)


def test_the_rows_of_a_weights_gradient_are_the_weights() -> None:
    assert Gemm("MLP up", "forward", 7, 8, 9).strides == (8, 9)
    assert Gemm("MLP up", "weight gradient", 7, 8, 9).strides == (7, 8)
