"""The profile that this project measured: a valid store, and an error within what docs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwbench.campaign.score import score_profile
from hwbench.errors import InvalidStore
from hwbench.records import Store, validate
from hwbench.surrogate.fit_all import fit_all, tasks

STORE = Path(__file__).parents[2] / "data/cpu-epyc-vm"


def test_it_is_valid() -> None:
    assert validate(STORE).errors == ()


def test_its_error_is_within_one_and_a_half_times_the_noise(tmp_path: Path) -> None:
    store = Store.open(STORE)
    list(fit_all(store, tmp_path, tasks(store)))
    found = score_profile(store, tmp_path, "cpu_epyc_vm", "s")
    assert found["passes"] == 40
    assert found["error_over_noise"] <= 1.5
    assert found["coverage_90"] >= 75
    campaign = store.campaign("cpu_epyc_vm", "s")
    assert campaign is not None
    assert campaign["sessions"][0]["overhead"] <= 0.35


def test_a_profile_without_a_second_pass_has_no_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(STORE)
    list(fit_all(store, tmp_path, tasks(store)))
    seen = store.observations("cpu_epyc_vm", "s", "latency")
    assert seen is not None
    first = seen.take(seen.position < 80)
    monkeypatch.setattr(store, "observations", lambda *_: first)
    with pytest.raises(InvalidStore, match="in two passes"):
        score_profile(store, tmp_path, "cpu_epyc_vm", "s")
