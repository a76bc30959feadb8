"""`hwbench devices`, `spaces` and `metrics` list what there is, as a table and as JSON."""

from __future__ import annotations

import json

import pytest

from hwbench import space, spaces
from hwbench.cli.app import run
from hwbench.devices import catalogue
from hwbench.metrics import METRICS

NAMES = {"devices": list(catalogue()), "spaces": spaces(), "metrics": list(METRICS)}


@pytest.mark.parametrize("command", NAMES)
def test_table_and_json_list_the_same_names(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run([command]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == NAMES[command]
    assert run([command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row[command.removesuffix("s")] for row in rows] == NAMES[command]
    assert header.split() == list(rows[0])


def test_sizes_are_exact(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spaces", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["space"]: row["size"] for row in rows} == {n: space(n).size for n in spaces()}
