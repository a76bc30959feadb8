"""Fitting a store: the same bytes wherever it runs, and nothing twice."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwbench.encode import Features
from hwbench.errors import InvalidStore, InvalidValue, UnknownName
from hwbench.records import Store, StoreWriter, split
from hwbench.records.split import digest, texts
from hwbench.surrogate import Catalogue, artifact, load, read_card
from hwbench.surrogate.fit import drift_of
from hwbench.surrogate.fit_all import Task, fit_all, fit_one, held_out, rescore, tasks
from hwbench.surrogate.reliability import reliability
from hwbench.surrogate.settings import Settings
from tests.surrogate.synthetic import (
    TINY,
    WORKLOAD,
    Machine,
    draw,
    readings,
    space_s,
    write_store,
)

SETTINGS = Settings(fewest=100, correction_rounds=3, spread_rounds=3)

ALL = [
    Task("tiny", "cpu_xeon_gold", "latency"),
    Task("tiny", "h100", "latency"),
    Task("tiny", None, "perplexity"),
]


def files(root: Path) -> dict[str, bytes]:
    """All files below a folder with what they hold, hidden ones too."""
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def fitted(store: Path, out: Path, settings: Settings = SETTINGS) -> dict[Task, bool]:
    """Fit everything; whether each was fitted anew."""
    opened = Store.open(store)
    return {o.task: o.fitted for o in fit_all(opened, out, tasks(opened), settings=settings)}


@pytest.fixture(scope="module")
def once(synthetic_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artefacts of the synthetic store, not to be changed."""
    out = tmp_path_factory.mktemp("artifacts")
    assert fitted(synthetic_store, out) == dict.fromkeys(ALL, True)
    return out


