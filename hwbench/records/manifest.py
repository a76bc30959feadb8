"""`Manifest`: what a store's `store.toml` says, read and written."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hwbench.architectures import SearchSpace
from hwbench.errors import HwbenchError, InvalidStore
from hwbench.records.schema import MANIFEST, UNITS
from hwbench.workload import Workload

_TEXTS = ("name", "source", "licence")
_TABLES = ("units", "workloads", "spaces", "sha256", "superseded")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a store says about itself.

    Attributes:
        name: The store's name.
        source: Where the observations come from.
        licence: What they may be used under.
        units: Field name to unit.
        workloads: What the observations' column `workload` is an index into.
        spaces: Search spaces of one's own by name; the named ones need no entry.
        sha256: Relative path to hash, of every other file; empty where none were written.
        superseded: Hashes of files that an append was about to replace. They are there only while
            it runs, or after it was killed: then either hash is right.
    """

    name: str
    source: str
    licence: str
    units: Mapping[str, str] = field(default_factory=lambda: MappingProxyType(dict(UNITS)))
    workloads: tuple[Workload, ...] = ()
    spaces: Mapping[str, SearchSpace] = field(default_factory=lambda: MappingProxyType({}))
    sha256: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    superseded: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def read(cls, store: Path) -> Manifest:
        """Read a store's `store.toml`.

        Raises:
            InvalidStore: There is none, or it is not as it must be.
        """
        path = store / MANIFEST
        try:
            table = tomllib.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise InvalidStore(f"There is no record store at {store}: no {MANIFEST}.") from None
        except OSError as error:
            raise InvalidStore(f"Cannot read {path}: {error.strerror}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidStore(f"{path} is not TOML: {error}.") from None
        try:
            return cls._of(table)
        except HwbenchError as error:
            raise InvalidStore(f"{path}: {error}") from None

    @classmethod
    def _of(cls, table: Mapping[str, Any]) -> Manifest:
        for key in _TEXTS:
            if not isinstance(table.get(key), str):
                raise InvalidStore(f"It needs the field {key!r}, a text.")
        strange = [key for key in table if key not in _TEXTS + _TABLES]
        if strange:
            known = ", ".join(_TEXTS + _TABLES)
            raise InvalidStore(f"Unknown field {strange[0]!r}. Known: {known}.")
        for key in _TABLES:
            kind = list if key == "workloads" else dict
            if not isinstance(table.get(key, kind()), kind):
                raise InvalidStore(f"The field {key!r} must be a {kind.__name__}.")
        workloads, spaces = table.get("workloads", []), table.get("spaces", {})
        for key, inner in (("workloads", workloads), ("spaces", spaces.values())):
            if not all(isinstance(each, dict) for each in inner):
                raise InvalidStore(f"The field {key!r} must be made of tables.")
        return cls(
            name=table["name"],
            source=table["source"],
            licence=table["licence"],
            units=_texts("units", table),
            sha256=_texts("sha256", table),
            superseded=_texts("superseded", table),
            workloads=tuple(map(Workload.from_dict, workloads)),
            spaces=MappingProxyType(
                {
                    name: SearchSpace.from_dict({"name": name, **fields})
                    for name, fields in spaces.items()
                }
            ),
        )

    def replace(self, **changes: Any) -> Manifest:
        """The same manifest with some fields changed."""
        return replace(self, **changes)

    def to_toml(self) -> str:
        """The text of `store.toml`."""
        lines = [f"{key} = {_value(getattr(self, key))}" for key in _TEXTS]
        units = ", ".join(f"{_key(k)} = {_value(v)}" for k, v in self.units.items())
        lines.append(f"units = {{ {units} }}" if units else "units = {}")
        if self.workloads:
            lines += ["", "# observations' column `workload` is an index into this list"]
        for workload in self.workloads:
            lines += ["[[workloads]]", *_lines(workload.to_dict()), ""]
        for name, space in self.spaces.items():
            fields = {k: v for k, v in space.to_dict().items() if k != "name"}
            lines += [f"[spaces.{_key(name)}]", *_lines(fields), ""]
        for key in ("sha256", "superseded"):
            hashes = getattr(self, key)
            if hashes:
                lines += [f"[{key}]", *_lines(dict(sorted(hashes.items()))), ""]
        return "\n".join(lines).rstrip("\n") + "\n"


def _texts(key: str, table: Mapping[str, Any]) -> Mapping[str, str]:
    texts = dict(table.get(key, {}))
    for name, value in texts.items():
        if not isinstance(value, str):
            raise InvalidStore(f"{key}.{name} must be a text. Got {value!r} instead.")
    return MappingProxyType(texts)


def _lines(fields: Mapping[str, Any]) -> list[str]:
    return [f"{_key(k)} = {_value(v)}" for k, v in fields.items()]


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _value(name)


def _value(value: str | bool | int | list[Any]) -> str:
    """A TOML value; its texts are written as JSON's are, which TOML reads alike."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")
