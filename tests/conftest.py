"""What the markers mean on this machine, and the recorded store.

Whatever cannot run here is skipped with its reason, which the summary prints.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def recorded_store_path() -> Path:
    """Where the recorded store lies: HWBENCH_RECORDED, or beside a checkout's shared data."""
    given = os.environ.get("HWBENCH_RECORDED")
    return Path(given) if given else ROOT / "../shared/data/hw-gpt-bench"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow")
    parser.addoption(
        "--network", action="store_true", help="run the tests marked network, as CI=true does"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for name, reason in _reasons_to_skip(config).items():
            if reason and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def recorded_store() -> Path:
    """The folder of the recorded store; a test that asks for it is marked `recorded`."""
    return recorded_store_path().resolve()


@cache
def _reasons_to_skip(config: pytest.Config) -> dict[str, str]:
    """Each marker with the reason why its tests cannot run here, empty where they can."""
    store = recorded_store_path()
    network = config.getoption("--network") or os.environ.get("CI") == "true"
    return {
        "gpu": "" if _has_cuda() else "no CUDA device, or no torch that sees it",
        "network": "" if network else "reaches a package registry: give --network",
        "recorded": ""
        if (store / "store.toml").is_file()
        else f"no recorded store at {store}: set HWBENCH_RECORDED",
        "slow": "" if config.getoption("--slow") else "slow: give --slow",
    }


def _has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())
