"""The device catalogue: complete, consistent, and found by name or alias."""

from __future__ import annotations

import dataclasses

import pytest

from hwbench.devices import canonical, catalogue, device, published
from hwbench.errors import InvalidValue, UnknownName

GPUS = {"a100", "a40", "h100", "rtx2080", "rtx3080", "a6000", "v100", "p100"}
CPUS = {"cpu_xeon_silver", "cpu_xeon_gold", "cpu_amd_7502", "cpu_amd_7513", "cpu_amd_7452"}


def test_published_are_the_thirteen() -> None:
    assert set(published()) == GPUS | CPUS
    assert len(published()) == 13
    assert set(catalogue()) == GPUS | CPUS | {"cpu_p100_host"}


def test_every_entry_has_types_and_values_that_can_be_used() -> None:
    texts = ("label", "vendor", "raw_folder", "variant", "why")
    for name, entry in catalogue().items():
        assert entry.name == name
        assert all(isinstance(getattr(entry, t), str) and getattr(entry, t) for t in texts)
        assert entry.kind == ("cpu" if name.startswith("cpu_") else "gpu")
        assert type(entry.published) is bool
        assert type(entry.sockets) is int
        assert entry.sockets >= 1
        assert entry.power_limit_w > 0
        assert hash(entry) == hash(dataclasses.replace(entry))


def test_names_and_aliases_lead_to_one_device_each() -> None:
    words = [w for d in catalogue().values() for w in (d.name, *d.aliases)]
    assert len(words) == len(set(words))
    assert all(device(w) is d for d in catalogue().values() for w in (d.name, *d.aliases))
    folders = [d.raw_folder for d in catalogue().values()]
    assert len(folders) == len(set(folders))


def test_hw_gpt_benchs_own_name_is_an_alias() -> None:
    assert device("P100").name == "p100"
    assert canonical("P100") == "p100"


def test_a_device_of_ones_own_keeps_its_name() -> None:
    assert canonical("my-gpu") == "my-gpu"


def test_unknown_device_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"^Unknown device 'H100'\. Did you mean 'h100'\? Known"):
        device("H100")


@pytest.mark.parametrize("name", [None, 100, ["h100"], float("nan")])
def test_device_must_be_text(name: object) -> None:
    with pytest.raises(InvalidValue, match=r"^The 'device' parameter of canonical must be a str"):
        device(name)  # type: ignore[arg-type]


def test_the_catalogue_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        device("h100").sockets = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        catalogue()["new"] = device("h100")  # type: ignore[index]
