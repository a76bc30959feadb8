"""The blocks: the same names as a workload's, and errors of the house's form."""

from __future__ import annotations

import dataclasses

import pytest

from hwbench.cost import CONFIGS, block_config
from hwbench.errors import InvalidValue, UnknownName
from hwbench.workload import BLOCKS


def test_every_block_of_a_workload_has_a_config_and_no_other() -> None:
    assert sorted(CONFIGS) == sorted(BLOCKS)
    assert all(block_config(name).name == name for name in BLOCKS)


def test_configs_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        block_config("gpt2").vocabulary = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        CONFIGS["new"] = block_config("gpt2")  # type: ignore[index]


def test_unknown_block_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"^Unknown block 'gpt'\. Did you mean 'gpt2'\? Known: "):
        block_config("gpt")


@pytest.mark.parametrize("name", [None, 2, ["gpt2"]])
def test_block_must_be_text(name: object) -> None:
    with pytest.raises(InvalidValue, match=r"^The 'block' parameter .* must be a str\. Got "):
        block_config(name)  # type: ignore[arg-type]
