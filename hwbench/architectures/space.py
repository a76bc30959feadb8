"""`SearchSpace`: the choices an architecture is made of, and the named spaces.

The named spaces live in one data file, `spaces.toml`, beside this module.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hwbench.errors import InvalidValue, brief, invalid, unknown

if TYPE_CHECKING:
    from hwbench.architectures.architecture import Architecture

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(-[A-Za-z][A-Za-z0-9_]*)*")
_CHOICES = ("embed_dim", "n_layer", "n_head", "mlp_ratio")


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The choices an architecture is made of.

    `embed_dim`, `n_layer` and `bias` are chosen once, `n_head` and `mlp_ratio` for every layer.

    Attributes:
        name: The name, which stands in the text form of its architectures.
        embed_dim: Widths of the residual stream.
        n_layer: Numbers of layers.
        n_head: Numbers of attention heads of a layer.
        mlp_ratio: Widths of a layer's MLP as multiples of `embed_dim`.
        bias: Whether linear layers and norms have biases.
        head_size: Width of a head; attention's inner width is `head_size` x heads.
        batch_size: Sequences of the forward that is counted and measured unless told otherwise.
        seq_len: Tokens of one such sequence.

    Raises:
        InvalidValue: A field is empty, has duplicates or holds what is not allowed.

    >>> tiny = SearchSpace("tiny", (64, 128), (1, 2), (1, 2), (2, 4), (True,))
    >>> tiny.size
    40
    """

    name: str
    embed_dim: tuple[int, ...]
    n_layer: tuple[int, ...]
    n_head: tuple[int, ...]
    mlp_ratio: tuple[int, ...]
    bias: tuple[bool, ...] = (True, False)
    head_size: int = 64
    batch_size: int = 1
    seq_len: int = 1024

    def __post_init__(self) -> None:
        """Check every field, so that an architecture of the space needs no second look."""
        named: object = self.name
        if not isinstance(named, str) or not _NAME.fullmatch(named):
            allowed = "words of letters, digits and '_' that start with a letter, joined by '-'"
            raise invalid("name", "SearchSpace", allowed, named)
        for name in _CHOICES:
            _check_choices(name, getattr(self, name))
        bias: object = self.bias
        if (
            not isinstance(bias, tuple)
            or {type(b) for b in bias} != {bool}
            or len(set(bias)) < len(bias)
        ):
            raise invalid("bias", "SearchSpace", "a tuple of True, False or both", bias)
        for name in ("head_size", "batch_size", "seq_len"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise invalid(name, "SearchSpace", "an int >= 1", value)

    @classmethod
    def from_file(cls, path: str | Path) -> SearchSpace:
        """Read a space of one's own from a TOML file with the fields as keys.

        Args:
            path: The file; `name` may be left out, and is then the file's stem.

        Returns:
            The space.

        Raises:
            InvalidValue: The file cannot be read, or is not a space.
        """
        path = Path(path)
        shown = brief(str(path), limit=200)
        try:
            table = tomllib.loads(path.read_bytes().decode("utf-8"))
        except OSError as error:
            raise InvalidValue(f"Cannot read the space file {shown}: {error.strerror}.") from None
        except (ValueError, RecursionError) as error:
            # Besides what is no TOML: a path with a zero byte, an int of thousands of digits.
            raise InvalidValue(f"The space file {shown} is not TOML: {error}.") from None
        try:
            made = cls.from_dict({"name": path.stem, **table})
        except InvalidValue as error:
            raise InvalidValue(f"In the space file {shown}: {error}") from None
        if _named().get(made.name, made) != made:
            raise InvalidValue(
                f"In the space file {shown}: the 'name' of a space of one's own must not be that "
                f"of a shipped space with other choices. Got {made.name!r} instead."
            )
        return made

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> SearchSpace:
        """Make a space from a mapping of field names to values, lists for the choices.

        Raises:
            InvalidValue: A field is missing, unknown or has a value that is not allowed.
        """
        mapping: object = table
        if not isinstance(mapping, Mapping):
            raise invalid("table", "SearchSpace", "a mapping", table)
        known = [f.name for f in fields(cls)]
        for key in table:
            if key not in known:
                raise InvalidValue(str(unknown("field of a search space", key, known)))
        for key in ("name", *_CHOICES):
            if key not in table:
                raise InvalidValue(f"A search space needs the field {key!r}.")
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in table.items()
        }
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """All fields by name, lists for the choices: what `from_dict` takes."""
        values = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values}

    @property
    def size(self) -> int:
        """The exact number of architectures of the space."""
        per_layer = len(self.n_head) * len(self.mlp_ratio)
        per_shape: int = sum(per_layer**n for n in self.n_layer)
        return len(self.embed_dim) * len(self.bias) * per_shape

    @property
    def tokens(self) -> int:
        """Tokens of the forward that is counted and measured unless told otherwise."""
        return self.batch_size * self.seq_len

    @property
    def smallest(self) -> Architecture:
        """The architecture with the least of every choice, without biases if the space has such."""
        return self._uniform(min)

    @property
    def largest(self) -> Architecture:
        """The architecture with the most of every choice, with biases if the space has such."""
        return self._uniform(max)

    def _uniform(self, pick: Any) -> Architecture:
        from hwbench.architectures.architecture import Architecture

        n = pick(self.n_layer)
        heads, ratios = (pick(self.n_head),) * n, (pick(self.mlp_ratio),) * n
        return Architecture.unchecked(self, n, pick(self.embed_dim), heads, ratios, pick(self.bias))

    def contains(self, architecture: object) -> bool:
        """Whether the value is an architecture of this space.

        An architecture is checked against its space at construction, so this asks which space it
        belongs to: an architecture of another space is not contained, even where every one of its
        choices exists here too.
        """
        from hwbench.architectures.architecture import Architecture

        return isinstance(architecture, Architecture) and architecture.search_space == self

    def sample(self, n: int, seed: int | np.random.Generator) -> list[Architecture]:
        """Draw architectures, every choice uniformly and independently.

        The first k of n are the k that the same seed draws when asked for k.

        Args:
            n: How many; duplicates are possible, as in any independent draw.
            seed: An int >= 0, or a generator, which is advanced.

        Returns:
            The n architectures.

        Raises:
            InvalidValue: `n` is no int >= 0, or `seed` is neither.
        """
        from hwbench.architectures.architecture import Architecture

        rows: object = n
        if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 0:
            raise invalid("n", "sample", "an int >= 0", n)
        deepest = max(self.n_layer)
        uniform = generator(seed, "sample").random((int(rows), 3 + 2 * deepest))

        def choose(columns: np.ndarray, choices: tuple[Any, ...]) -> list[Any]:
            picked: list[Any] = np.array(choices)[(columns * len(choices)).astype(np.intp)].tolist()
            return picked

        depth = choose(uniform[:, 0], self.n_layer)
        width = choose(uniform[:, 1], self.embed_dim)
        bias = choose(uniform[:, 2], self.bias)
        heads = choose(uniform[:, 3 : 3 + deepest], self.n_head)
        ratios = choose(uniform[:, 3 + deepest :], self.mlp_ratio)
        return [
            Architecture.unchecked(self, layers, d, tuple(h[:layers]), tuple(r[:layers]), b)
            for layers, d, h, r, b in zip(depth, width, heads, ratios, bias, strict=True)
        ]

    def neighbours(self, architecture: Architecture) -> list[Architecture]:
        """All architectures that differ in one choice.

        A change of `n_layer` to fewer layers keeps the first ones; to more layers repeats the last
        layer's heads and MLP ratio. A change of anything else leaves the rest as it is.

        Args:
            architecture: An architecture of this space.

        Returns:
            The neighbours: changes of n_layer, embed_dim and bias first, then of the layers in
            order. Neither the architecture itself nor a duplicate is among them.

        Raises:
            InvalidValue: The architecture is not one of this space.
        """
        if not self.contains(architecture):
            raise invalid(
                "architecture", "neighbours", f"an architecture of {self.name}", architecture
            )
        a = architecture
        choices = {key: getattr(a, key) for key in (*_CHOICES, "bias")}

        def changed(**changes: Any) -> Architecture:
            return type(a).unchecked(self, **{**choices, **changes})

        found = []
        for n in self.n_layer:
            if n != a.n_layer:
                longer = max(0, n - a.n_layer)
                heads = a.n_head[:n] + a.n_head[-1:] * longer
                ratios = a.mlp_ratio[:n] + a.mlp_ratio[-1:] * longer
                found.append(changed(n_layer=n, n_head=heads, mlp_ratio=ratios))
        found += [changed(embed_dim=d) for d in self.embed_dim if d != a.embed_dim]
        found += [changed(bias=b) for b in self.bias if b != a.bias]
        for name, allowed in (("n_head", self.n_head), ("mlp_ratio", self.mlp_ratio)):
            now = getattr(a, name)
            found += [
                changed(**{name: (*now[:i], c, *now[i + 1 :])})
                for i in range(a.n_layer)
                for c in allowed
                if c != now[i]
            ]
        return found


