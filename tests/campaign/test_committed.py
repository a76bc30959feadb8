"""The profiles that this project measured: valid stores, and errors within what docs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwbench.campaign.score import score_profile
from hwbench.errors import InvalidStore
from hwbench.records import Store, validate
from hwbench.surrogate.fit_all import fit_all, tasks

DATA = Path(__file__).parents[2] / "data"
DEVICES = ("cpu_xeon_vm", "cpu_epyc_vm")


def store_of(device: str) -> Store:
    return Store.open(DATA / device.replace("_", "-"))


@pytest.mark.parametrize("device", DEVICES)
def test_it_is_valid(device: str) -> None:
    assert validate(store_of(device).path).errors == ()


@pytest.mark.parametrize("device", DEVICES)
def test_its_error_is_within_one_and_a_half_times_the_noise(device: str, tmp_path: Path) -> None:
    store = store_of(device)
    list(fit_all(store, tmp_path, tasks(store)))
    found = score_profile(store, tmp_path, device, "s")
    assert found["passes"] == 40
    assert found["error_over_noise"] <= 1.5
    assert found["coverage_90"] >= 75
    campaign = store.campaign(device, "s")
    assert campaign is not None
    assert campaign["sessions"][0]["overhead"] <= 0.35


def test_a_profile_without_a_second_pass_has_no_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of("cpu_xeon_vm")
    list(fit_all(store, tmp_path, tasks(store)))
    seen = store.observations("cpu_xeon_vm", "s", "latency")
    assert seen is not None
    first = seen.take(seen.position < 80)
    monkeypatch.setattr(store, "observations", lambda *_: first)
    with pytest.raises(InvalidStore, match="in two passes"):
        score_profile(store, tmp_path, "cpu_xeon_vm", "s")
