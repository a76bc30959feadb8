"""Reading pickles that others wrote, without running anything that is in them.

A pickle is a program. This reader gives it plain containers, numbers, texts and numpy's scalars and
arrays to build, and refuses every other name, before anything of that name is imported or called.
No object that a pickle can reach may be changed by it: what stands for numpy's constructors here
has no attribute to set.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from hwbench.errors import HwbenchError


class InvalidPickle(HwbenchError):
    """A pickle that is damaged, or holds what this reader does not build."""


_KINDS = "biufcSU"
_ATOMS = frozenset({bool, bytes, complex, float, int, str, type(None)})
_BROKEN = (
    pickle.UnpicklingError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What the unpickler raises on a stream that is cut off or makes no sense."""


def load(path: str | Path) -> Any:
    """Read a pickle.

    Args:
        path: The file.

    Returns:
        What it holds: None, bools, numbers, texts, bytes, lists, tuples, dicts, sets, numpy scalars
        and arrays of numbers, bools or texts.

    Raises:
        InvalidPickle: The file cannot be read, is damaged, or holds anything else, which the
            message names.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            value = _Reader(stream, str(file)).load()
    except InvalidPickle:
        raise
    except OSError as error:
        raise InvalidPickle(f"Cannot read {file}: {error.strerror}.") from None
    except _BROKEN as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InvalidPickle(f"{file} is not a whole pickle: {reason}.") from None
    if _holds_a_stand_in(value):
        raise InvalidPickle(f"{file} holds a type or function of numpy's, which is no value.")
    return value


class _Reader(pickle.Unpickler):
    def __init__(self, stream: Any, shown: str) -> None:
        super().__init__(stream)
        self._shown = shown

    def find_class(self, module: str, name: str) -> Any:
        """What stands for a name in the stream."""
        found = _ALLOWED.get((_MODULES.get(module, module), name))
        if found is None:
            raise InvalidPickle(
                f"{self._shown} holds {module}.{name}. Only plain containers, numbers and numpy's "
                "scalars and arrays are read."
            )
        return found

    def persistent_load(self, pid: Any) -> NoReturn:
        """Refuse references to objects outside the file."""
        raise InvalidPickle(f"{self._shown} refers to an object outside the file, {pid!r}.")


class _Constructor:
    """Something a pickle may call, and can do nothing else with."""

    __slots__ = ("_function",)
    _function: Callable[..., Any]

    def __init__(self, function: Callable[..., Any]) -> None:
        object.__setattr__(self, "_function", function)

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __setattr__(self, name: str, value: Any) -> None:
        raise pickle.UnpicklingError(f"sets {name!r} of a constructor")

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("sets the state of a constructor")


class _Dtype:
    """A numpy type in a pickle: the text it was made from and its byte order."""

    __slots__ = ("_order", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._order: Literal["<", ">", "|", "="] = "="

    def __setstate__(self, state: Any) -> None:
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else None
        if order not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError("a numpy type of no byte order")
        self._order = order

    @property
    def dtype(self) -> np.dtype[Any]:
        made = np.dtype(self._text)
        return made if self._order == "|" else made.newbyteorder(self._order)


class _Array(np.ndarray[Any, Any]):
    """An array that fills itself from a pickle, and only with numbers, bools or texts."""

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5 or not isinstance(state[4], bytes):
            raise pickle.UnpicklingError("an array without its bytes")
        version, shape, dtype, fortran, data = state
        super().__setstate__((version, shape, _plain(dtype), fortran, data))

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()


def _holds_a_stand_in(root: Any) -> bool:
    """Whether something that only stands for a name ended up among the values."""
    waiting, seen = [root], set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, _Constructor | _Dtype):
            return True
        if id(value) in seen:
            continue
        if isinstance(value, dict):
            waiting += value
            waiting += value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            if not set(map(type, value)) <= _ATOMS:
                waiting += value
        else:
            continue
        seen.add(id(value))
    return False


def _plain(dtype: Any) -> np.dtype[Any]:
    if not isinstance(dtype, _Dtype):
        raise pickle.UnpicklingError("an array or scalar without a numpy type")
    return dtype.dtype


def _make_dtype(text: Any, *_: Any) -> _Dtype:
    if not isinstance(text, str):
        raise pickle.UnpicklingError("a numpy type that is no text")
    kind = np.dtype(text).kind
    if kind not in _KINDS:
        raise InvalidPickle(f"It holds the numpy type {text!r}; only numbers and texts are read.")
    return _Dtype(text)


def _make_scalar(dtype: Any, data: Any = b"") -> Any:
    plain = _plain(dtype)
    if not isinstance(data, bytes) or len(data) != plain.itemsize:
        raise pickle.UnpicklingError("a numpy scalar without its bytes")
    return np.frombuffer(data, plain)[0]


def _make_array(*_: Any) -> _Array:
    return np.empty(0).view(_Array)


def _make_from_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> Any:
    if not isinstance(data, bytes | bytearray):
        raise pickle.UnpicklingError("an array without its bytes")
    return np.frombuffer(data, _plain(dtype)).reshape(shape, order=order)


def _make_bytes(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError("bytes in an unknown encoding")
    return text.encode("latin-1")


def _make_empty_bytes(*args: Any) -> bytes:
    if args:
        raise pickle.UnpicklingError("makes bytes of something")
    return b""


def _never(*_: Any) -> NoReturn:
    raise pickle.UnpicklingError("calls numpy.ndarray")


_MODULES = {
    "__builtin__": "builtins",
    "numpy.core.multiarray": "numpy._core.multiarray",
    "numpy.core.numeric": "numpy._core.numeric",
}
"""Old names of modules to the ones that stand below."""

_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Constructor(_make_dtype),
    ("numpy", "ndarray"): _Constructor(_never),
    ("numpy._core.multiarray", "scalar"): _Constructor(_make_scalar),
    ("numpy._core.multiarray", "_reconstruct"): _Constructor(_make_array),
    ("numpy._core.numeric", "_frombuffer"): _Constructor(_make_from_buffer),
    ("_codecs", "encode"): _Constructor(_make_bytes),
    ("builtins", "bytes"): _Constructor(_make_empty_bytes),
    ("builtins", "set"): _Constructor(set),
    ("builtins", "frozenset"): _Constructor(frozenset),
    ("builtins", "complex"): _Constructor(complex),
}