def _check_choices(name: str, choices: object) -> None:
    if (
        not isinstance(choices, tuple)
        or not choices
        or any(type(c) is not int or not 1 <= c < 2**15 for c in choices)
        or len(set(choices)) < len(choices)
    ):
        raise invalid(name, "SearchSpace", "a tuple of different ints from 1 to 32767", choices)


def generator(seed: int | np.random.Generator, function: str) -> np.random.Generator:
    """The generator behind a seed, or the generator itself.

    Args:
        seed: An int >= 0 or a generator.
        function: The caller's name, for the error.

    Raises:
        InvalidValue: `seed` is neither.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    number: object = seed
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise invalid("seed", function, "an int >= 0 or a numpy Generator", seed)
    return np.random.default_rng(int(number))


@cache
def _named() -> Mapping[str, SearchSpace]:
    text = resources.files("hwbench.architectures").joinpath("spaces.toml").read_text("utf-8")
    tables = tomllib.loads(text)
    return MappingProxyType(
        {name: SearchSpace.from_dict({"name": name, **table}) for name, table in tables.items()}
    )


def spaces() -> list[str]:
    """The names of the named spaces.

    >>> spaces()
    ['s', 'm', 'l', 'xl', 's-wide', 'm-wide', 'l-wide', 'xl-wide']
    """
    return list(_named())


def space(name: str | Path | SearchSpace) -> SearchSpace:
    """The space of that name, or of a TOML file of one's own.

    Args:
        name: A named space, the path of a file that ends in ".toml", or a space, returned as it is.

    Returns:
        The space.

    Raises:
        UnknownName: No space bears the name.
        InvalidValue: The file cannot be read or is no space, or `name` is no text.

    >>> space("s").size
    1903784282946
    """
    if isinstance(name, SearchSpace):
        return name
    if not isinstance(name, str | Path):
        raise invalid("name", "space", "a str, a path or a SearchSpace", name)
    if str(name).endswith(".toml"):
        return SearchSpace.from_file(name)
    found = _named().get(str(name))
    if found is None:
        raise unknown("space", str(name), _named())
    return found
