"""`SearchSpace`: the named spaces, size, sampling, neighbours and files of one's own."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import hwbench
from hwbench.architectures import Architecture, SearchSpace, generator
from hwbench.errors import InvalidValue, UnknownName

TINY = SearchSpace("tiny", (64, 128), (1, 3, 2), (1, 2), (2, 4, 3), (True, False), head_size=32)
FIELDS: dict[str, Any] = {
    "name": "own",
    "embed_dim": (64,),
    "n_layer": (1,),
    "n_head": (1,),
    "mlp_ratio": (2,),
}


def everything(space: SearchSpace) -> list[Architecture]:
    """All architectures of a small space, by brute force."""
    return [
        Architecture(space, n, d, heads, ratios, bias)  # type: ignore[arg-type]
        for n in space.n_layer
        for d in space.embed_dim
        for bias in space.bias
        for heads in itertools.product(space.n_head, repeat=n)
        for ratios in itertools.product(space.mlp_ratio, repeat=n)
    ]


def choices(most: int, size: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(1, most), min_size=1, max_size=size, unique=True).map(tuple)


small_spaces = st.builds(
    SearchSpace,
    st.just("small"),
    choices(2000, 2),
    choices(3, 2),
    choices(30, 2),
    choices(8, 2),
    st.sampled_from([(True,), (False,), (True, False), (False, True)]),
    head_size=st.integers(1, 200),
    batch_size=st.integers(1, 16),
    seq_len=st.integers(1, 4096),
)

# -- the named spaces -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, embed_dim, n_layer, n_head, mlp_ratio, tokens",
    [
        ("s", (192, 384, 768), (10, 11, 12), (4, 8, 12), (2, 3, 4), 8192),
        ("m", (256, 512, 1024), (22, 23, 24), (8, 12, 16), (2, 3, 4), 4096),
        ("l", (320, 640, 1280), (34, 35, 36), (8, 16, 20), (2, 3, 4), 1024),
        ("xl", (400, 800, 1600), (46, 47, 48), (10, 20, 25), (2, 3, 4), 1024),
        ("s-wide", (192, 384, 768), (3, 6, 12), (4, 8, 12), (1, 2, 4), 8192),
        ("m-wide", (256, 512, 1024), (6, 12, 24), (4, 8, 16), (1, 2, 4), 4096),
        ("l-wide", (320, 640, 1280), (9, 18, 36), (5, 10, 20), (1, 2, 4), 1024),
        ("xl-wide", (400, 800, 1600), (12, 24, 48), (5, 10, 25), (1, 2, 4), 1024),
    ],
)
def test_named_spaces(
    name: str,
    embed_dim: tuple[int, ...],
    n_layer: tuple[int, ...],
    n_head: tuple[int, ...],
    mlp_ratio: tuple[int, ...],
    tokens: int,
) -> None:
    space = hwbench.space(name)
    assert space == SearchSpace(
        name,
        embed_dim,
        n_layer,
        n_head,
        mlp_ratio,
        head_size=64,
        batch_size=tokens // 1024,
        seq_len=1024,
    )
    assert space.tokens == tokens
    assert space.size == 6 * sum(9**n for n in n_layer)


def test_names_in_order_and_in_a_list_of_ones_own() -> None:
    names = ["s", "m", "l", "xl", "s-wide", "m-wide", "l-wide", "xl-wide"]
    assert hwbench.spaces() == names
    hwbench.spaces().clear()
    assert hwbench.spaces() == names
    assert all(hwbench.space(hwbench.space(n)) is hwbench.space(n) for n in names)


@pytest.mark.parametrize("name", ["xs", "S", "", "s ", "s-Wide"])
def test_unknown_space(name: str) -> None:
    with pytest.raises(UnknownName, match=r"^Unknown space .* Known: s, m, l, xl, s-wide, m-wide,"):
        hwbench.space(name)


@pytest.mark.parametrize("name", [None, 1, b"s", ["s"], float("nan")])
def test_space_must_be_a_name_a_path_or_a_space(name: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^The 'name' parameter of space must be a str, a path"):
        hwbench.space(name)


# -- a value --------------------------------------------------------------------------------------


@given(small_spaces)
def test_round_trips(space: SearchSpace) -> None:
    assert SearchSpace.from_dict(space.to_dict()) == space
    assert SearchSpace.from_dict(json.loads(json.dumps(space.to_dict()))) == space
    twin = pickle.loads(pickle.dumps(space))  # noqa: S301
    assert twin == space
    assert hash(twin) == hash(space)


def test_frozen_and_slotted() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TINY.name = "other"  # type: ignore[misc]
    assert not hasattr(TINY, "__dict__")


WRONG_CHOICES = [
    (),
    [64],
    64,
    "64",
    None,
    (0,),
    (-1,),
    (2**15,),
    (64, 64),
    (True,),
    (64.0,),
    ("64",),
    (float("nan"),),
    ([64],),
    (10**5000,),
]


@pytest.mark.parametrize("field", ["embed_dim", "n_layer", "n_head", "mlp_ratio"])
@pytest.mark.parametrize("wrong", WRONG_CHOICES, ids=range(len(WRONG_CHOICES)))
def test_wrong_choices_are_refused_by_name(field: str, wrong: Any) -> None:
    message = rf"^The '{field}' parameter of SearchSpace must be a tuple of different ints from 1 "
    with pytest.raises(InvalidValue, match=message) as caught:
        SearchSpace(**{**FIELDS, field: wrong})
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "field, wrong",
    [
        ("name", ""),
        ("name", "a b"),
        ("name", "-a"),
        ("name", "a-"),
        ("name", "a--b"),
        ("name", "a-1"),
        ("name", "1a"),
        ("name", "ä"),
        ("name", "a\n"),
        ("name", "../a"),
        ("name", None),
        ("name", 1),
        ("bias", ()),
        ("bias", True),
        ("bias", [True]),
        ("bias", (1, 0)),
        ("bias", ("True", "False")),
        ("bias", (True, True)),
        ("bias", ([],)),
        ("bias", None),
        ("head_size", 0),
        ("head_size", 64.0),
        ("batch_size", True),
        ("batch_size", None),
        ("seq_len", -1),
        ("seq_len", "1024"),
    ],
)
def test_other_wrong_fields_are_refused_by_name(field: str, wrong: Any) -> None:
    with pytest.raises(InvalidValue, match=rf"^The '{field}' parameter of SearchSpace must be "):
        SearchSpace(**{**FIELDS, field: wrong})


@pytest.mark.parametrize("name", ["a", "A9_", "my-own-space", "s-wide"])
def test_names_that_stand_in_a_text_without_doubt(name: str) -> None:
    space = dataclasses.replace(TINY, name=name)
    for arch in space.sample(5, seed=1):
        assert Architecture.parse(str(arch), space) == arch


@pytest.mark.parametrize("wrong", [None, [("name", "x")], "name", 3])
def test_from_dict_needs_a_mapping(wrong: Any) -> None:
    with pytest.raises(InvalidValue, match="must be a mapping"):
        SearchSpace.from_dict(wrong)


# -- size and members -----------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(small_spaces)
def test_size_is_what_brute_force_counts(space: SearchSpace) -> None:
    found = everything(space)
    assert space.size == len(found) == len(set(found)) == len(set(map(str, found)))
    assert all(space.contains(a) for a in found)
    assert {space.smallest, space.largest} <= set(found)


def test_size_is_exact_and_a_python_int() -> None:
    assert hwbench.space("xl").size == 6 * (9**46 + 9**47 + 9**48)
    assert type(hwbench.space("xl").size) is int


@pytest.mark.parametrize(
    "space", [*map(hwbench.space, hwbench.spaces()), TINY], ids=lambda s: s.name
)
def test_smallest_and_largest(space: SearchSpace) -> None:
    low, high = space.smallest, space.largest
    n, m = min(space.n_layer), max(space.n_layer)
    assert (low.n_layer, low.embed_dim, low.bias) == (n, min(space.embed_dim), False)
    assert (high.n_layer, high.embed_dim, high.bias) == (m, max(space.embed_dim), True)
    assert (low.n_head, low.mlp_ratio) == ((min(space.n_head),) * n, (min(space.mlp_ratio),) * n)
    assert (high.n_head, high.mlp_ratio) == ((max(space.n_head),) * m, (max(space.mlp_ratio),) * m)
    assert hwbench.count(low).params < hwbench.count(high).params
    for arch in (low, high):
        assert Architecture.from_dict(arch.to_dict(), space) == arch


def test_contains_asks_which_space_an_architecture_belongs_to() -> None:
    s = hwbench.space("s")
    assert s.contains(s.smallest)
    assert not s.contains(hwbench.space("s-wide").largest)
    assert not dataclasses.replace(s, head_size=32).contains(s.smallest)
    for other in (None, str(s.smallest), s.smallest.to_dict(), s, float("nan")):
        assert not s.contains(other)


# -- sampling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hwbench.spaces())
def test_samples_are_members_as_if_checked_one_by_one(name: str) -> None:
    space = hwbench.space(name)
    for arch in space.sample(50, seed=7):
        checked = Architecture(
            arch.space, arch.n_layer, arch.embed_dim, arch.n_head, arch.mlp_ratio, arch.bias
        )
        assert checked == arch
        assert repr(checked) == repr(arch)
        assert space.contains(arch)


def even(values: list[Any], allowed: tuple[Any, ...]) -> float:
    """The p-value of the hypothesis that all the allowed values are equally likely."""
    seen = Counter(values)
    assert set(seen) <= set(allowed)
    return float(stats.chisquare([seen[a] for a in allowed]).pvalue)


def independent(pairs: list[tuple[Any, Any]]) -> float:
    """The p-value of the hypothesis that the two values of a pair are independent."""
    firsts, seconds = (sorted(set(side)) for side in zip(*pairs, strict=True))
    seen = Counter(pairs)
    table = [[seen[a, b] for b in seconds] for a in firsts]
    return float(stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize(
    "space", [*map(hwbench.space, hwbench.spaces()), TINY], ids=lambda s: s.name
)
def test_every_choice_is_drawn_uniformly_and_independently(space: SearchSpace) -> None:
    archs = space.sample(3000, seed=20240524)
    p = [
        even([a.n_layer for a in archs], space.n_layer),
        even([a.embed_dim for a in archs], space.embed_dim),
        even([a.bias for a in archs], space.bias),
        independent([(a.n_layer, a.embed_dim) for a in archs]),
        independent([(a.n_layer, a.bias) for a in archs]),
        independent([(a.embed_dim, a.n_head[0]) for a in archs]),
        independent([(a.bias, a.mlp_ratio[-1]) for a in archs]),
        independent([(a.n_head[0], a.mlp_ratio[0]) for a in archs]),
    ]
    for layer in range(max(space.n_layer)):
        deep = [a for a in archs if a.n_layer > layer]
        p.append(even([a.n_head[layer] for a in deep], space.n_head))
        p.append(even([a.mlp_ratio[layer] for a in deep], space.mlp_ratio))
        if layer:
            p.append(independent([(a.n_head[layer - 1], a.n_head[layer]) for a in deep]))
            p.append(independent([(a.mlp_ratio[layer - 1], a.mlp_ratio[layer]) for a in deep]))
    # The smallest of so many p-values: a true sampler fails one such test in ten thousand.
    assert min(p) > 1e-4 / len(p)


def test_small_space_is_drawn_whole_and_evenly() -> None:
    space = SearchSpace("flat", (64, 128), (2,), (1, 2), (2, 4), (True, False))
    drawn = [str(a) for a in space.sample(64 * 50, seed=5)]
    assert even(drawn, tuple(str(a) for a in everything(space))) > 1e-4


@given(st.sampled_from(hwbench.spaces()), st.integers(0, 2**64), st.integers(0, 20))
def test_the_first_of_many_are_the_few(name: str, seed: int, k: int) -> None:
    space = hwbench.space(name)
    assert space.sample(k, seed) == space.sample(20, seed)[:k]


def test_a_generator_goes_on_where_it_was() -> None:
    space, rng = hwbench.space("s"), np.random.default_rng(11)
    assert space.sample(4, rng) + space.sample(6, rng) == space.sample(10, 11)
    assert space.sample(3, 0) != space.sample(3, 1)


DIGEST = """
import hashlib, hwbench
text = "\\n".join(str(a) for s in hwbench.spaces() for a in hwbench.space(s).sample(200, 42))
near = "\\n".join(str(a) for s in hwbench.spaces() for a in hwbench.space(s).neighbours(
    hwbench.space(s).sample(1, 42)[0]))
