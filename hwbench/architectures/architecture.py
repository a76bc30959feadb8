"""`Architecture`: one subnetwork of a search space, a frozen value with a text and a dict form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hwbench.architectures.space import SearchSpace, space, spaces
from hwbench.errors import HwbenchError, InvalidArchitecture, brief, unknown

# A space's words start with a letter and numbers do not, so that no text is read in two ways.
_TEXT = re.compile(
    r"gpt-([A-Za-z]\w*(?:-[A-Za-z]\w*)*)-([1-9]\d{0,8}(?:-[1-9]\d{0,8})+)-(\w+)", re.ASCII
)
_FORM = "gpt-<space>-<n_layer>-<embed_dim>-<mlp ratios>-<heads>-<True or False>"
_KEYS = ("n_layer", "embed_dim", "n_head", "mlp_ratio", "bias")


@dataclass(frozen=True, slots=True)
class Architecture:
    """One subnetwork of a search space, checked against it at construction.

    Attributes:
        space: The space's name. The constructor takes a name, or a `SearchSpace` of one's own.
        n_layer: Number of layers.
        embed_dim: Width of the residual stream.
        n_head: Attention heads, one entry a layer.
        mlp_ratio: Width of the MLP as a multiple of `embed_dim`, one entry a layer.
        bias: Whether linear layers and norms have biases.
        search_space: The space itself; not an argument.

    Raises:
        InvalidArchitecture: A value has the wrong type or length, or is not in the space.

    >>> a = Architecture("s", 10, 192, (4,) * 10, (2,) * 10, False)
    >>> Architecture.parse(str(a)) == a
    True
    """

    space: str
    n_layer: int
    embed_dim: int
    n_head: tuple[int, ...]
    mlp_ratio: tuple[int, ...]
    bias: bool
    search_space: SearchSpace = field(init=False, repr=False, hash=False)

    def __post_init__(self) -> None:
        """Resolve the space and check every choice against it."""
        try:
            owner = _named(self.space)
        except HwbenchError as error:
            raise InvalidArchitecture(str(error)) from None
        put = object.__setattr__
        put(self, "search_space", owner)
        put(self, "space", owner.name)
        put(self, "n_layer", _integer("n_layer", self.n_layer, owner.n_layer, owner))
        put(self, "embed_dim", _integer("embed_dim", self.embed_dim, owner.embed_dim, owner))
        put(self, "n_head", _integers("n_head", self.n_head, owner.n_head, self.n_layer, owner))
        put(
            self,
            "mlp_ratio",
            _integers("mlp_ratio", self.mlp_ratio, owner.mlp_ratio, self.n_layer, owner),
        )
        bias: object = self.bias
        if not isinstance(bias, bool | np.bool_) or bias not in owner.bias:
            allowed = " or ".join(map(str, owner.bias))
            raise InvalidArchitecture(
                f"bias must be {allowed} in space {owner.name}. Got {brief(bias)} instead."
            )
        put(self, "bias", bool(bias))

    @classmethod
    def unchecked(
        cls,
        search_space: SearchSpace,
        n_layer: int,
        embed_dim: int,
        n_head: tuple[int, ...],
        mlp_ratio: tuple[int, ...],
        bias: bool,
    ) -> Architecture:
        """Make an architecture from values that are known to be choices of the space.

        Sampling and reading a validated store use it, where checking again would cost the most.
        """
        made = object.__new__(cls)
        put = object.__setattr__
        put(made, "space", search_space.name)
        put(made, "n_layer", n_layer)
        put(made, "embed_dim", embed_dim)
        put(made, "n_head", n_head)
        put(made, "mlp_ratio", mlp_ratio)
        put(made, "bias", bias)
        put(made, "search_space", search_space)
        return made

    @classmethod
    def parse(cls, text: str, space: SearchSpace | None = None) -> Architecture:
        """Read the text form, which is HW-GPT-Bench's too.

        Args:
            text: `gpt-<space>-<n_layer>-<embed_dim>-<mlp ratios>-<heads>-<True or False>`, the
                ratios and heads one a layer, joined by "-".
            space: The space, needed where it is not a named one; its name must be the text's.

        Returns:
            The architecture.

        Raises:
            InvalidArchitecture: The text is not of that form, or not in the space.

        >>> a = Architecture.parse("gpt-s-10-192" + "-2" * 10 + "-4" * 10 + "-False")
        >>> a.embed_dim, a.bias
        (192, False)
        """
        given: object = text
        match = _TEXT.fullmatch(given.strip()) if isinstance(given, str) else None
        if match is None:
            raise InvalidArchitecture(
                f"An architecture's text must be of the form {_FORM}. Got {brief(text)} instead."
            )
        name, joined, flag = match.groups()
        if flag not in ("True", "False"):
            raise InvalidArchitecture(
                f"The last field of an architecture's text, bias, must be True or False. "
                f"Got {brief(flag)} instead."
            )
        owner = _owner(name, space)
        n_layer, embed_dim, *choices = (int(part) for part in joined.split("-"))
        if len(choices) != 2 * n_layer:
            raise InvalidArchitecture(
                f"An architecture with n_layer {n_layer} must have {n_layer} mlp ratios and "
                f"{n_layer} heads, {2 * n_layer} numbers in all. Got {len(choices)} instead."
            )
        ratios, heads = tuple(choices[:n_layer]), tuple(choices[n_layer:])
        return cls._of(owner, n_layer, embed_dim, heads, ratios, flag == "True")

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], space: str | SearchSpace | None = None
    ) -> Architecture:
        """Read the dict form: our keys, or HW-GPT-Bench's `sample_*` keys.

        Args:
            values: Either `to_dict`'s keys, or `sample_n_layer`, `sample_embed_dim`,
                `sample_n_head`, `sample_mlp_ratio` and `sample_bias` (`sample_layer_indices` may
                stand beside them and is not read). The `sample_*` lists may be longer than
                `sample_n_layer`: the tail is unused.
            space: The space, needed where `values` has no "space" or names one of one's own.

        Returns:
            The architecture.

        Raises:
            InvalidArchitecture: A key is missing or unknown, or a value is not in the space.
        """
        mapping: object = values
        if not isinstance(mapping, Mapping):
            raise InvalidArchitecture(
                f"An architecture's dict form must be a mapping. Got {brief(mapping)} instead."
            )
        given: dict[Any, Any] = dict(values)
        named = given.pop("space", None)
        if named is None and space is None:
            raise InvalidArchitecture("An architecture's dict form needs a 'space', or space=.")
        owner = _owner(named, space)
        sampled = any(isinstance(key, str) and key.startswith("sample_") for key in given)
        prefix = "sample_" if sampled else ""
        if prefix:
            given.pop("sample_layer_indices", None)
        keys = {prefix + key: key for key in _KEYS}
        strange = [key for key in given if key not in keys]
        missing = [key for key in keys if key not in given]
        if strange or missing:
            wrong = f"unknown key {brief(strange[0])}" if strange else f"no key {missing[0]!r}"
            raise InvalidArchitecture(
                f"An architecture's dict form must have the keys {', '.join(keys)}. Got {wrong}."
            )
        fields = {key: given[long] for long, key in keys.items()}
        if prefix:
            n = _integer("n_layer", fields["n_layer"], owner.n_layer, owner)
            for key in ("n_head", "mlp_ratio"):
                listed = fields[key]
                if isinstance(listed, tuple | list) or (
                    isinstance(listed, np.ndarray) and listed.ndim
                ):
                    fields[key] = listed[:n]
        return cls._of(owner, **fields)

    @classmethod
    def _of(cls, owner: SearchSpace, *args: Any, **kwargs: Any) -> Architecture:
        return cls(owner, *args, **kwargs)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """The dict form, ready for JSON: what `from_dict` takes."""
        return {
            "space": self.space,
            "n_layer": self.n_layer,
            "embed_dim": self.embed_dim,
            "n_head": list(self.n_head),
            "mlp_ratio": list(self.mlp_ratio),
            "bias": self.bias,
        }

    def replace(self, **changes: Any) -> Architecture:
        """The same architecture with some choices changed, checked anew.

        Raises:
            InvalidArchitecture: A changed value is not in the space.
        """
        now = {key: getattr(self, key) for key in _KEYS}
        return self._of(self.search_space, **{**now, **changes})

    def __str__(self) -> str:
        """The text form."""
        numbers = (self.n_layer, self.embed_dim, *self.mlp_ratio, *self.n_head)
        return f"gpt-{self.space}-{'-'.join(map(str, numbers))}-{self.bias}"


def _owner(name: object, given: str | SearchSpace | None) -> SearchSpace:
    """The space a text or dict form names, which must agree with the one that was given."""
    try:
        wanted = space(given) if given is not None else None
        if wanted is not None and (name is None or (isinstance(name, str) and name == wanted.name)):
            return wanted
        named = _named(name)
    except HwbenchError as error:
        raise InvalidArchitecture(str(error)) from None
    if wanted is not None and named != wanted:
        raise InvalidArchitecture(
            f"The architecture names the space {named.name!r}, but space {wanted.name!r} was given."
        )
    return named


def _named(name: object) -> SearchSpace:
    """The space of that name, never a file: an architecture's own data must not have files read."""
    if isinstance(name, str) and name not in spaces():
        raise unknown("space", name, spaces())
    return space(name)  # type: ignore[arg-type]


def _integer(name: str, value: Any, allowed: tuple[int, ...], owner: SearchSpace) -> int:
    if isinstance(value, np.integer):
        value = int(value)
    if type(value) is not int or value not in allowed:
        raise InvalidArchitecture(
            f"{name} must be one of {_listed(allowed)} in space {owner.name}. "
            f"Got {brief(value)} instead."
        )
    return value


def _integers(
    name: str, values: Any, allowed: tuple[int, ...], n_layer: int, owner: SearchSpace
) -> tuple[int, ...]:
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, tuple | list):
        raise InvalidArchitecture(
            f"{name} must be a list of {n_layer} ints, one a layer. Got {brief(values)} instead."
        )
    if len(values) != n_layer:
        raise InvalidArchitecture(
            f"{name} must have one entry a layer, {n_layer} in all. Got {len(values)} instead."
        )
    if set(map(type, values)) == {int} and set(values) <= set(allowed):
        return tuple(values)
    return tuple(_integer(f"{name}[{i}]", v, allowed, owner) for i, v in enumerate(values))


def _listed(choices: tuple[int, ...]) -> str:
    return ", ".join(map(str, choices))
