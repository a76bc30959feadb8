"""A pickle builds plain values or nothing: no name in it is ever imported or called."""

from __future__ import annotations

import collections
import datetime as dt
import io
import os
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwbench.records.importing import InvalidPickle, load

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=10,
)


def dumped(folder: Path, value: Any, protocol: int = 4) -> Path:
    return written(folder, pickle.dumps(value, protocol))


def written(folder: Path, data: bytes) -> Path:
    path = folder / "a.pkl"
    path.write_bytes(data)
    return path


@given(PLAIN, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_values_come_back(
    tmp_path_factory: pytest.TempPathFactory, value: Any, protocol: int
) -> None:
    assert load(dumped(tmp_path_factory.mktemp("p"), value, protocol)) == value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "value",
    [
        np.float64(1.5),
        np.float32(1.5),
        np.int64(-3),
        np.bool_(True),
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(3, dtype=">i4"),
        np.zeros(0),
        np.array(["ab", "c"]),
        {1, 2},
        frozenset("ab"),
    ],
    ids=str,
)
def test_numpy_values_and_sets_come_back(tmp_path: Path, value: Any, protocol: int) -> None:
    read = load(dumped(tmp_path, {"a": [value]}, protocol))["a"][0]
    assert np.array_equal(read, value) if isinstance(value, np.ndarray) else read == value
    if isinstance(value, np.generic | np.ndarray):
        # Some protocols change to the machine's byte order, as numpy's own reader does.
        assert read.dtype.newbyteorder("=") == value.dtype.newbyteorder("=")


@pytest.mark.parametrize("module", [b"numpy.core.multiarray", b"numpy._core.multiarray"])
def test_both_names_of_numpys_core(tmp_path: Path, module: bytes) -> None:
    data = pickle.dumps([np.float64(2.5), np.arange(3)], 2)
    assert b"numpy._core.multiarray" in data or b"numpy.core.multiarray" in data
    for name in (b"numpy._core.multiarray", b"numpy.core.multiarray"):
        data = data.replace(name, b"<module>")
    scalar, array = load(written(tmp_path, data.replace(b"<module>", module)))
    assert scalar == 2.5
    assert array.tolist() == [0, 1, 2]


class Runs:
    """Runs a command when it is unpickled by a reader that lets it."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    "function, name",
    [
        (os.system, f"{os.system.__module__}.system"),
        (eval, "builtins.eval"),
        (exec, "builtins.exec"),
        (open, "open"),
        (getattr, "builtins.getattr"),
        (bytearray, "builtins.bytearray"),
        (os.getcwd, "getcwd"),
    ],
)
def test_nothing_is_run(tmp_path: Path, function: Any, name: str) -> None:
    trace = tmp_path / "trace"
    for wrapped in (Runs(function, f"touch {trace}"), [{"a": (Runs(function, str(trace)),)}]):
        with pytest.raises(InvalidPickle, match=name) as error:
            load(dumped(tmp_path, wrapped))
        assert "\n" not in str(error.value)
        assert not trace.exists()


@pytest.mark.parametrize(
    "value, name",
    [
        (collections.OrderedDict(a=1), "collections.OrderedDict"),
        (collections.Counter("a"), "collections.Counter"),
        (dt.date(2024, 5, 24), "datetime.date"),
        (Path("a"), "pathlib"),
        (range(3), "builtins.range"),
        (np.datetime64("2024-05-24"), "M8"),
        (np.array([1, "a"], dtype=object), "'O8'"),
        (np.array([(1, 2.0)], dtype="i4,f8"), "V12"),
        (np.random.default_rng, "default_rng"),
        (io.StringIO("a"), "io.StringIO"),
    ],
    ids=str,
)
def test_anything_else_is_named(tmp_path: Path, value: Any, name: str) -> None:
    with pytest.raises(InvalidPickle) as error:
        load(dumped(tmp_path, [value]))
    assert name in str(error.value)


def global_(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "not a whole pickle"),
        (b"\x80\x04", "not a whole pickle"),
        (b"not a pickle at all", "not a whole pickle"),
        (pickle.dumps(list(range(1000)))[:-3], "not a whole pickle"),
        (pickle.dumps([np.arange(9)])[:-9], "not a whole pickle"),
        (b"P1\n.", "outside the file"),
        (b"\x80\x02K\x01Q.", "outside the file"),
        # A constructor is a thing to be called with what it takes, and nothing else.
        (global_("numpy", "ndarray") + b"(I5\ntR.", "calls numpy.ndarray"),
        (global_("numpy", "ndarray") + b")\x81.", "not a whole pickle"),
        (global_("numpy", "dtype") + b"}Vx\nI1\nsb.", "sets the state of a constructor"),
        (global_("numpy", "dtype") + b"(I5\ntR.", "not a whole pickle"),
        (global_("numpy", "dtype") + b"(VO8\ntR.", "numpy type 'O8'"),
        (global_("numpy", "dtype") + b"(Vf8\ntR(I3\nVx\ntb.", "no byte order"),
        (global_("numpy._core.multiarray", "scalar") + b"(I1\ntR.", "without a numpy type"),
        (global_("numpy._core.multiarray", "scalar") + b".", "function of numpy's"),
        (b"(lp0\n(dp1\nVa\n" + global_("numpy", "dtype") + b"(Vf8\ntRsa.", "function of numpy's"),
        (global_("numpy", "dtype.type"), "numpy.dtype.type"),
        (global_("numpy.core.multiarray", "fromfile") + b".", "fromfile"),
        (global_("_codecs", "encode") + b"(Va\nVrot13\ntR.", "unknown encoding"),
    ],
    ids=range(19),
)
def test_streams_that_make_no_sense(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InvalidPickle) as error:
        load(written(tmp_path, data))
    assert message in str(error.value)
    assert str(tmp_path) in str(error.value) or "numpy type" in str(error.value)


def test_an_array_must_bring_its_bytes(tmp_path: Path) -> None:
    data = pickle.dumps(np.arange(4.0), 2)
    assert b"K\x04\x85" in data
    with pytest.raises(InvalidPickle):
        load(written(tmp_path, data.replace(b"K\x04\x85", b"J\xff\xff\xff\x7f\x85")))


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 255))
def test_noise_is_an_error_of_ours_or_a_value(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, byte: int
) -> None:
    folder = tmp_path_factory.mktemp("p")
    good = bytearray(pickle.dumps([{"a": np.float64(1)}, np.arange(5), "text", 3.0]))
    good[at % len(good)] = byte
    for data in (noise, bytes(good)):
        with suppress(InvalidPickle):
            load(written(folder, data))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidPickle, match=r"Cannot read .*nowhere.*No such file"):
        load(tmp_path / "nowhere")
