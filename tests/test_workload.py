"""`Workload`: round trips, and nothing that cannot have been run."""

from __future__ import annotations

import dataclasses
import json
import pickle
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwbench.errors import InvalidValue
from hwbench.workload import BLOCKS, PHASES, Workload

GOOD: dict[str, Any] = {"batch_size": 8, "seq_len": 1024, "method": "wall clock"}


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    words = st.text(min_size=1, max_size=20)
    block: Any = draw(st.sampled_from(BLOCKS))
    phase: Any = draw(st.sampled_from(PHASES))
    return Workload(
        block=block,
        phase=phase,
        batch_size=draw(st.integers(1, 10**6)),
        seq_len=draw(st.integers(1, 10**6)),
        new_tokens=draw(st.integers(1, 1000)) if phase == "decode" else 0,
        weights_dtype=draw(words),
        compute_dtype=draw(words),
        autocast=draw(st.booleans()),
        method=draw(words),
        warmup_repeats=draw(st.integers(0, 100)),
    )


@given(workloads())
def test_round_trips(workload: Workload) -> None:
    assert Workload.from_dict(workload.to_dict()) == workload
    assert Workload.from_dict(json.loads(json.dumps(workload.to_dict()))) == workload
    copy = pickle.loads(pickle.dumps(workload))  # noqa: S301
    assert copy == workload
    assert hash(copy) == hash(workload)


def test_defaults_are_the_recorded_forward() -> None:
    made = Workload(**GOOD)
    assert (made.block, made.phase, made.new_tokens) == ("hwgpt", "forward", 0)
    assert (made.weights_dtype, made.compute_dtype, made.autocast) == ("float32", "float32", False)


@pytest.mark.parametrize(
    "field, wrong",
    [
        ("block", "gpt3"),
        ("block", None),
        ("block", ["gpt2"]),
        ("block", np.array(["gpt2", "hwgpt"])),
        ("phase", "prefill"),
        ("phase", 1),
        ("batch_size", 0),
        ("batch_size", True),
        ("batch_size", 8.0),
        ("batch_size", "8"),
        ("seq_len", -1),
        ("seq_len", float("nan")),
        ("new_tokens", -1),
        ("new_tokens", False),
        ("warmup_repeats", -1),
        pytest.param("warmup_repeats", -(10**5000), id="huge"),
        ("autocast", 1),
        ("autocast", "False"),
        ("weights_dtype", ""),
        ("compute_dtype", None),
        ("method", ""),
        ("method", 3),
    ],
)
def test_wrong_values_are_refused_by_name(field: str, wrong: object) -> None:
    for make in (lambda values: Workload(**values), Workload.from_dict):
        with pytest.raises(
            InvalidValue, match=rf"^The '{field}' parameter of Workload must be "
        ) as e:
            make({**GOOD, field: wrong})
        assert len(str(e.value).splitlines()) == 1


@pytest.mark.parametrize(
    "phase, new_tokens, allowed",
    [("forward", 5, "0"), ("train", 1, "0"), ("decode", 0, "an int >= 1")],
)
def test_new_tokens_belong_to_decoding(phase: Any, new_tokens: int, allowed: str) -> None:
    with pytest.raises(InvalidValue, match=rf"'new_tokens' .* must be {allowed} in phase {phase}"):
        Workload(**GOOD, phase=phase, new_tokens=new_tokens)


@pytest.mark.parametrize(
    "values, wrong",
    [
        ({**GOOD, "dtype": "float32"}, "'dtype'"),
        (dict([*GOOD.items(), (3, 4)]), "3"),
        ({k: v for k, v in GOOD.items() if k != "method"}, "batch_size, seq_len and method"),
        ({}, "batch_size, seq_len and method"),
        (None, "a mapping"),
        (["batch_size"], "a mapping"),
        ("batch_size", "a mapping"),
    ],
)
def test_wrong_mappings_are_refused(values: Any, wrong: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Workload.from_dict(values)
    assert wrong in str(caught.value)


def test_frozen_and_slotted() -> None:
    made = Workload(**GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.batch_size = 1  # type: ignore[misc]
    assert not hasattr(made, "__dict__")


@pytest.mark.parametrize(
    "changes, text",
    [
        ({}, "hwgpt forward, batch 8 x 1024 tokens, float32 weights: wall clock"),
        (
            {"compute_dtype": "float16", "autocast": True, "method": "method"},
            "hwgpt forward, batch 8 x 1024 tokens, float32 weights under float16 autocast: method",
        ),
        (
            {"phase": "decode", "new_tokens": 32, "block": "gpt2"},
            "gpt2 decode, batch 8 x 1024 tokens, 32 new tokens, float32 weights: wall clock",
        ),
    ],
)
def test_one_line_for_a_reader(changes: dict[str, Any], text: str) -> None:
    assert str(Workload(**{**GOOD, **changes})) == text


@pytest.mark.recorded
def test_every_recorded_workload_can_be_read(recorded_store: Path) -> None:
    tables = tomllib.loads((recorded_store / "store.toml").read_text("utf-8"))["workloads"]
    assert tables
    for table in tables:
        assert table.items() <= Workload.from_dict(table).to_dict().items()
