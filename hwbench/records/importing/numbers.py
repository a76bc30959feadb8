"""Numbers as they stand in HW-GPT-Bench's pickles: one, or a list or array of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def numbers(value: Any) -> NDArray[np.float64] | str:
    """A number, or a flat list or array of numbers, as an array; or why it is none.

    >>> numbers([1, 2.5]).tolist(), numbers(None), numbers([1, "2"])
    ([1.0, 2.5], 'missing', 'not a list of numbers')
    """
    if value is None:
        return "missing"
    if _is_number(value):
        return np.array([float(value)])
    if isinstance(value, np.ndarray):
        if value.ndim == 1 and value.dtype.kind in "iuf":
            return np.asarray(value, np.float64)
    elif isinstance(value, list | tuple) and all(map(_is_number, value)):
        return np.array(value, np.float64)
    return "not a list of numbers"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