print(hashlib.sha256((text + near).encode()).hexdigest())
"""


def test_same_seed_same_bytes_in_another_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    }
    assert len(found) == 1


def test_the_draws_of_a_seed_stay_what_they_were() -> None:
    texts = "\n".join(str(a) for s in hwbench.spaces() for a in hwbench.space(s).sample(100, 0))
    assert hashlib.sha256(texts.encode()).hexdigest() == (
        "f8087c105680cd682005aab0bc397e1b2f97e3a57842103668f513eeb216a534"
    )


@pytest.mark.parametrize("n", [-1, True, 1.0, "1", None, float("nan"), [1]])
def test_sample_refuses_a_wrong_n(n: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^The 'n' parameter of sample must be an int >= 0\."):
        hwbench.space("s").sample(n, seed=0)


@pytest.mark.parametrize("seed", [-1, True, 1.0, "1", None, float("nan"), [1]])
def test_sample_refuses_a_wrong_seed(seed: Any) -> None:
    message = r"^The 'seed' parameter of sample must be an int >= 0 or a numpy Generator\. Got "
    with pytest.raises(InvalidValue, match=message):
        hwbench.space("s").sample(1, seed)


def test_numpy_ints_are_taken() -> None:
    s = hwbench.space("s")
    assert s.sample(np.int64(3), np.uint32(5)) == s.sample(3, 5)  # type: ignore[arg-type]
    assert s.sample(0, 5) == []


def test_generator_names_its_caller() -> None:
    rng = np.random.default_rng(0)
    assert generator(rng, "f") is rng
    with pytest.raises(InvalidValue, match=r"^The 'seed' parameter of f "):
        generator(-1, "f")


# -- neighbours -----------------------------------------------------------------------------------


def differ_in_one_choice(a: Architecture, b: Architecture) -> bool:
    """The documented rule, as a question about two architectures of one space."""
    once = (a.embed_dim != b.embed_dim) + (a.bias != b.bias)
    if a.n_layer != b.n_layer:
        kept = min(a.n_layer, b.n_layer)
        same = all(
            y[:kept] == x[:kept] and set(y[kept:]) <= {x[-1]}
            for x, y in ((a.n_head, b.n_head), (a.mlp_ratio, b.mlp_ratio))
        )
        return same and not once
    layers = zip(a.n_head + a.mlp_ratio, b.n_head + b.mlp_ratio, strict=True)
    return once + sum(x != y for x, y in layers) == 1


def test_neighbours_are_what_brute_force_finds() -> None:
    archs = everything(TINY)
    for a in archs[::13]:
        found = TINY.neighbours(a)
        assert len(found) == len(set(found))
        assert set(found) == {b for b in archs if differ_in_one_choice(a, b)}
        assert a not in found


def test_neighbours_change_n_layer_by_cutting_or_repeating_the_last_layer() -> None:
    a = Architecture(TINY, 2, 64, (1, 2), (2, 4), True)  # type: ignore[arg-type]
    shorter, longer = TINY.neighbours(a)[:2]
    assert (shorter.n_layer, shorter.n_head, shorter.mlp_ratio) == (1, (1,), (2,))
    assert (longer.n_layer, longer.n_head, longer.mlp_ratio) == (3, (1, 2, 2), (2, 4, 4))


@pytest.mark.parametrize("name", hwbench.spaces())
def test_neighbours_in_order_and_in_number(name: str) -> None:
    space = hwbench.space(name)
    a = space.sample(1, seed=3)[0]
    found = space.neighbours(a)
    assert len(found) == 2 + 2 + 1 + 2 * 2 * a.n_layer
    assert [b.n_layer != a.n_layer for b in found[:3]] == [True, True, False]
    assert [b.embed_dim != a.embed_dim for b in found[:5]] == [False, False, True, True, False]
    assert found[4].bias is not a.bias
    assert all(space.contains(b) for b in found)
    same_depth = [b for b in found if b.n_layer == a.n_layer]
    assert all(a in space.neighbours(b) for b in same_depth)


def test_neighbours_refuse_what_is_not_of_the_space() -> None:
    for other in (hwbench.space("m").smallest, None, str(hwbench.space("s").smallest)):
        with pytest.raises(InvalidValue, match="must be an architecture of s"):
            hwbench.space("s").neighbours(other)  # type: ignore[arg-type]


# -- files ----------------------------------------------------------------------------------------

GOOD_FILE = """
embed_dim = [64, 128]
n_layer = [1, 2]
n_head = [1, 2]
mlp_ratio = [2, 4]
bias = [true]
head_size = 32
batch_size = 2
seq_len = 256
"""


def test_from_file_reads_every_field(tmp_path: Path) -> None:
    file = tmp_path / "my_space.toml"
    file.write_text(GOOD_FILE)
    expected = SearchSpace("my_space", (64, 128), (1, 2), (1, 2), (2, 4), (True,), 32, 2, 256)
    assert SearchSpace.from_file(file) == expected
    assert hwbench.space(file) == hwbench.space(str(file)) == expected
    file.write_text(GOOD_FILE + 'name = "other"\n')
    assert SearchSpace.from_file(str(file)).name == "other"


def test_from_file_fills_in_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("embed_dim = [64]\nn_layer = [1]\nn_head = [1]\nmlp_ratio = [2]\n")
    space = SearchSpace.from_file(file)
    assert space == SearchSpace(**FIELDS)
    assert (space.bias, space.head_size, space.tokens) == ((True, False), 64, 1024)


BAD_FILES = {
    "no_toml": (b"embed_dim = [64", "is not TOML: "),
    "no_utf8": (b"name = '\xff'", "is not TOML: "),
    "empty": (b"", "A search space needs the field 'embed_dim'."),
    "missing": (GOOD_FILE.replace("n_head = [1, 2]", "").encode(), "needs the field 'n_head'."),
    "misspelt": (
        GOOD_FILE.replace("n_head", "n_heads").encode(),
        "Unknown field of a search space 'n_heads'. Did you mean 'n_head'? Known: name, ",
    ),
    "no_list": (b"embed_dim = 64\nn_layer=[1]\nn_head=[1]\nmlp_ratio=[1]", "Got 64 instead."),
    "text": (GOOD_FILE.replace("[true]", '["true"]').encode(), "True, False or both. Got ('true'"),
    "nan": (GOOD_FILE.replace("[64, 128]", "[nan]").encode(), "The 'embed_dim' parameter of "),
    "twice": (GOOD_FILE.replace("[64, 128]", "[64, 64]").encode(), "different ints"),
    "table": (GOOD_FILE.encode() + b"[name]\na = 1", "The 'name' parameter of SearchSpace"),
    "huge": (GOOD_FILE.replace("64", "6" * 5000).encode(), "The space file "),
    "nested": (b"embed_dim = " + b"[" * 100_000, "is not TOML: "),
    "own-2": (GOOD_FILE.encode(), "words of letters, digits and '_' that start with a letter"),
    "s": (GOOD_FILE.encode(), "must not be that of a shipped space with other choices. Got 's'"),
}


@pytest.mark.parametrize("stem", BAD_FILES)
def test_from_file_says_what_is_wrong_with_a_file(tmp_path: Path, stem: str) -> None:
    content, wrong = BAD_FILES[stem]
    file = tmp_path / f"{stem}.toml"
    file.write_bytes(content)
    with pytest.raises(InvalidValue) as caught:
        SearchSpace.from_file(file)
    assert wrong in str(caught.value)
    assert f"{stem}.toml" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_copy_of_a_shipped_space_may_keep_its_name(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        "\n".join(f"{k} = {json.dumps(v)}" for k, v in hwbench.space("s").to_dict().items())
    )
    assert SearchSpace.from_file(file) == hwbench.space("s")


def test_from_file_says_what_is_wrong_with_a_path(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    for path in ("missing.toml", "folder.toml", "a" * 5000 + ".toml"):
        with pytest.raises(InvalidValue, match=r"^Cannot read the space file '.*: \w.*\.$"):
            hwbench.space(tmp_path / path)
    for path in ("a\0.toml", "\ud800.toml", "two\nlines.toml"):
        with pytest.raises(InvalidValue) as caught:
            hwbench.space(path)
        assert len(str(caught.value).splitlines()) == 1