@pytest.fixture
def out(once: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return Path(shutil.copytree(once, tmp_path / "artifacts"))


@pytest.fixture
def store(synthetic_store: Path, tmp_path: Path) -> Path:
    """A copy of the store."""
    return Path(shutil.copytree(synthetic_store, tmp_path / "store"))


def test_the_artefacts_lie_in_their_places(once: Path) -> None:
    assert sorted(files(once)) == [
        "tiny/cpu_xeon_gold/latency.correction.ubj",
        "tiny/cpu_xeon_gold/latency.json",
        "tiny/cpu_xeon_gold/latency.spread.ubj",
        "tiny/h100/latency.correction.ubj",
        "tiny/h100/latency.json",
        "tiny/h100/latency.spread.ubj",
        "tiny/perplexity.correction.ubj",
        "tiny/perplexity.json",
        "tiny/perplexity.spread.ubj",
    ]


def test_the_bytes_are_the_same_in_other_processes(
    synthetic_store: Path, once: Path, tmp_path: Path
) -> None:
    """Two workers under another hash seed make what this process made alone."""
    out, script = tmp_path / "out", tmp_path / "fit.py"
    script.write_text(f"""
from pathlib import Path
from hwbench.records import Store
from hwbench.surrogate.settings import Settings
from hwbench.surrogate.fit_all import fit_all, tasks

if __name__ == "__main__":
    store = Store.open({str(synthetic_store)!r})
    list(fit_all(store, Path({str(out)!r}), tasks(store), settings={SETTINGS!r}, workers=2))
""")
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    subprocess.run([sys.executable, str(script)], env=environment, check=True)
    assert files(out) == files(once)


# Resuming


def test_what_fits_is_not_fitted_again(synthetic_store: Path, out: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*")}
    assert fitted(synthetic_store, out) == dict.fromkeys(ALL, False)
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*")} == before


def test_an_interrupted_fit_goes_on(synthetic_store: Path, once: Path, tmp_path: Path) -> None:
    opened = Store.open(synthetic_store)
    running = fit_all(opened, tmp_path / "out", ALL, settings=SETTINGS)
    first = next(running)
    running.close()  # type: ignore[attr-defined]
    again = fitted(synthetic_store, tmp_path / "out")
    assert again == {task: task != first.task for task in ALL}
    assert files(tmp_path / "out") == files(once)


def test_a_fit_that_was_killed_while_writing_goes_on(
    synthetic_store: Path, once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, replaced = tmp_path / "out", Path.replace

    def refused(self: Path, target: Path) -> Path:
        if target.suffix == ".json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return replaced(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", refused)
        with pytest.raises(OSError, match="No space left"):
            fit_one(synthetic_store, out, ALL[1], SETTINGS)
    assert set(Catalogue.of(out).cards) == set()
    assert fitted(synthetic_store, out) == dict.fromkeys(ALL, True)
    assert files(out) == files(once)


@pytest.mark.parametrize(
    "settings", [replace(SETTINGS, seed=1), replace(SETTINGS, spread_rounds=2)]
)
def test_other_settings_are_fitted_again(
    synthetic_store: Path, out: Path, settings: Settings
) -> None:
    assert fitted(synthetic_store, out, settings) == dict.fromkeys(ALL, True)
    assert read_card(out / "tiny/h100/latency.json").values["settings"] == settings.to_dict()


def test_other_data_are_fitted_again_and_nothing_else(store: Path, out: Path) -> None:
    more = Machine().measure(draw(TINY, 5, 99), 9)
    later = replace(more, session=more.session + 9)
    StoreWriter.open(store).append(readings(later, "h100", "latency"))
    assert fitted(store, out) == {task: task == ALL[1] for task in ALL}


def test_another_version_of_a_library_is_fitted_again(
    synthetic_store: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xgboost.__version__", "99.0")
    assert fitted(synthetic_store, out) == dict.fromkeys(ALL, True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda card: card.write_bytes(card.read_bytes()[:-20]),
        lambda card: card.with_name("latency.spread.ubj").unlink(),
        lambda card: card.with_name("latency.spread.ubj").write_bytes(b"another fit's"),
        lambda card: card.unlink(),
    ],
)
def test_a_damaged_artefact_is_fitted_again(
    synthetic_store: Path, once: Path, out: Path, damage: Any
) -> None:
    """A booster that was merely there used to be enough, whatever it held."""
    damage(out / "tiny/h100/latency.json")
    assert fitted(synthetic_store, out) == {task: task == ALL[1] for task in ALL}
    assert files(out) == files(once)


# What is fitted


def test_a_store_names_its_tasks(synthetic_store: Path) -> None:
    opened = Store.open(synthetic_store)
    assert tasks(opened) == ALL
    assert tasks(opened, spaces=["tiny"]) == ALL
    assert tasks(opened, devices=["h100"]) == ALL[1:2]
    assert tasks(opened, metrics=["latencies"]) == ALL[:2]
    assert tasks(opened, metrics=["ppl"]) == ALL[2:]
    assert [str(t) for t in ALL[1:]] == ["latency in tiny on h100", "perplexity in tiny"]


def test_spaces_are_fitted_apart(store: Path) -> None:
    writer = StoreWriter.open(store)
    writer.append(readings(Machine().measure(space_s(3), 1), "h100", "energy"))
    opened = Store.open(store)
    own = Task("s", "h100", "energy")
    assert tasks(opened) == [own, *ALL]
    assert tasks(opened, spaces=["s"]) == [own]


@pytest.mark.parametrize(
    "chosen, message",
    [
        ({"spaces": ["tinny"]}, "Unknown space of the store 'tinny'. Did you mean 'tiny'?"),
        ({"devices": ["h10"]}, "Unknown device of the store 'h10'. Did you mean 'h100'?"),
        ({"metrics": ["latenci"]}, "Unknown metric 'latenci'. Did you mean 'latency'?"),
    ],
)
def test_unknown_names_are_refused(
    synthetic_store: Path, chosen: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnknownName) as caught:
        tasks(Store.open(synthetic_store), **chosen)
    assert str(caught.value).startswith(message)


def test_nothing_to_fit_is_refused(synthetic_store: Path) -> None:
    with pytest.raises(InvalidStore, match="has no observations of what was asked for"):
        tasks(Store.open(synthetic_store), metrics=["energy"])


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_workers_must_be_a_number_of_processes(
    synthetic_store: Path, tmp_path: Path, workers: Any
) -> None:
    with pytest.raises(InvalidValue, match="'workers' parameter of fit_all must be an int >= 1"):
        list(fit_all(Store.open(synthetic_store), tmp_path, ALL, workers=workers))


def test_a_task_that_cannot_be_fitted_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    writer = StoreWriter.create(tmp_path / "s", name="few", source="a test", licence="CC0-1.0")
    writer.append(readings(Machine().measure(draw(TINY, 4, 0), 1), "h100", "latency"))
    with pytest.raises(InvalidStore, match=r"^Cannot fit latency in tiny on h100: A fit of"):
        fitted(tmp_path / "s", tmp_path / "out")
    assert files(tmp_path / "out") == {}


@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_fitted_keeps_no_other_from_it(workers: int, tmp_path: Path) -> None:
    """An accuracy of 0 once left the perplexity of the same store without a surrogate."""
    path, few = write_store(tmp_path / "s", architectures=60), draw(TINY, 4, 9)
    StoreWriter.open(path).append(
        readings(Machine().measure(few, 1), "a100", "latency"),
        readings(Machine().measure(few, 2), "v100", "latency"),
    )
    opened = Store.open(path)
    running = fit_all(opened, tmp_path / "out", tasks(opened), workers=workers)
    assert sorted(str(next(running).task) for _ in ALL) == sorted(map(str, ALL))
    with pytest.raises(InvalidStore, match=r"^Cannot fit .* on a100: .* 1 more cannot be fitted"):
        next(running)


def test_a_folder_that_cannot_be_written_is_an_error_of_the_system(
    synthetic_store: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        list(fit_all(Store.open(synthetic_store), tmp_path / "file/out", ALL))


# What a card says


def test_a_card_says_what_it_was_made_of(synthetic_store: Path, once: Path) -> None:
    card = read_card(once / "tiny/h100/latency.json")
    seen = Store.open(synthetic_store).observations("h100", "tiny", "latency")
    assert seen is not None
    labels = split(seen.table)
    test = seen.table.take(labels == "test")
    values = card.values
    assert card.search_space == TINY
    assert card.workload == WORKLOAD
    assert card.evidence == "low"
    assert values["split"]["test_sha256"] == digest(test)
    assert values["split"]["test_architectures"] == len(test)
    assert values["training"]["observations"] == {
        name: int((labels == name).sum()) for name in ("train", "calibrate", "test")
    }
    assert values["training"]["repeats"] == seen.kept.lengths[0]
    assert values["training"]["largest"] == seen.kept.flat.max()
    assert values["versions"].keys() == {"hwbench", "numpy", "scipy", "xgboost"}
    assert not set(texts(test)) & set(texts(seen.table.take(labels != "test")))


@pytest.mark.parametrize("task", ALL, ids=str)
def test_rescoring_gives_the_cards_scores(synthetic_store: Path, once: Path, task: Task) -> None:
    card = Catalogue.of(once).card(task.space, task.device, task.metric)
    assert card is not None
    again = rescore(Store.open(synthetic_store), card)
    assert again == card.scores


def test_rescoring_follows_the_cards_split(synthetic_store: Path, once: Path, out: Path) -> None:
    """Under another rule, architectures that the fit has seen would be scored on."""
    path = out / "tiny/h100/latency.json"
    values = dict(read_card(path).values)
    values["split"] = {**values["split"], "salt": "another"}
    del values["id"]
    path.write_text(artifact._text({**values, "id": artifact._digest(values)}))
    opened = Store.open(synthetic_store)
    measured, labels = held_out(opened, read_card(path))
    assert labels.tolist() == split(measured.table, salt="another").tolist()
    assert (
        labels.tolist() != held_out(opened, read_card(once / "tiny/h100/latency.json"))[1].tolist()
    )


def test_a_campaigns_roles_decide_what_trains_and_what_is_scored_on(tmp_path: Path) -> None:
    table = draw(TINY, 70, 0)
    roles = ["designed"] * 20 + ["random"] * 30 + ["test"] * 20
    writer = StoreWriter.create(tmp_path / "s", name="own", source="a test", licence="CC0-1.0")
    writer.append(readings(Machine().measure(table, 1), "h100", "latency"))
    items = [{"architecture": a, "role": r} for a, r in zip(texts(table), roles, strict=True)]
    writer.write_campaign("h100", "tiny", {"plan": {"items": items}})
    assert fitted(tmp_path / "s", tmp_path / "out") == {ALL[1]: True}
    assert fitted(tmp_path / "s", tmp_path / "out") == {ALL[1]: False}
    card = read_card(tmp_path / "out/tiny/h100/latency.json")
    assert card.values["training"]["observations"] == {"train": 50, "calibrate": 30, "test": 20}
    assert card.values["split"]["test_sha256"] == digest(table.take(np.array(roles) == "test"))
    assert card.values["split"]["campaign"]
    assert load(card).calibration.architectures == (30, 30)
    assert rescore(Store.open(tmp_path / "s"), card) == card.scores


def test_a_store_without_the_observations_is_refused(once: Path, tmp_path: Path) -> None:
    writer = StoreWriter.create(tmp_path / "s", name="other", source="a test", licence="CC0-1.0")
    other = Machine().measure(draw(TINY, 20, 0), 1)
    writer.append(readings(other, "a100", "latency"))
    card = read_card(once / "tiny/h100/latency.json")
    with pytest.raises(InvalidStore, match="has no observations of latency in tiny on h100"):
        rescore(Store.open(tmp_path / "s"), card)


def test_few_observations_of_another_session_can_be_scored(once: Path, tmp_path: Path) -> None:
    """Without training neighbours nothing is known of the drift, and none is taken out."""
    writer = StoreWriter.create(tmp_path / "s", name="new", source="a test", licence="CC0-1.0")
    table = draw(TINY, 300, 0)
    test = table.take(split(table) == "test")
    writer.append(readings(Machine().measure(test, 1), "h100", "latency"))
    card = read_card(once / "tiny/h100/latency.json")
    found = rescore(Store.open(tmp_path / "s"), card)
    assert found["architectures"] == len(test)
    assert found["mape"] == pytest.approx(found["mape_drift_adjusted"])


def test_reliability_is_the_share_below_each_quantile(synthetic_store: Path, once: Path) -> None:
    opened = Store.open(synthetic_store)
    card = read_card(once / "tiny/h100/latency.json")
    rows = reliability(opened, card)
    measured, labels = held_out(opened, card)
    test = measured.take(labels == "test")
    surrogate = load(card)
    assert drift_of(surrogate, measured, labels, "latency").window > 0
    for row in rows[::6]:
        assert (row["device"], row["space"], row["metric"]) == ("h100", "tiny", "latency")
        quantile = surrogate.quantiles(Features(test.table), np.array([row["level"]]))[:, 0]
        below = [(v <= q) for own, q in zip(test.values, quantile, strict=True) for v in own]
        assert row["below"] == pytest.approx(sum(below) / len(below))
    assert [r["below"] for r in rows] == sorted(r["below"] for r in rows)
    assert rows[9]["level"] == 0.5
    assert rows[9]["below"] == pytest.approx(0.5, abs=0.15)


def test_of_few_subnetworks_those_that_calibrate_train_too(tmp_path: Path) -> None:
    """A supernet that scored 60 could spare none of them."""
    store = Store.open(write_store(tmp_path / "store", architectures=60))
    task = Task("tiny", None, "perplexity")
    card = fit_one(store.path, tmp_path / "out", task, SETTINGS).card
    counts = card.values["training"]["observations"]
    _, labels = held_out(store, card)
    assert counts["train"] == 60 - counts["test"]
    assert 0 < counts["calibrate"] < 20
    assert (labels == "test").sum() == counts["test"] > 0
    assert "campaign" not in card.values["split"]
    assert rescore(store, card) == card.values["scores"]
    assert not fit_one(store.path, tmp_path / "out", task, SETTINGS).fitted
