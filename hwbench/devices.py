"""The device catalogue: what is known, and what is assumed, of every device.

The data lives in one file, `devices.toml`, beside this module. A GPU of one's own is described by a
file of the same fields that `Hardware` has.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from hwbench.errors import InvalidValue, Unsupported, brief, invalid, unknown

Generation = Literal["pascal", "volta", "turing", "ampere", "hopper"]

GENERATIONS: tuple[str, ...] = get_args(Generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The vendor's figures of a GPU that the model of the hardware stands on.

    Attributes:
        name: The device's name.
        generation: Of the tensor cores; "pascal" has none.
        multiprocessors: Streaming multiprocessors that are enabled.
        half_tflops: Peak of dense 16-bit products accumulated in float32, in 1e12 FLOP/s.
        float32_tflops: Peak of float32 outside the tensor cores, in 1e12 FLOP/s.
        bandwidth_gb_s: Peak bandwidth of the device memory, in 1e9 bytes/s.
        memory_gb: Size of the device memory, in 1e9 bytes.
        figures_from: Where the figures stand.

    Raises:
        InvalidValue: A field has a value that is not allowed.
    """

    name: str
    generation: Generation
    multiprocessors: int
    half_tflops: float
    float32_tflops: float
    bandwidth_gb_s: float
    memory_gb: float
    figures_from: str

    def __post_init__(self) -> None:
        """Check every field."""
        for name in ("name", "figures_from"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise invalid(name, "Hardware", "a non-empty str", getattr(self, name))
        if self.generation not in GENERATIONS:
            raise invalid(
                "generation", "Hardware", f"one of {', '.join(GENERATIONS)}", self.generation
            )
        if type(self.multiprocessors) is not int or self.multiprocessors < 1:
            raise invalid("multiprocessors", "Hardware", "an int >= 1", self.multiprocessors)
        for name in ("half_tflops", "float32_tflops", "bandwidth_gb_s", "memory_gb"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not (0 < value < math.inf):
                raise invalid(name, "Hardware", "a finite number > 0", value)

    @classmethod
    def from_file(cls, path: str | Path) -> Hardware:
        """Read a TOML file of these fields; the name is the file's own unless it says another.

        Raises:
            InvalidValue: The file cannot be read, lacks a field or holds a strange one.
        """
        file = Path(path)
        try:
            table = tomllib.loads(file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidValue(f"Cannot read the device file {str(file)!r}: {error}") from None
        return cls.from_dict({"name": file.stem, **table})

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Hardware:
        """Make the figures from a mapping that has each of the fields.

        Raises:
            InvalidValue: A field is missing, unknown or has a value that is not allowed.
        """
        known = [f.name for f in fields(cls)]
        strange = [k for k in table if k not in known]
        missing = [k for k in known if k not in table]
        if strange or missing:
            what = f"no {missing[0]!r}" if missing else repr(strange[0])
            raise InvalidValue(
                f"A device's figures must be {', '.join(known)}. Got {what} for "
                f"{brief(table.get('name'))}."
            )
        return cls(**table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of the catalogue.

    Attributes:
        name: The name in the API.
        label: The name for a reader.
        kind: "gpu" or "cpu".
        vendor: Lower-case vendor, "unknown" where the source does not say.
        published: Whether HW-GPT-Bench's published list holds the device.
        raw_folder: The device's word in HW-GPT-Bench's raw folders; None where nothing was
            recorded.
        variant: The exact variant, marked "(assumed)" where the source does not state it.
        why: The ground for the variant.
        sockets: Packages that draw power together.
        power_limit_w: The vendor's power limit of one package, in watts.
        aliases: Other names that are accepted.
        hardware: The vendor's figures; None where the exact device is not known.
    """

    name: str
    label: str
    kind: Literal["gpu", "cpu"]
    vendor: str
    published: bool
    raw_folder: str | None = None
    variant: str
    why: str
    sockets: int
    power_limit_w: float
    aliases: tuple[str, ...] = ()
    hardware: Hardware | None = None


@cache
def catalogue() -> Mapping[str, Device]:
    """All devices of the catalogue by name, GPUs first, in the order of the data file."""
    text = resources.files("hwbench").joinpath("devices.toml").read_text("utf-8")
    found = {}
    for name, table in tomllib.loads(text).items():
        figures = table.pop("hardware", None)
        if figures is not None:
            table["hardware"] = Hardware.from_dict({"name": name, **figures})
        found[name] = Device(name=name, **{**table, "aliases": tuple(table.get("aliases", ()))})
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


def hardware(name: str | Path) -> Hardware:
    """The figures of a device of the catalogue, or of one's own file.

    Args:
        name: A device's name or alias, or the path of a file that ends in ".toml".

    Raises:
        InvalidValue: The name is no text, or the file is not as it must be.
        UnknownName: The catalogue does not hold the device.
        Unsupported: The catalogue holds no figures of it.

    >>> hardware("a100").multiprocessors
    108
    """
    if isinstance(name, Path) or str(name).endswith(".toml"):
        return Hardware.from_file(name)
    found = device(name)
    if found.hardware is None:
        known = ", ".join(d.name for d in catalogue().values() if d.hardware is not None)
        raise Unsupported(
            f"The catalogue holds no peak figures of device {found.name!r}, which its source does "
            f"not name exactly. Known: {known}, or a file of one's own that ends in .toml."
        )
    return found.hardware


def published() -> tuple[str, ...]:
    """The names of HW-GPT-Bench's 13 published devices.

    >>> len(published())
    13
    """
    return tuple(d.name for d in catalogue().values() if d.published)
