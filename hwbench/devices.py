"""The device catalogue: what is known, and what is assumed, of every device with recorded data.

The data lives in one file, `devices.toml`, beside this module.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Literal

from hwbench.errors import invalid, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of the catalogue.

    Attributes:
        name: The name in the API.
        label: The name for a reader.
        kind: "gpu" or "cpu".
        vendor: Lower-case vendor, "unknown" where the source does not say.
        published: Whether HW-GPT-Bench's published list holds the device.
        raw_folder: The device's word in HW-GPT-Bench's raw folders.
        variant: The exact variant, marked "(assumed)" where the source does not state it.
        why: The ground for the variant.
        sockets: Packages that draw power together.
        power_limit_w: The vendor's power limit of one package, in watts.
        aliases: Other names that are accepted.
    """

    name: str
    label: str
    kind: Literal["gpu", "cpu"]
    vendor: str
    published: bool
    raw_folder: str
    variant: str
    why: str
    sockets: int
    power_limit_w: float
    aliases: tuple[str, ...] = ()


@cache
def catalogue() -> Mapping[str, Device]:
    """All devices of the catalogue by name, GPUs first, in the order of the data file."""
    text = resources.files("hwbench").joinpath("devices.toml").read_text("utf-8")
    found = {
        name: Device(name=name, **{**table, "aliases": tuple(table.get("aliases", ()))})
        for name, table in tomllib.loads(text).items()
    }
    return MappingProxyType(found)


@cache
def _aliases() -> Mapping[str, str]:
    return {alias: d.name for d in catalogue().values() for alias in d.aliases}


def canonical(name: str) -> str:
    """The device name behind a name or alias; a name that is no alias is returned as it is.

    Devices of one's own need not stand in the catalogue, so an unknown name is no error here.

    Raises:
        InvalidValue: The name is no text.

    >>> canonical("P100"), canonical("my-gpu")
    ('p100', 'my-gpu')
    """
    if not isinstance(name, str):
        raise invalid("device", "canonical", "a str", name)
    return _aliases().get(name, name)


def device(name: str) -> Device:
    """The device of that name or alias.

    Raises:
        InvalidValue: The name is no text.
        UnknownName: The catalogue does not hold the device.

    >>> device("P100").label
    'NVIDIA P100'
    """
    found = catalogue().get(canonical(name))
    if found is None:
        raise unknown("device", name, catalogue())
    return found


def published() -> tuple[str, ...]:
    """The names of HW-GPT-Bench's 13 published devices.

    >>> len(published())
    13
    """
    return tuple(d.name for d in catalogue().values() if d.published)
