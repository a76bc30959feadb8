"""Appending: what was written is what is read, and a killed process leaves a valid store."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwbench import Architecture, SearchSpace, space
from hwbench.architectures import ArchitectureTable
from hwbench.errors import InvalidStore, InvalidValue, UnknownName
from hwbench.records import Condition, Readings, Repeats, Store, StoreWriter, files, validate
from hwbench.workload import Workload

ABOUT = {"name": "mine", "source": "a test", "licence": "CC0-1.0"}
WORK = Workload(batch_size=8, seq_len=1024, method="a test", warmup_repeats=1)
# Every float32 from here on is one that the schema holds exactly.
VALUES = st.lists(st.floats(2**-20, 2**20, width=32), min_size=1, max_size=5)


def reading(arch: Architecture, position: int, values: list[float] | None = None) -> Readings:
    return Readings.one(
        arch, "latency", values or [1.0, 2.0], device="my-gpu", workload=WORK, position=position
    )


@given(st.lists(VALUES, min_size=1, max_size=6), st.integers(0, 1000), st.integers(1, 3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]], seed: int, parts: int
) -> None:
    writer = StoreWriter.create(tmp_path_factory.mktemp("x") / "store", **ABOUT)
    archs = space("s").sample(len(rows), seed)
    for part in range(parts):
        some = range(part, len(rows), parts)
        if some:
            made = Readings(
                device="my-gpu",
                metric="latency",
                workload=WORK,
                architectures=ArchitectureTable.of([archs[i] for i in some]),
                session=np.zeros(len(some), np.int64),
                position=np.array(some),
                repeats=Repeats(
                    np.concatenate([rows[i] for i in some]),
                    np.cumsum([0, *(len(rows[i]) for i in some)]),
                ),
            )
            writer.append(made)
    seen = Store.open(writer.path).observations("my-gpu", "s", "latency")
    assert seen is not None
    read = zip(seen.position.tolist(), seen.table.architectures(), strict=True)
    assert {at: (arch, seen.repeats.of(i).tolist()) for i, (at, arch) in enumerate(read)} == dict(
        enumerate(zip(archs, rows, strict=True))
    )
    assert seen.workload == WORK
    report = validate(writer.path)
    assert report.valid
    assert {f.rule for f in report.warnings} <= {"device", "warm-up"}


def test_new_architectures_get_new_ids_and_known_ones_keep_theirs(store: Path) -> None:
    writer = StoreWriter.open(store)
    known = Store.open(store).architectures("s").table.architectures()
    new = [space("s").smallest, space("s").largest]
    table = ArchitectureTable.of([new[0], known[2], new[1], new[0]])
    assert writer.add_architectures(table).tolist() == [3, 2, 4, 3]
    assert writer.add_architectures(table).tolist() == [3, 2, 4, 3]
    recorded = Store.open(store).architectures("s")
    assert recorded.table.architectures() == [*known, *new]
    # What the source counted is not known of the new ones, so it is not known of all.
    assert recorded.recorded_params is None
    assert validate(store).valid


def test_workloads_are_listed_once(tmp_path: Path) -> None:
    writer = StoreWriter.create(tmp_path / "store", **ABOUT)
    other = Workload(batch_size=1, seq_len=1024, method="a test")
    for position, arch in enumerate(space("s").sample(3, 0)):
        energy = Readings.one(arch, "energy", [1.0], device="my-gpu", workload=other)
        writer.append(reading(arch, position), energy)
    assert Store.open(writer.path).workloads == (WORK, other)


def test_a_space_of_ones_own_is_kept_with_the_store(tmp_path: Path) -> None:
    tiny = SearchSpace("tiny", (64,), (1, 2), (1, 2), (2, 4), (True,))
    writer = StoreWriter.create(tmp_path / "store", **ABOUT)
    writer.append(reading(tiny.largest, 0))
    store = Store.open(writer.path)
    assert store.space("tiny") == tiny
    assert store.repeats(tiny.largest, "my-gpu", "latency").tolist() == [1.0, 2.0]  # type: ignore[union-attr]
    assert validate(writer.path).valid
    other = SearchSpace("tiny", (64,), (1, 3), (1, 2), (2, 4), (True,))
    with pytest.raises(InvalidValue, match=r"another space by the name of 'tiny'"):
        writer.append(reading(other.largest, 1))


def test_conditions_go_with_the_readings(tmp_path: Path) -> None:
    writer = StoreWriter.create(tmp_path / "store", **ABOUT)
    first, second = space("s").sample(2, 0)
    writer.append(
        reading(first, 0),
        conditions=[
            Condition(
                device="my-gpu",
                architecture=first,
                workload=WORK,
                session=0,
                position=0,
                warmup_values=(3.0, 2.5),
                temperature_c=61,
            ),
            Condition(
                device="my-gpu",
                architecture=second,
                workload=WORK,
                session=0,
                position=1,
                status="failed",
                reason="out of memory",
            ),
        ],
    )
    frame = Store.open(writer.path).conditions("my-gpu", "s")
    assert frame is not None
    assert frame["status"].tolist() == ["ok", "failed"]
    assert frame["reason"].tolist() == ["", "out of memory"]
    assert frame["warmup_values"][0].tolist() == [3.0, 2.5]
    assert frame["temperature_c"][0] == 61
    assert validate(writer.path).valid


def test_next_session(store: Path) -> None:
    writer = StoreWriter.open(store)
    assert writer.next_session("h100") == 1
    assert writer.next_session("h100", ["m"]) == 0
    assert writer.next_session("my-gpu") == 0


@pytest.mark.parametrize(
    "again", [lambda a: [reading(a, 0)], lambda a: [reading(a, 5), reading(a, 5)]]
)
def test_a_reading_stands_once(
    tmp_path: Path, again: Callable[[Architecture], list[Readings]]
) -> None:
    writer = StoreWriter.create(tmp_path / "store", **ABOUT)
    arch = space("s").smallest
    writer.append(reading(arch, 0))
    before = snapshot(writer.path)
    with pytest.raises(InvalidValue, match=r"must be new to the store.*metric latency_ms"):
        writer.append(*again(arch))
    assert snapshot(writer.path) == before


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"values": [1.0, float("nan")]}, "finite and positive in latency_ms. Got .*nan"),
        ({"values": [0.0]}, "finite and positive"),
        ({"values": [-1.0]}, "finite and positive"),
        ({"values": [float("inf")]}, "finite and positive"),
        ({"values": []}, "one value or more"),
        ({"device": None}, "a device and a workload"),
        ({"workload": None}, "a device and a workload"),
        ({"metric": "perplexity"}, "no device and no workload"),
        ({"metric": "flops"}, "one of latency_ms"),
        ({"session": -1}, "'session' parameter of Readings"),
        ({"session": 2**15}, "'session' parameter of Readings"),
        ({"position": 2**31}, "'position' parameter of Readings"),
    ],
)
def test_readings_that_cannot_be(changes: dict[str, object], message: str) -> None:
    given = {"metric": "latency", "values": [1.0], "device": "x", "workload": WORK, **changes}
    with pytest.raises(InvalidValue, match=message):
        Readings.one(space("s").smallest, **given)  # type: ignore[arg-type]


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"Unknown metric 'latncy'"):
        Readings.one(space("s").smallest, "latncy", [1.0], device="x", workload=WORK)


@pytest.mark.parametrize(
    "changes, message",
    [({"status": "great"}, "one of ok, skipped"), ({"reason": "x"}, "reason"), ({}, "")],
)
def test_a_condition_has_a_status_and_a_reason(changes: dict[str, str], message: str) -> None:
    about = {"device": "x", "architecture": space("s").smallest, "workload": WORK}
    if not message:
        Condition(**about, session=0, position=0)  # type: ignore[arg-type]
        return
    with pytest.raises(InvalidValue, match=message):
        Condition(**about, session=0, position=0, **changes)  # type: ignore[arg-type]


def test_a_taken_folder_is_left_alone(tmp_path: Path, store: Path) -> None:
    for taken in (store, store / "store.toml"):
        with pytest.raises(InvalidValue, match=r"must be new or empty"):
            StoreWriter.create(taken, **ABOUT)
    assert validate(store).valid
    (tmp_path / "empty").mkdir()
    StoreWriter.create(tmp_path / "empty", **ABOUT)
    assert validate(tmp_path / "empty").findings == ()
    with pytest.raises(InvalidValue, match=r"'licence' parameter"):
        StoreWriter.create(tmp_path / "other", name="a", source="b", licence="")
    with pytest.raises(InvalidStore, match=r"no record store"):
        StoreWriter.open(tmp_path / "nowhere")


def test_a_folder_without_rights_is_one_line(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Rights are simulated: they do not bind the superuser, who runs the tests in some places.
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "somewhere")

    before = snapshot(store)
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InvalidStore, match=r"Cannot write .*new: Permission denied\.") as error:
        StoreWriter.create(tmp_path / "new", **ABOUT)
    assert "\n" not in str(error.value)
    monkeypatch.undo()
    for function in ("write_text", "write_table"):
        monkeypatch.setattr(files, function, refuse)
        with pytest.raises(InvalidStore, match=r"Cannot write .*store: Permission denied\."):
            StoreWriter.open(store).append(reading(space("s").smallest, 0))
        monkeypatch.undo()
    assert snapshot(store) == before


def snapshot(store: Path) -> dict[str, bytes]:
    return {
        p.relative_to(store).as_posix(): p.read_bytes()
        for p in sorted(store.rglob("*"))
        if p.is_file() and not files.is_temporary(p)
    }


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("step", range(8))
def test_an_append_killed_anywhere_leaves_a_valid_store(
    store: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    arch, later = space("s").sample(2, 99)
    rename, count = Path.replace, 0

    def maybe_die(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count > step:
            raise Killed
        return rename(self, target)

    readings = [
        reading(arch, 0),
        Readings.one(arch, "latency", [4.0, 5.0], device="h100", workload=WORK, position=9),
        Readings.one(arch, "perplexity", [30.0], position=9),
    ]
    before = Store.open(store).observations("h100", "s", "energy")
    monkeypatch.setattr(Path, "replace", maybe_die)
    try:
        StoreWriter.open(store).append(*readings)
    except Killed:
        pass
    else:
        assert step >= 6, "the append has six renames"
    monkeypatch.undo()

    report = validate(store)
    assert report.valid, report.errors
    after = Store.open(store).observations("h100", "s", "energy")
    assert before is not None
    assert after is not None
    assert np.array_equal(before.repeats.flat, after.repeats.flat)
    StoreWriter.open(store).append(reading(later, 1))
    report = validate(store)
    assert report.valid
    assert {f.rule for f in report.findings} <= {"device"}
    assert not [p for p in store.rglob("*") if files.is_temporary(p)]


def append_many(path: Path, first: int) -> None:
    for position in range(first, first + 8):
        arch = space("s").sample(1, position)[0]
        StoreWriter.open(path).append(reading(arch, position))


def test_processes_append_at_once(tmp_path: Path) -> None:
    path = StoreWriter.create(tmp_path / "store", **ABOUT).path
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=append_many, args=(path, n)) for n in (0, 8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    seen = Store.open(path).observations("my-gpu", "s", "latency")
    assert seen is not None
    assert sorted(seen.position.tolist()) == list(range(16))
    assert validate(path).valid


def append_forever(path: Path, first: int) -> None:
    while True:
        append_many(path, first)
        first += 8


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
def test_a_process_that_is_really_killed(tmp_path: Path) -> None:
    path = StoreWriter.create(tmp_path / "store", **ABOUT).path
    context = multiprocessing.get_context("spawn")
    for attempt in range(5):
        worker = context.Process(target=append_forever, args=(path, 10_000 * attempt))
        worker.start()
        worker.join(2.5 + 0.1 * attempt)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        report = validate(path)
        assert report.valid, report.errors
    seen = Store.open(path).observations("my-gpu", "s", "latency")
    assert seen is not None
    assert len(seen) > 5


def test_what_a_campaign_says_is_written_with_its_hash(tmp_path: Path) -> None:
    writer = StoreWriter.create(tmp_path / "c", name="c", source="test", licence="CC0-1.0")
    assert Store.open(writer.path).campaign("my-gpu", "s") is None
    for said in ({"budget": 64}, {"budget": 32}):
        writer.write_campaign("my-gpu", "s", said)
        assert Store.open(writer.path).campaign("my-gpu", "s") == said
        assert validate(writer.path).findings == ()
    (writer.path / "campaigns/my-gpu/s.json").write_text("[1")
    with pytest.raises(InvalidStore, match=r"campaigns/my-gpu/s\.json"):
        Store.open(writer.path).campaign("my-gpu", "s")
