"""Transforms: there and back, rising, and the ends of a range at infinity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwbench.errors import UnknownName
from hwbench.surrogate.transform import TRANSFORMS, transform


@settings(deadline=None)
@given(st.sampled_from(sorted(TRANSFORMS)), st.floats(1e-6, 1 - 1e-6))
def test_inverse_undoes_forward(name: str, value: float) -> None:
    scale = transform(name)
    assert scale.inverse(scale.forward(np.array([value]))) == pytest.approx(value, rel=1e-9)


@settings(deadline=None)
@given(st.sampled_from(sorted(TRANSFORMS)), st.floats(-5, 5))
def test_slope_is_the_derivative(name: str, line: float) -> None:
    scale, step = transform(name), 1e-6
    low, high = scale.inverse(np.array([line - step, line + step]))
    middle = scale.inverse(np.array([line]))
    assert scale.slope(middle) == pytest.approx((high - low) / (2 * step), rel=1e-6)


def test_infinity_is_the_end_of_the_range() -> None:
    ends = np.array([-np.inf, np.inf])
    assert transform("log").inverse(ends).tolist() == [0.0, np.inf]
    assert transform("logit").inverse(ends).tolist() == [0.0, 1.0]


def test_inside_is_the_range() -> None:
    values = np.array([-1.0, 0.0, 0.5, 1.0, np.inf, np.nan])
    assert transform("log").inside(values).tolist() == [False, False, True, True, False, False]
    assert transform("logit").inside(values).tolist() == [False, False, True, False, False, False]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"Unknown transform 'lgo'\. Did you mean 'log'\?"):
        transform("lgo")
