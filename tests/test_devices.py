"""The device catalogue: complete, consistent, and found by name or alias."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from hwbench.devices import Hardware, canonical, catalogue, device, hardware, published
from hwbench.errors import InvalidValue, UnknownName, Unsupported

GPUS = {"a100", "a40", "h100", "rtx2080", "rtx3080", "a6000", "v100", "p100"}
CPUS = {"cpu_xeon_silver", "cpu_xeon_gold", "cpu_amd_7502", "cpu_amd_7513", "cpu_amd_7452"}


def test_published_are_the_thirteen() -> None:
    assert set(published()) == GPUS | CPUS
    assert len(published()) == 13
    assert set(catalogue()) == GPUS | CPUS | {"cpu_p100_host", "h200"}


def test_nothing_was_recorded_on_the_h200_alone() -> None:
    assert {d.name for d in catalogue().values() if d.raw_folder is None} == {"h200"}
    assert not device("h200").published


def test_every_entry_has_types_and_values_that_can_be_used() -> None:
    texts = ("label", "vendor", "variant", "why")
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
    folders = [d.raw_folder for d in catalogue().values() if d.raw_folder is not None]
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


FIGURES: dict[str, Any] = {
    "generation": "ampere",
    "multiprocessors": 10,
    "half_tflops": 1.0,
    "float32_tflops": 0.5,
    "bandwidth_gb_s": 100,
    "memory_gb": 8,
    "figures_from": "measured",
}


def test_every_gpu_has_figures_and_no_cpu_has() -> None:
    have = {d.name for d in catalogue().values() if d.hardware is not None}
    assert have == GPUS | {"h200"}
    counts = {"v100": 80, "a100": 108, "h100": 132, "h200": 132, "p100": 56, "a40": 84}
    assert {name: hardware(name).multiprocessors for name in counts} == counts
    assert hardware("P100").name == "p100"


@pytest.mark.parametrize("name", sorted(GPUS | {"h200"}))
def test_peaks_of_a_generation_are_what_its_multiprocessors_can_do(name: str) -> None:
    """Oracle: 16-bit FLOPs a clock and multiprocessor, times a boost clock in its known range."""
    per_clock = {"pascal": 128, "volta": 1024, "turing": 512, "ampere": 1024, "hopper": 4096}
    if name == "a100":
        per_clock["ampere"] = 2048
    if name == "rtx3080":
        per_clock["ampere"] = 512
    figures = hardware(name)
    rate = per_clock[figures.generation] * figures.multiprocessors
    clock_ghz = figures.half_tflops * 1e3 / rate
    assert 1.3 < clock_ghz < 1.9


def test_a_device_of_ones_own_is_a_small_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    lines = [f"{k} = {v!r}".replace("'", '"') for k, v in FIGURES.items()]
    path.write_text("\n".join(lines))
    assert hardware(str(path)) == hardware(path) == Hardware(name="mine", **FIGURES)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"generation": "ada"}, "one of pascal, volta"),
        ({"multiprocessors": 0}, "an int >= 1. Got 0"),
        ({"multiprocessors": True}, "an int >= 1. Got True"),
        ({"half_tflops": float("nan")}, "a finite number > 0. Got nan"),
        ({"bandwidth_gb_s": -1}, "a finite number > 0. Got -1"),
        ({"memory_gb": "big"}, "a finite number > 0. Got 'big'"),
        ({"figures_from": ""}, "a non-empty str"),
        ({"cores": 3}, "Got 'cores'"),
        ({"half_tflops": None}, "Got no 'half_tflops'"),
    ],
)
def test_figures_are_checked(change: dict[str, object], words: str) -> None:
    table = {"name": "mine", **FIGURES, **change}
    table = {k: v for k, v in table.items() if v is not None}
    with pytest.raises(InvalidValue, match=words.replace("(", r"\(")):
        Hardware.from_dict(table)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"Cannot read the device file .*none\.toml"):
        hardware(str(tmp_path / "none.toml"))


def test_a_device_without_figures_says_which_have_them() -> None:
    with pytest.raises(Unsupported, match=r"no peak figures of device 'cpu_amd_7502'.*a100.*toml"):
        hardware("cpu_amd_7502")
    with pytest.raises(UnknownName, match="Did you mean 'h100'"):
        hardware("h10")
