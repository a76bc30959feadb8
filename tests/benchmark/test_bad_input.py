"""What a benchmark is asked wrongly: one line that says what arrived and what is allowed."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hwbench import Architecture, Benchmark, SearchSpace, space
from hwbench.architectures import ArchitectureTable
from hwbench.errors import (
    HwbenchError,
    InvalidArchitecture,
    InvalidStore,
    InvalidValue,
    UnknownName,
)
from tests.benchmark.conftest import OWN

ARCH = space("s").smallest
OTHER = space("m").smallest
Kind = type[HwbenchError]


def refused(ask: Callable[[], Any], kind: Kind, *words: str) -> None:
    """The question is refused in one line that holds the words."""
    with pytest.raises(kind) as caught:
        ask()
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    "given, kind, words",
    [
        ("xs", UnknownName, ("Unknown space 'xs'. Did you mean 's'?", "Known: s, m, l, xl,")),
        ("", UnknownName, ("Unknown space ''",)),
        ("nope.toml", InvalidValue, ("Cannot read the space file 'nope.toml'",)),
        (None, InvalidValue, ("must be a str, a path or a SearchSpace. Got None",)),
        (3, InvalidValue, ("Got 3 instead",)),
        (["s"], InvalidValue, ("Got ['s'] instead",)),
        (ARCH, InvalidValue, ("Got Architecture(",)),
    ],
)
def test_a_space(given: Any, kind: Kind, words: tuple[str, ...]) -> None:
    refused(lambda: Benchmark(given), kind, *words)


@pytest.mark.parametrize(
    "given, kind",
    [("nowhere", InvalidStore), (3, InvalidValue), (["a"], InvalidValue), (b"a", InvalidValue)],
)
def test_a_store(given: Any, kind: Kind) -> None:
    refused(lambda: Benchmark("s", store=given), kind)


def test_a_store_that_is_broken(store: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(store, tmp_path / "copy"))
    file = copy / "observations/my-gpu/own.parquet"
    file.write_bytes(file.read_bytes()[:100])
    bench = Benchmark(OWN, store=copy)
    refused(lambda: bench.query(bench.space.smallest), InvalidStore, "Cannot read", "own.parquet")
    refused(
        lambda: bench.recorded(bench.space.smallest, "my-gpu", "latency"),
        InvalidStore,
        "Cannot read",
    )
    (copy / "store.toml").write_text("name = ")
    refused(lambda: Benchmark("s", store=copy), InvalidStore, "store.toml")


NO_ARCHITECTURES = [
    pytest.param(None, id="None"),
    pytest.param([], id="an empty list"),
    pytest.param(np.array([]), id="an empty array"),
    pytest.param(ArchitectureTable.of([ARCH]).take(np.array([], np.int64)), id="an empty table"),
    pytest.param(str(ARCH), id="a text"),
    pytest.param([str(ARCH)], id="texts"),
    pytest.param(ARCH.to_dict(), id="a dict"),
    pytest.param(5, id="an int"),
    pytest.param(math.nan, id="a NaN"),
    pytest.param([ARCH, None], id="Nones"),
    pytest.param(np.ones((2, 3)), id="numbers"),
    pytest.param(np.array(ARCH, dtype=object), id="a scalar array"),
    pytest.param(pd.DataFrame({"arch": [ARCH]}), id="a frame"),
    pytest.param(OTHER, id="another space"),
    pytest.param([ARCH, OTHER], id="some of another space"),
    pytest.param(Architecture, id="the class"),
]


@pytest.mark.parametrize("given", NO_ARCHITECTURES)
def test_architectures(bench: Benchmark, given: Any) -> None:
    refused(lambda: bench.predict(given, "h100"), InvalidArchitecture)
    refused(lambda: bench.predict(given, None, "params"), InvalidArchitecture)
    refused(lambda: bench.query_many(given, "h100"), InvalidArchitecture)
    refused(lambda: bench.query(given, "h100"), InvalidArchitecture)


def test_what_is_wrong_with_architectures_is_said(bench: Benchmark) -> None:
    for given, words in (
        ([], "at least one architecture. Got none."),
        (None, "An Architecture, or several, is needed. Got None"),
        ([None], "must be an Architecture. Got None"),
        (OTHER, "must be of space 's'. Got one of 'm' instead"),
        ([ARCH, OTHER], "must be of one space. Got 's' and 'm'"),
    ):
        refused(lambda g=given: bench.predict(g, "h100"), InvalidArchitecture, words)  # type: ignore[misc]
    twin = SearchSpace.from_dict({**space("s").to_dict(), "n_layer": [10]})
    refused(
        lambda: bench.predict(twin.smallest, "h100"),
        InvalidArchitecture,
        "Got one of 's' with other choices instead",
    )


def test_one_architecture_is_not_several(bench: Benchmark) -> None:
    """`query` once took a list of two and answered for the first."""
    for given in ([ARCH], [ARCH, ARCH], (ARCH,), ArchitectureTable.of([ARCH, ARCH])):
        refused(
            lambda g=given: bench.query(g),  # type: ignore[misc]
            InvalidArchitecture,
            "'arch' parameter of query must be an Architecture",
        )


CHOICES = {
    "n_layer": 10,
    "embed_dim": 192,
    "n_head": (4,) * 10,
    "mlp_ratio": (2,) * 10,
    "bias": False,
}


@pytest.mark.parametrize(
    "change, words",
    [
        ({"n_layer": 9}, "n_layer must be one of 10, 11, 12 in space s. Got 9"),
        ({"n_layer": 10.0}, "Got 10.0 instead"),
        ({"embed_dim": math.nan}, "embed_dim must be one of 192, 384, 768 in space s. Got nan"),
        ({"n_head": (4,) * 9}, "one entry a layer, 10 in all. Got 9"),
        ({"n_head": (4,) * 9 + (5,)}, "n_head[9] must be one of 4, 8, 12 in space s. Got 5"),
        ({"mlp_ratio": (2.5,) * 10}, "mlp_ratio[0] must be one of 2, 3, 4 in space s. Got 2.5"),
        ({"mlp_ratio": None}, "must be a list of 10 ints"),
        ({"bias": "False"}, "Got 'False' instead"),
        ({"bias": 1}, "Got 1 instead"),
    ],
)
def test_an_architecture_outside_its_space_does_not_exist(
    change: dict[str, Any], words: str
) -> None:
    refused(lambda: Architecture("s", **{**CHOICES, **change}), InvalidArchitecture, words)


@pytest.mark.parametrize(
    "given, kind, words",
    [
        ("h10", UnknownName, ("Unknown device 'h10'. Did you mean 'h100'?", "Known: a100, a40,")),
        ("H100", UnknownName, ("Did you mean 'h100'?",)),
        ("", UnknownName, ("Unknown device ''",)),
        (
            None,
            InvalidValue,
            ("'device' parameter of predict must be one of a100, a40,", "Got None"),
        ),
        (5, InvalidValue, ("Got 5 instead",)),
        (math.nan, InvalidValue, ("Got nan instead",)),
        (["h100"], InvalidValue, ("Got ['h100'] instead",)),
        (["h100", "a100"], InvalidValue, ("Got ['h100', 'a100'] instead",)),
        ([], InvalidValue, ("Got [] instead",)),
        (b"h100", InvalidValue, ("Got b'h100' instead",)),
    ],
)
def test_a_device_of_predict(
    bench: Benchmark, given: Any, kind: Kind, words: tuple[str, ...]
) -> None:
    refused(lambda: bench.predict(ARCH, given), kind, *words)


def test_a_device_where_none_belongs(bench: Benchmark) -> None:
    for metric in ("perplexity", "accuracy", "params"):
        refused(
            lambda m=metric: bench.predict(ARCH, "h100", m),  # type: ignore[misc]
            InvalidValue,
            f"must be None for {metric}, which has none. Got 'h100' instead",
        )


@pytest.mark.parametrize(
    "given, kind, words",
    [
        ("latenc", UnknownName, ("Unknown metric 'latenc'. Did you mean 'latency'?", "Known:")),
        ("memory_peak_allocated_mb", UnknownName, ("Known: latency, energy, memory,",)),
        (None, InvalidValue, ("'metric' parameter of predict must be one of latency,", "Got None")),
        (5, InvalidValue, ("Got 5 instead",)),
        (["latency"], InvalidValue, ("Got ['latency'] instead",)),
    ],
)
def test_a_metric_of_predict(
    bench: Benchmark, given: Any, kind: Kind, words: tuple[str, ...]
) -> None:
    refused(lambda: bench.predict(ARCH, "h100", given), kind, *words)


@pytest.mark.parametrize("name", ["devices", "metrics"])
@pytest.mark.parametrize(
    "given",
    [5, [], (), "", "nope", ["nope"], [None], [5], math.nan, b"h100", True, np.array("h100"), {}],
    ids=repr,
)
def test_names_of_a_query(bench: Benchmark, name: str, given: Any) -> None:
    kind: Any = (InvalidValue, UnknownName)
    with pytest.raises(kind) as one:
        bench.query(ARCH, **{name: given})
    with pytest.raises(kind) as many:
        bench.query_many([ARCH], **{name: given})
    for caught in (one, many):
        assert "\n" not in str(caught.value)
        assert name.removesuffix("s") in str(caught.value)
    assert str(one.value).replace(" query ", " query_many ") == str(many.value)


@pytest.mark.parametrize(
    "given",
    [
        [],
        [0],
        [1],
        [0.5, 1.0],
        [-0.1],
        [math.nan],
        [0.5, math.nan],
        [math.inf],
        None,
        [None],
        "0.5",
        ["0.5"],
        "median",
        True,
        [True, False],
        [[0.5]],
        [[0.1], [0.2, 0.3]],
        [0.5 + 0j],
        {0.5},
        {"q": 0.5},
        10**400,
        np.array(["2020"], "datetime64[D]"),
    ],
    ids=lambda v: repr(v)[:30],
)
def test_levels(bench: Benchmark, given: Any) -> None:
    refused(
        lambda: bench.predict(ARCH, "h100", quantiles=given),
        InvalidValue,
        "The 'quantiles' parameter of predict must be a number in (0, 1), or several. Got ",
    )
    refused(lambda: bench.predict(ARCH, None, "params", given), InvalidValue, "'quantiles'")
