"""`Architecture`: round trips over all spaces, and one kind of error for everything else."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hwbench
from hwbench.architectures import Architecture, SearchSpace
from hwbench.errors import InvalidArchitecture

TINY = SearchSpace("tiny", (64, 128), (1, 2), (1, 2), (2, 4), (True, False), head_size=32)
OF_S = Architecture("s", 10, 192, (4,) * 10, (2,) * 10, False)
GOOD = OF_S.to_dict()


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    """Any architecture of any named space, put together here and not by `sample`."""
    space = hwbench.space(draw(st.sampled_from(hwbench.spaces())))
    n = draw(st.sampled_from(space.n_layer))
    per_layer = [
        draw(st.lists(st.sampled_from(choices), min_size=n, max_size=n))
        for choices in (space.n_head, space.mlp_ratio)
    ]
    return Architecture(
        space.name,
        n,
        draw(st.sampled_from(space.embed_dim)),
        tuple(per_layer[0]),
        tuple(per_layer[1]),
        draw(st.booleans()),
    )


# -- round trips ----------------------------------------------------------------------------------


@given(architectures())
def test_text_round_trip(arch: Architecture) -> None:
    text = str(arch)
    assert Architecture.parse(text) == arch
    assert Architecture.parse(f"  {text}\n", space=hwbench.space(arch.space)) == arch
    ratios, heads = "-".join(map(str, arch.mlp_ratio)), "-".join(map(str, arch.n_head))
    shape = f"{arch.n_layer}-{arch.embed_dim}"
    assert text == f"gpt-{arch.space}-{shape}-{ratios}-{heads}-{arch.bias}"


@given(architectures())
def test_dict_round_trip(arch: Architecture) -> None:
    values = arch.to_dict()
    assert Architecture.from_dict(values) == arch
    assert Architecture.from_dict(json.loads(json.dumps(values))) == arch
    values.pop("space")
    assert Architecture.from_dict(values, space=arch.space) == arch
    assert Architecture.from_dict(values, space=arch.search_space) == arch


@given(architectures(), st.lists(st.integers() | st.none() | st.text(), max_size=5))
def test_sampled_dict_of_hw_gpt_bench_may_have_longer_lists(
    arch: Architecture, tail: list[Any]
) -> None:
    values = {
        "sample_n_layer": arch.n_layer,
        "sample_embed_dim": arch.embed_dim,
        "sample_n_head": [*arch.n_head, *tail],
        "sample_mlp_ratio": (*arch.mlp_ratio, *tail),
        "sample_bias": arch.bias,
    }
    before = copy.deepcopy(values)
    assert Architecture.from_dict(values, space=arch.space) == arch
    assert values == before
    with_indices = {**values, "sample_layer_indices": list(range(arch.n_layer))}
    assert Architecture.from_dict({**with_indices, "space": arch.space}) == arch


@given(architectures())
def test_pickle_and_copy_round_trip_and_equal_values_hash_alike(arch: Architecture) -> None:
    for twin in (pickle.loads(pickle.dumps(arch)), copy.deepcopy(arch), copy.copy(arch)):  # noqa: S301
        assert twin == arch
        assert hash(twin) == hash(arch)
        assert len({twin, arch}) == 1
        assert twin.search_space == arch.search_space


@given(architectures())
def test_numpy_values_become_python_values(arch: Architecture) -> None:
    made = Architecture(
        arch.space,
        np.int64(arch.n_layer),  # type: ignore[arg-type]
        np.int16(arch.embed_dim),  # type: ignore[arg-type]
        np.array(arch.n_head, np.int16),  # type: ignore[arg-type]
        [np.uint8(r) for r in arch.mlp_ratio],  # type: ignore[arg-type]
        np.bool_(arch.bias),  # type: ignore[arg-type]
    )
    assert made == arch
    assert str(made) == str(arch)
    assert {type(v) for v in (made.n_layer, made.embed_dim, *made.n_head, *made.mlp_ratio)} == {int}
    assert type(made.bias) is bool
    json.dumps(made.to_dict())


def test_sampled_lists_may_be_arrays() -> None:
    values = {f"sample_{k}": v for k, v in GOOD.items() if k != "space"}
    values["sample_n_head"] = np.full(12, 4)
    assert Architecture.from_dict(values, space="s") == OF_S


# -- a space of one's own -------------------------------------------------------------------------


@pytest.mark.parametrize("arch", [*TINY.sample(20, seed=0), TINY.smallest, TINY.largest], ids=str)
def test_own_space_round_trips_where_the_space_is_given(arch: Architecture) -> None:
    assert Architecture.parse(str(arch), TINY) == arch
    assert Architecture.from_dict(arch.to_dict(), TINY) == arch
    with pytest.raises(InvalidArchitecture, match=r"^Unknown space 'tiny'"):
        Architecture.parse(str(arch))
    with pytest.raises(InvalidArchitecture, match=r"^Unknown space 'tiny'"):
        Architecture.from_dict(arch.to_dict())


def test_own_space_may_be_given_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text("embed_dim = [64]\nn_layer = [1]\nn_head = [1]\nmlp_ratio = [2]\n")
    space = hwbench.space(str(file))
    values = space.largest.to_dict()
    assert Architecture.from_dict(values, space=str(file)) == space.largest
    values.pop("space")
    assert Architecture.from_dict(values, space=str(file)) == space.largest


def test_an_architecture_never_has_a_file_read(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text("embed_dim = [64]\nn_layer = [1]\nn_head = [1]\nmlp_ratio = [2]\n")
    values = hwbench.space(file).largest.to_dict()
    with pytest.raises(InvalidArchitecture, match=r"^Unknown space "):
        Architecture.from_dict({**values, "space": str(file)})
    with pytest.raises(InvalidArchitecture, match=r"^Unknown space "):
        Architecture(str(file), 1, 64, (1,), (2,), True)


def test_two_spaces_must_agree() -> None:
    message = r"^The architecture names the space 's', but space 'm' was given\.$"
    with pytest.raises(InvalidArchitecture, match=message):
        Architecture.parse(str(OF_S), hwbench.space("m"))
    with pytest.raises(InvalidArchitecture, match=message):
        Architecture.from_dict(GOOD, space="m")


def test_same_choices_of_different_spaces_are_different_architectures() -> None:
    other = dataclasses.replace(TINY, name="other")
    bigger = dataclasses.replace(TINY, head_size=64)
    a, b, c = (s.smallest for s in (TINY, other, bigger))
    assert len({a, b, c}) == 3
    assert a == dataclasses.replace(TINY).smallest


# -- what is refused ------------------------------------------------------------------------------


def refused(make: Any, *args: Any, **kwargs: Any) -> str:
    """The message of the one error that may come: one line, not too long."""
    with pytest.raises(InvalidArchitecture) as caught:
        make(*args, **kwargs)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 400
    return message


WRONG: dict[str, list[Any]] = {
    "n_layer": [True, 10.0, "10", None, 9, -1, 0, float("nan"), [10], np.float64(10), 10**5000],
    "embed_dim": [False, 192.0, "192", None, 193, float("inf"), (192,), {}, -(10**5000)],
    "n_head": [
        4,
        None,
        "4444444444",
        b"4444444444",
        {4},
        range(10),
        [4] * 9,
        [4] * 11,
        [],
        [4] * 9 + [5],
        [4.0] * 10,
        [True] * 10,
        [None] * 10,
        [[4]] * 10,
        [float("nan")] * 10,
        ["4"] * 10,
        [4] * 9 + [10**5000],
        np.full((10, 1), 4),
        np.array(4),
        np.full(10, 4.0),
        np.array([True] * 10),
        np.array([4] * 9 + [None]),
    ],
    "bias": ["False", "True", 0, 1, None, 1.0, np.int64(1), np.array([True]), [True], "yes"],
}
WRONG["mlp_ratio"] = [*WRONG["n_head"], [1] * 10, [5] * 10]
CASES = [
    pytest.param(field, wrong, id=f"{field}-{i}")
    for field, values in WRONG.items()
    for i, wrong in enumerate(values)
]


@pytest.mark.parametrize("field, wrong", CASES)
def test_wrong_values_are_refused_by_name(field: str, wrong: Any) -> None:
    fields = {**GOOD, field: wrong}
    ours, sampled = dict(fields), {f"sample_{k}": v for k, v in fields.items() if k != "space"}
    assert refused(Architecture, **ours).startswith(field)
    assert refused(Architecture.from_dict, ours).startswith(field)
    # A longer list is what the sampled form allows.
    long = isinstance(wrong, list) and len(wrong) == 11
    if not long:
        assert refused(Architecture.from_dict, sampled, space="s").startswith(field)
    assert refused(OF_S.replace, **{field: wrong}).startswith(field)


def test_messages_name_what_arrived_and_what_is_allowed() -> None:
    assert refused(Architecture, **{**GOOD, "embed_dim": 200}) == (
        "embed_dim must be one of 192, 384, 768 in space s. Got 200 instead."
    )
    assert refused(Architecture, **{**GOOD, "n_head": [4] * 7 + [True] + [4] * 2}) == (
        "n_head[7] must be one of 4, 8, 12 in space s. Got True instead."
    )
    assert refused(Architecture, **{**GOOD, "n_head": [4] * 7}) == (
        "n_head must have one entry a layer, 10 in all. Got 7 instead."
    )
    assert refused(Architecture, **{**GOOD, "bias": "False"}) == (
        "bias must be True or False in space s. Got 'False' instead."
    )
    two_axes = refused(Architecture, **{**GOOD, "n_head": np.full((10, 1), 4)})
    assert "Got array([[4]," in two_axes


def test_bias_must_be_one_of_the_space() -> None:
    only = dataclasses.replace(TINY, bias=(True,))
    values = {**only.smallest.to_dict(), "bias": False}
    message = "bias must be True in space tiny. Got False instead."
    assert refused(Architecture.from_dict, values, only) == message


@pytest.mark.parametrize(
    "space", ["xs", "", "S", None, 1, b"s", ["s"], float("nan"), "s.toml", "\0.toml", "s\n"]
)
def test_wrong_spaces_are_refused(space: Any) -> None:
    refused(Architecture, **{**GOOD, "space": space})
    refused(Architecture.from_dict, {**GOOD, "space": space})
    values = {k: v for k, v in GOOD.items() if k != "space"}
    refused(Architecture.from_dict, values, space=space)


@pytest.mark.parametrize(
    "values, wrong",
    [
        (None, "must be a mapping. Got None"),
        ([1], "must be a mapping. Got [1]"),
        (str(OF_S), "must be a mapping. Got 'gpt-s-10"),
        ({}, "needs a 'space', or space="),
        ({"space": "s"}, "Got no key 'n_layer'"),
        ({**GOOD, "heads": 1}, "Got unknown key 'heads'"),
        (dict([*GOOD.items(), (5, 1)]), "Got unknown key 5"),
        ({**GOOD, "sample_n_head": [4] * 10}, "Got unknown key 'n_layer'"),
        ({**GOOD, "sample_layer_indices": []}, "Got unknown key 'n_layer'"),
        ({k: v for k, v in GOOD.items() if k != "bias"}, "Got no key 'bias'"),
        ({f"sample_{k}": v for k, v in GOOD.items()}, "needs a 'space', or space="),
    ],
)
def test_wrong_dicts_are_refused(values: Any, wrong: str) -> None:
    assert wrong in refused(Architecture.from_dict, values)


def test_dict_with_an_unwritable_key_is_refused() -> None:
    refused(Architecture.from_dict, dict([*GOOD.items(), (10**5000, 1)]))


# -- text that is no architecture -----------------------------------------------------------------


@given(st.text() | st.none() | st.integers() | st.binary() | st.from_regex(r"\Agpt-[\w-]*\Z"))
def test_random_text_finds_only_the_one_error(text: Any) -> None:
    refused(Architecture.parse, text)


PIECES = ["-", "--", "0", "12", "4", "True", "False", "true", "gpt", "s", " ", "\n", "٣", "²", "+4"]


@st.composite
def mutated_texts(draw: st.DrawFn) -> str:
    """A valid text with fields replaced, doubled, dropped or swapped, or characters put in."""
    fields = str(draw(architectures())).split("-")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(fields) - 1))
        kind = draw(st.sampled_from(["replace", "double", "drop", "swap", "insert"]))
        if kind == "replace":
            fields[at] = draw(st.sampled_from(PIECES) | st.integers(-5, 2000).map(str))
        elif kind == "double":
            fields.insert(at, fields[at])
        elif kind == "drop" and len(fields) > 1:
            del fields[at]
        elif kind == "swap":
            other = draw(st.integers(0, len(fields) - 1))
            fields[at], fields[other] = fields[other], fields[at]
        else:
            place = draw(st.integers(0, len(fields[at])))
            piece = draw(st.sampled_from(PIECES) | st.characters())
            fields[at] = fields[at][:place] + piece + fields[at][place:]
    return "-".join(fields)


@given(mutated_texts())
def test_a_mutated_text_is_refused_or_written_back_as_it_is(text: str) -> None:
    try:
        arch = Architecture.parse(text)
    except InvalidArchitecture:
        refused(Architecture.parse, text)
    else:
        assert str(arch) == text.strip()
        assert Architecture.from_dict(arch.to_dict()) == arch


@pytest.mark.parametrize(
    "text, wrong",
    [
        (str(OF_S).replace("-False", "-false"), "must be True or False. Got 'false'"),
        (str(OF_S).replace("-False", "-0"), "bias, must be True or False. Got '0'"),
        (str(OF_S)[:8], "must be of the form gpt-<space>-"),
        (str(OF_S).replace("-False", ""), "bias, must be True or False. Got '4'"),
        (str(OF_S).replace("-192-", "-192-2-"), "20 numbers in all. Got 21"),
        (str(OF_S).replace("-192-", "-193-"), "embed_dim must be one of 192, 384, 768 in space s"),
        (str(OF_S).replace("-10-", "-010-"), "must be of the form"),
        (str(OF_S).replace("-10-", "-9-"), "18 numbers in all. Got 20"),
        (str(OF_S).replace("gpt-", "GPT-"), "must be of the form"),
        (str(OF_S).replace("gpt-s-", "gpt-x-"), "Unknown space 'x'"),
        (str(OF_S).replace("gpt-s-", "gpt-s-wide-"), "n_layer must be one of 3, 6, 12"),
        (str(OF_S).replace("-192-", "-١٩٢-"), "must be of the form"),
    ],
)
def test_near_misses_are_told_what_is_wrong(text: str, wrong: str) -> None:
    assert wrong in refused(Architecture.parse, text)


@pytest.mark.parametrize("unit", ["-1", "-123456789", "-a", "-a1", "a", "1", "-", "-a-1"])
def test_long_texts_are_read_in_linear_time(unit: str) -> None:
    text = "gpt-a" + unit * (200_000 // len(unit)) + "-!"
    start = time.perf_counter()
    refused(Architecture.parse, text)
    assert time.perf_counter() - start < 2


# -- a value --------------------------------------------------------------------------------------


def test_frozen_and_slotted() -> None:
    for name in (f.name for f in dataclasses.fields(Architecture)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(OF_S, name, 1)
    assert not hasattr(OF_S, "__dict__")


def test_inputs_are_neither_kept_nor_changed() -> None:
    heads = [4] * 10
    arch = Architecture("s", 10, 192, heads, (2,) * 10, False)  # type: ignore[arg-type]
    heads[0] = 8
    assert arch.n_head == (4,) * 10
    arch.to_dict()["n_head"][0] = 8
    assert arch == OF_S


def test_replace_checks_anew() -> None:
    assert OF_S.replace(embed_dim=768).embed_dim == 768
    assert OF_S.replace() == OF_S
    assert refused(OF_S.replace, n_layer=11) == (
        "n_head must have one entry a layer, 11 in all. Got 10 instead."
    )


def test_repr_is_short_and_names_the_space() -> None:
    assert re.fullmatch(r"Architecture\(space='s', n_layer=10, .*, bias=False\)", repr(OF_S))
