"""`artifacts=`: one's own artefacts, laid over those that come with hwbench."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from hwbench import Benchmark, SearchSpace
from hwbench.errors import HwbenchError, InvalidArtifact, InvalidValue
from hwbench.surrogate import shipped
from tests.benchmark.conftest import OWN


def test_a_space_and_a_device_of_one_s_own(own: Benchmark) -> None:
    assert own.space == OWN
    assert own.devices == ["my-gpu"]
    assert own.metrics == ["latency", "energy", "perplexity", "params", "macs", "flops"]
    arch = own.space.smallest
    answer = own.query(arch)
    assert answer["my-gpu"]["latency"].supported
    assert answer["my-gpu"]["energy"].supported
    assert answer["perplexity"].supported
    reason = answer["h100"]["latency"].reason
    assert reason == (
        "There is no artefact of latency on h100 in space own. Devices with latency there: my-gpu."
    )
    assert answer["accuracy"].reason == (
        "There is no artefact of accuracy in space own. Spaces with accuracy: s, m, l."
    )
    frame = own.query_many([arch], "my-gpu", "latency")
    assert frame["source"].tolist() == ["surrogate"]


def test_one_s_own_lie_over_the_shipped_ones(bench: Benchmark, artifacts: Path) -> None:
    """The own h100 takes ten times as long as the shipped one, so one can tell which answers."""
    laid = Benchmark("s", artifacts=artifacts)
    assert laid.devices == [*bench.devices, "my-gpu"]
    arch = bench.space.largest
    assert laid.predict(arch, "h100")[0, 1] > 2 * bench.predict(arch, "h100")[0, 1]
    assert laid.card("h100", "latency").path.is_relative_to(artifacts)
    for device, metric in (("h100", "energy"), ("a40", "latency"), (None, "perplexity")):
        there = bench.predict(arch, device, metric)
        assert np.array_equal(laid.predict(arch, device, metric), there)
    assert laid.query(arch, "my-gpu", "latency")["my-gpu"]["latency"].evidence == "low"
    # The benchmark without them is as it was.
    assert "my-gpu" not in Benchmark("s").devices


def test_a_space_may_be_a_value(own: Benchmark, artifacts: Path) -> None:
    given = Benchmark(OWN, artifacts=artifacts)
    archs = OWN.sample(3, 0)
    assert np.array_equal(given.predict(archs, "my-gpu"), own.predict(archs, "my-gpu"))
    assert repr(given) == "<Benchmark of space own: 1 devices>"


def test_an_artefact_of_another_space_of_that_name_is_refused(artifacts: Path) -> None:
    """Its table of costs would have been read at the wrong rows."""
    turned = SearchSpace("own", (128, 64), (2, 3), (1, 2), (2, 4), (True, False))
    bench = Benchmark(turned, artifacts=artifacts)
    with pytest.raises(InvalidArtifact, match="must be of space own as it was given"):
        bench.predict(turned.smallest, "my-gpu")
    with pytest.raises(InvalidArtifact, match="other choices"):
        bench.query(turned.smallest)


@pytest.mark.parametrize("given", [3, ["surrogates"], b"surrogates", True, "", "\0"])
def test_artifacts_are_given_by_a_path(given: object) -> None:
    with pytest.raises(InvalidValue, match="'artifacts' parameter of Benchmark must be the path"):
        Benchmark("s", artifacts=given)  # type: ignore[arg-type]


def test_a_folder_without_artefacts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArtifact, match="nowhere"):
        Benchmark("s", artifacts=tmp_path / "nowhere")
    with pytest.raises(InvalidArtifact, match="which has none"):
        Benchmark("s", artifacts=tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/todo.json").write_text("{}")
    with pytest.raises(InvalidArtifact, match="which has none"):
        Benchmark("s", artifacts=str(tmp_path))
    # The folder of one space is not the root.
    with pytest.raises(InvalidArtifact, match=r"<space>/<device>/<metric>\.json"):
        Benchmark("s", artifacts=shipped() / "s/h100")


@pytest.fixture
def copy(artifacts: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(artifacts, tmp_path / "copy"))


def edit_card(path: Path) -> None:
    path.write_text(path.read_text().replace('"evidence": "low"', '"evidence": "full"'))


def cut_booster(path: Path) -> None:
    booster = path.with_name("latency.spread.ubj")
    booster.write_bytes(booster.read_bytes()[:-10])


def no_booster(path: Path) -> None:
    path.with_name("latency.correction.ubj").unlink()


def of_another_place(path: Path) -> None:
    shutil.copy(path.with_name("energy.json"), path)


@pytest.mark.parametrize(
    "break_it, words",
    [
        (edit_card, "must have the hash that it names"),
        (cut_booster, "must have the hash that its card names"),
        (no_booster, "Cannot read the booster"),
        (of_another_place, "must be of latency on my-gpu in own"),
        (lambda path: path.write_text("{"), "is not JSON"),
        (lambda path: path.write_bytes(b"\xff"), "is not JSON"),
        (lambda path: path.write_text("[]"), "must be an artefact's card"),
        (lambda path: path.write_text('{"format": 99}'), "must be of format"),
    ],
)
def test_a_damaged_artefact_is_one_line(copy: Path, break_it: object, words: str) -> None:
    break_it(copy / "own/my-gpu/latency.json")  # type: ignore[operator]
    bench = Benchmark(OWN, artifacts=copy)
    for ask in (
        lambda: bench.predict(OWN.smallest, "my-gpu"),
        lambda: bench.query(OWN.smallest),
        lambda: bench.query_many([OWN.smallest], "my-gpu"),
    ):
        with pytest.raises(HwbenchError) as caught:
            ask()
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
    assert bench.predict(OWN.smallest, "my-gpu", "energy").shape == (1, 3)
    assert bench.predict(OWN.smallest, None, "params").shape == (1, 3)
