"""Tables are rebuilt byte for byte, and the page needs nothing but itself."""

from __future__ import annotations

import csv
import json
import re
import shutil

import numpy as np
import pytest

from hwbench.architectures import Architecture
from hwbench.benchmark import Benchmark
from hwbench.errors import InvalidValue
from hwbench.leaderboard import Suite
from hwbench.leaderboard.build import check, files, leaderboard, require
from hwbench.leaderboard.optimisers import compare, optimiser_rows


def test_what_was_built_is_built_again(built: Suite) -> None:
    assert check(built) == []


def test_a_change_is_seen(suite: Suite) -> None:
    path = suite.folder / "optimisers.csv"
    path.write_text(path.read_text().replace("nsga2", "nsga9"))
    (suite.folder / "devices.csv").unlink()
    found = check(suite)
    assert len(found) == 2
    with pytest.raises(InvalidValue, match=r"optimisers\.csv differs .* first in line"):
        require(suite)


def test_numbers_have_six_digits(built: Suite) -> None:
    made = files(leaderboard(built))
    tables = json.loads(made["leaderboard.json"])
    for row in tables["optimisers"]:
        for value in row.values():
            if isinstance(value, float):
                assert value == float(f"{value:.6g}")
    rows = list(csv.DictReader(made["optimisers.csv"].splitlines()))
    assert {row["algorithm"] for row in rows} == {"random", "nsga2"}
    assert {row["evaluations"] for row in rows} == {"10", "50"}


def test_winners_keep_to_their_budgets(built: Suite) -> None:
    rows = next(t.rows for t in leaderboard(built).tables if t.name == "architectures")
    assert {(r["device"], r["budget of"]) for r in rows} == {
        (d, m) for d in ("h100", "rtx2080") for m in ("latency", "energy")
    }
    bench = Benchmark("s")
    for row in rows:
        arch = Architecture.parse(row["architecture"])
        value = bench.predict(arch, row["device"], row["budget of"], (0.5,))[0, 0]
        assert row["value"] == pytest.approx(value, rel=1e-6)
        assert row["value"] <= row["budget"] * (1 + 1e-6)
        assert row["perplexity q05"] <= row["perplexity"] <= row["perplexity q95"]


def test_ranks_and_intervals(built: Suite) -> None:
    c = compare(built, built.parts[0])
    rows = optimiser_rows(c, [50])
    assert sum(row["rank"] for row in rows) == pytest.approx(3)
    for row in rows:
        assert row["regret_low"] <= row["regret"] <= row["regret_high"]
    assert rows[0]["regret"] <= rows[1]["regret"]
    i = c.names.index("nsga2")
    assert next(r for r in rows if r["algorithm"] == "nsga2")["regret"] == pytest.approx(
        c.regret[i, :, :, -1].mean()
    )


def test_the_same_random_runs_tie(suite: Suite) -> None:
    part = suite.parts[0]
    folder = suite.folder / "results/all/s/perplexity,latency@h100"
    text = (folder / "random.jsonl").read_text()
    (folder / "twin.jsonl").write_text(text.replace('"random"', '"twin"'))
    c = compare(suite, part)
    rank = dict(zip(c.names, c.mean_rank(2).tolist(), strict=True))
    assert rank["random"] == rank["twin"]
    assert np.isclose(sum(rank.values()), 6)


def test_an_optimiser_without_all_its_runs_is_not_compared(suite: Suite) -> None:
    path = suite.folder / "results/all/s/perplexity,latency@h100/nsga2.jsonl"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    c = compare(suite, suite.parts[0])
    assert c.names == ("random",)
    assert c.incomplete == ("nsga2",)
    assert "runs are missing: nsga2" in files(leaderboard(suite))["leaderboard.md"]


def test_a_suite_without_runs_is_told_what_to_run(suite: Suite) -> None:
    """It ended in a traceback."""
    shutil.rmtree(suite.folder / "results")
    with pytest.raises(InvalidValue, match=r"in part all .* Run hwbench leaderboard run"):
        leaderboard(suite)


def test_the_page_needs_nothing_else(built: Suite) -> None:
    pytest.importorskip("matplotlib")
    from hwbench.leaderboard.gallery import page

    text = page(leaderboard(built))
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", text)
    assert "@import" not in text
    assert text.count("<svg") == 5
    assert text.count("<table") == 5
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert page(leaderboard(built)) == text
