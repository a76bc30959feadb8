"""The exception tree, and messages of one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwbench import errors
from hwbench.errors import HwbenchError, InvalidValue, UnknownName, brief, invalid, unknown

TREE = [t for t in vars(errors).values() if isinstance(t, type) and issubclass(t, HwbenchError)]


def test_every_error_has_the_one_root_and_a_docstring() -> None:
    assert len(TREE) >= 8
    assert all(t.__doc__ for t in TREE)


@pytest.mark.parametrize(
    "error, builtin",
    [
        (errors.InvalidValue, ValueError),
        (errors.InvalidArchitecture, ValueError),
        (errors.UnknownName, LookupError),
        (errors.MissingDependency, ImportError),
    ],
)
def test_errors_are_also_what_python_users_catch(
    error: type[Exception], builtin: type[Exception]
) -> None:
    assert issubclass(error, builtin)


def test_unknown_name_prints_without_the_quotes_of_a_key_error() -> None:
    assert str(UnknownName("Unknown device 'x'.")) == "Unknown device 'x'."


def test_invalid_names_field_function_allowed_and_what_arrived() -> None:
    error = invalid("n", "sample", "an int >= 0", "3")
    assert isinstance(error, InvalidValue)
    assert str(error) == "The 'n' parameter of sample must be an int >= 0. Got '3' instead."


@pytest.mark.parametrize(
    "got, hint",
    [
        ("a10", " Did you mean 'a100'?"),
        ("A100", " Did you mean 'a100'?"),
        ("h-100", " Did you mean 'H100'?"),
        ("zzz", ""),
        ("", ""),
        (None, ""),
        pytest.param(10**5000, "", id="huge"),
    ],
)
def test_unknown_suggests_the_nearest_name_whatever_its_case(got: object, hint: str) -> None:
    message = str(unknown("device", got, iter(["a100", "H100"])))
    assert message == f"Unknown device {brief(got)}.{hint} Known: a100, H100."


def test_unknown_says_so_where_nothing_is_known() -> None:
    assert str(unknown("artefact", "x", [])) == "Unknown artefact 'x'. Known: none."


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(anything, st.integers(4, 200))
def test_brief_is_one_printable_line_within_its_limit(value: object, limit: int) -> None:
    text = brief(value, limit)
    assert len(text) <= limit
    assert len(text.splitlines()) == 1
    assert text.isprintable()


def test_brief_shows_what_python_cannot_write_out() -> None:
    assert brief(10**5000) == "a value of type int too long to show"
    endless: object = []
    for _ in range(100_000):
        endless = [endless]
    assert brief(endless) == "a value of type list too long to show"


def test_brief_keeps_an_object_of_several_lines_on_one() -> None:
    class Lines:
        def __repr__(self) -> str:
            return "a\n  b\tc"

    assert brief(Lines()) == "a b c"
