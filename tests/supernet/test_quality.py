"""Scores go into a store once each, and a surrogate is fitted on them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from hwbench import Benchmark
from hwbench.cost import count
from hwbench.errors import InvalidArchitecture, InvalidArtifact, InvalidValue
from hwbench.records import Store, validate
from hwbench.supernet import (
    Data,
    Supernet,
    Windows,
    describe,
    rank_correlation,
    record_quality,
    stratified,
    subnetwork_perplexity,
)
from hwbench.surrogate.fit_all import fit_all, tasks
from tests.supernet.tiny import TINY, VOCABULARY, shrunk, text, tiny_supernet

WINDOWS = Windows(context=24, stride=24, batch_size=16)


@pytest.fixture
def supernet(tmp_path: Path) -> Supernet:
    return tiny_supernet(tmp_path / "parent")


@pytest.fixture
def data(tmp_path: Path, supernet: Supernet) -> Data:
    path = tmp_path / "text.txt"
    path.write_text(text(150, seed=1))
    return Data.open(path, supernet.tokeniser, VOCABULARY)


def test_scores_go_into_a_store_once_and_are_fitted(
    supernet: Supernet, data: Data, tmp_path: Path
) -> None:
    store, archs = tmp_path / "store", TINY.sample(40, seed=0)
    advanced: list[int] = []
    first = record_quality(supernet, archs[:10], data, store, WINDOWS, progress=advanced.append)
    assert first == sum(advanced) == len(set(archs[:10]))
    again = record_quality(supernet, [*archs, *archs], data, store, WINDOWS)
    assert again == len(set(archs)) - first
    assert record_quality(supernet, archs, data, store, WINDOWS) == 0
    assert [f for f in validate(store).findings if f.severity == "error"] == []
    opened = Store.open(store)
    seen = opened.quality("tiny", "perplexity")
    assert seen is not None
    found = dict(zip(seen.table.architectures(), seen.kept.matrix[:, 0], strict=True))
    expected = subnetwork_perplexity(supernet, archs[3], data, WINDOWS)
    assert found[archs[3]] == pytest.approx(expected.perplexity, rel=1e-6)  # a float32
    for said in ("weights", "context 24", "stride 24", data.sha256[:12], supernet.digest()[:12]):
        assert said in opened.manifest.source
    # The accuracy of an untrained parent may be 0, of which there is no logarithm of the odds.
    assert {t.metric for t in tasks(opened)} == {"perplexity", "accuracy"}
    list(fit_all(opened, tmp_path / "out", tasks(opened, metrics=["perplexity"])))
    answer = Benchmark(TINY, artifacts=tmp_path / "out").query(archs[0], None, "perplexity")
    assert answer.predictions()[0].median is not None


def test_a_store_takes_one_protocol_only(supernet: Supernet, data: Data, tmp_path: Path) -> None:
    store, archs = tmp_path / "store", TINY.sample(2, seed=0)
    record_quality(supernet, archs, data, store, WINDOWS)
    with pytest.raises(
        InvalidValue, match=r"another protocol: .*stride 24\. This one is: .*stride 12"
    ):
        record_quality(supernet, archs, data, str(store), Windows(context=24, stride=12))


def test_nothing_is_written_for_a_list_with_a_stranger(
    supernet: Supernet, data: Data, tmp_path: Path
) -> None:
    wanted = [*TINY.sample(2, seed=0), shrunk("s").smallest]
    with pytest.raises(InvalidArchitecture, match="must be one of its space tiny"):
        record_quality(supernet, wanted, data, tmp_path / "store", WINDOWS)
    assert not (tmp_path / "store").exists()


def test_nothing_is_written_for_windows_out_of_range(
    supernet: Supernet, data: Data, tmp_path: Path
) -> None:
    with pytest.raises(InvalidValue, match="at most the model's 24"):
        record_quality(
            supernet,
            TINY.sample(2, seed=0),
            data,
            tmp_path / "store",
            Windows(context=25, stride=1),
        )
    assert not (tmp_path / "store").exists()


# Agreement


def test_tau_and_its_interval() -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(60)
    close = rank_correlation(truth, truth + 0.3 * rng.standard_normal(60))
    assert close.low < close.value < close.high
    assert (close.n, rank_correlation(truth, truth).value) == (60, pytest.approx(1.0))
    chance = rank_correlation(truth, rng.standard_normal(60))
    assert chance.low < 0 < chance.high
    assert rank_correlation(truth, -truth, seed=3) == rank_correlation(truth, -truth, seed=3)
    for wrong in (([1, 2], [1, 2]), ([1, 2, 3], [1, 2]), ([[1, 2, 3]], [[1, 2, 3]])):
        with pytest.raises(InvalidValue, match="as long as 'a', 3 or more"):
            rank_correlation(*wrong)


def test_strata_go_from_few_parameters_to_many() -> None:
    owner = shrunk("s")
    archs = owner.sample(60, seed=0)
    drawn = stratified(archs, 12, seed=1)
    sizes = sorted(count(a, block="gpt2").params for a in archs)
    for i, arch in enumerate(drawn):
        assert sizes[5 * i] <= count(arch, block="gpt2").params <= sizes[5 * i + 4]
    assert drawn == stratified(archs[::-1], 12, seed=1)
    assert drawn != stratified(archs, 12, seed=2)
    with pytest.raises(InvalidValue, match=r"from 1 to 60\. Got 61"):
        stratified(archs, 61, seed=0)


# Describing


def test_a_description_of_a_checkpoint_and_of_a_supernet(tmp_path: Path) -> None:
    supernet = tiny_supernet(tmp_path / "parent", layers="strided")
    found = describe(tmp_path / "parent")
    assert (found["kind"], found["space"], found["steps"]) == ("checkpoint", None, 0)
    assert set(found["files"]) == {"config.json", "model.safetensors"}
    supernet.save(tmp_path / "saved")
    found = describe(tmp_path / "saved")
    assert (found["kind"], found["space"], found["steps"]) == ("supernet", TINY.to_dict(), 0)
    assert found["architectures"] == TINY.size
    assert (found["widths"], found["layers"]) == ("prefix", "strided")
    assert found["parent"] == supernet.origin
    [weights] = (tmp_path / "saved").glob("weights-*")
    assert found["files"][weights.name]["bytes"] == weights.stat().st_size


def test_what_is_neither_or_damaged_is_refused(tmp_path: Path) -> None:
    tiny_supernet(tmp_path / "parent").save(tmp_path / "saved")
    for name in ("absent", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(InvalidArtifact):
            describe(tmp_path / name)
    [weights] = (tmp_path / "saved").glob("weights-*")
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(InvalidArtifact, match="is damaged: its sha256 must be"):
        describe(tmp_path / "saved")
    shutil.rmtree(tmp_path / "saved")
