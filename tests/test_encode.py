"""Features are what their names say, and stay so as long as the version does."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwbench import space, spaces
from hwbench.architectures import Architecture, ArchitectureTable
from hwbench.encode import ENCODERS, Encoder, Features, choice_index, encoder
from hwbench.errors import UnknownName


def expected(architecture: Architecture, name: str) -> float:
    """One feature, read off its name."""
    a, words = architecture, name.split("_")
    if name in ("embed_dim", "bias", "n_layer"):
        return float(getattr(a, name))
    if name in ("heads", "ratios"):
        return float(sum(a.n_head if name == "heads" else a.mlp_ratio))
    if "of_layer" in name:
        layers = a.n_head if words[0] == "heads" else a.mlp_ratio
        return float(layers[int(words[-1])]) if int(words[-1]) < a.n_layer else 0.0
    pairs = list(zip(a.n_head, a.mlp_ratio, strict=True))
    if "heads_and_ratio" in name:
        return float(pairs.count((int(words[2]), int(words[-1]))))
    if words[-1] == "heads":
        return float(a.n_head.count(int(words[2])))
    return float(a.mlp_ratio.count(int(words[3])))


@pytest.mark.parametrize("name", sorted(ENCODERS))
@pytest.mark.parametrize("where", spaces())
def test_features_are_what_their_names_say(name: str, where: str) -> None:
    drawn = space(where).sample(5, seed=3)
    made = encoder(name)
    columns = made.columns(space(where))
    found = made.encode(ArchitectureTable.of(drawn))
    assert found.dtype == np.float32
    assert found.shape == (5, len(columns))
    assert len(set(columns)) == len(columns)
    for architecture, row in zip(drawn, found, strict=True):
        assert row.tolist() == [expected(architecture, column) for column in columns]


GOLDEN = {
    ("layer-counts", 1): "741b2fb7",
    ("layer-positions", 1): "c752985f",
}
"""What each version gives for some architectures; a change is a new version and a new line."""


def test_the_same_version_gives_the_same_numbers() -> None:
    found = {}
    for made in ENCODERS.values():
        digest = hashlib.sha256()
        for name in spaces():
            table = ArchitectureTable.of(space(name).sample(50, seed=0))
            digest.update(made.encode(table).astype("<f4").tobytes())
        found[made.name, made.version] = digest.hexdigest()[:8]
    assert found == GOLDEN


def test_an_unknown_encoder_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"Unknown encoder 'layer-count'\. Did you mean"):
        encoder("layer-count")


@settings(deadline=None)
@given(st.lists(st.integers(1, 999), min_size=1, max_size=6, unique=True))
def test_choice_index_finds_every_choice(choices: list[int]) -> None:
    column = np.array(choices * 3)
    found = choice_index(column, tuple(choices))
    assert [choices[i] for i in found] == column.tolist()


def test_features_are_computed_once() -> None:
    calls = []

    def encode(table: ArchitectureTable) -> np.ndarray:
        calls.append(len(table))
        return np.zeros((len(table), 1), np.float32)

    features = Features(ArchitectureTable.of(space("s").sample(4, seed=0)))
    counted = Encoder("counted", 1, lambda owner: ("nothing",), encode)
    assert features.encoded(counted) is features.encoded(counted)
    assert calls == [4] == [len(features)]
    assert features.counts is features.counts


def test_indices_follow_the_spaces_order() -> None:
    drawn = space("m").sample(30, seed=1)
    features = Features(ArchitectureTable.of(drawn))
    assert [space("m").embed_dim[i] for i in features.width] == [a.embed_dim for a in drawn]
    assert [space("m").bias[i] for i in features.bias] == [a.bias for a in drawn]
