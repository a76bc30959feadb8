"""Reading a store: what is asked for, strangers left out, damage named in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hwbench import Architecture, space
from hwbench.cost import count
from hwbench.errors import InvalidStore, InvalidValue, UnknownName
from hwbench.records import Readings, Store, StoreWriter
from hwbench.workload import Workload

H100 = "observations/h100/s.parquet"


def test_what_there_is(miniature: Path) -> None:
    store = Store.open(miniature)
    assert store.name == "miniature"
    assert store.devices() == ("cpu_xeon_gold", "h100")
    assert store.spaces() == store.spaces("h100") == ("s",)
    assert store.spaces("a100") == ()
    assert store.metrics("h100", "s") == ("energy", "latency", "memory")
    assert store.metrics(None, "s") == ("accuracy", "perplexity")
    assert store.metrics("h100", "m") == store.metrics("v100", "s") == ()
    assert len(store.workloads) == 5
    assert store.workloads_of("h100", "s", "energy") == (store.workloads[1],)
    assert store.conditions("h100", "s") is None


def test_architectures_and_what_was_counted(miniature: Path) -> None:
    recorded = Store.open(miniature).architectures("s")
    assert len(recorded) == 3
    assert recorded.strangers == {}
    made = recorded.table.architectures()
    assert recorded.recorded_params is not None
    assert recorded.recorded_params.tolist() == [count(a).params for a in made]
    assert [recorded.row(a) for a in made] == [0, 1, 2]
    assert recorded.row(space("m").smallest) is recorded.row(space("s").smallest) is None
    assert recorded.rows(recorded.table.take(np.array([2, 0]))).tolist() == [2, 0]


@pytest.mark.parametrize("name", ["latency", "latency_ms", "latencies"])
def test_observations_by_any_name(miniature: Path, name: str) -> None:
    seen = Store.open(miniature).observations("h100", "s", name)
    assert seen is not None
    assert (seen.device, seen.space, seen.metric, seen.field) == (
        "h100",
        "s",
        "latency",
        "latency_ms",
    )
    assert (seen.unit, seen.warmup_repeats, len(seen)) == ("ms", 3, 3)
    assert seen.repeats.matrix.shape == (3, 10)
    assert seen.kept.matrix.shape == (3, 7)
    assert np.array_equal(seen.kept.matrix, seen.repeats.matrix[:, 3:])
    assert seen.position.tolist() == [0, 1, 2]
    assert seen.table.architectures() == seen.recorded.table.architectures()
    some = seen.take(seen.position > 0)
    assert some.table.architectures() == seen.table.architectures()[1:]
    assert np.array_equal(some.kept.matrix, seen.kept.matrix[1:])


def test_quality_has_no_workload_and_keeps_all(miniature: Path) -> None:
    seen = Store.open(miniature).quality("s", "perplexity")
    assert seen is not None
    assert (seen.device, seen.workload, seen.warmup_repeats) == (None, None, 0)
    assert seen.kept.matrix.shape == (3, 1)


def test_what_there_is_not_is_none(miniature: Path) -> None:
    store = Store.open(miniature)
    assert store.observations("a100", "s", "latency") is None
    assert store.observations("cpu_xeon_gold", "s", "memory") is None
    assert store.observations("h100", "l", "latency") is None
    assert store.observations("h100", "s", "perplexity") is None
    assert store.quality("m", "accuracy") is None


def test_repeats_of_one_architecture(miniature: Path) -> None:
    store = Store.open(miniature)
    seen = store.observations("h100", "s", "energy")
    assert seen is not None
    for row, arch in enumerate(seen.table.architectures()):
        again = Architecture.parse(str(arch))
        assert np.array_equal(store.repeats(again, "h100", "energy"), seen.repeats.matrix[row])
    assert store.repeats(arch, "v100", "energy") is None
    assert store.repeats(arch, None, "accuracy").shape == (1,)  # type: ignore[union-attr]
    assert store.repeats(space("s").smallest, "h100", "energy") is None
    assert store.repeats(space("xl").smallest, "h100", "energy") is None


def test_what_a_caller_gets_of_the_repeats_is_its_own(miniature: Path) -> None:
    store = Store.open(miniature)
    arch = store.architectures("s").table.architectures()[0]
    first = store.repeats(arch, "h100", "latency")
    assert first is not None
    first[:] = 0
    assert store.repeats(arch, "h100", "latency").min() > 0  # type: ignore[union-attr]


def test_sessions_follow_each_other_in_the_repeats(store: Path) -> None:
    known = Store.open(store)
    seen = known.observations("h100", "s", "latency")
    assert seen is not None
    arch = seen.table.architectures()[1]
    more = Readings.one(
        arch, "latency", [7.0, 8.0], device="h100", workload=seen.workload, session=1
    )
    StoreWriter.open(store).append(more)
    again = Store.open(store).repeats(arch, "h100", "latency")
    assert again is not None
    assert again.tolist() == [*seen.repeats.of(1).tolist(), 7.0, 8.0]


def test_several_workloads_need_a_choice(store: Path, workload: Workload) -> None:
    arch = Store.open(store).architectures("s").table.architectures()[0]
    StoreWriter.open(store).append(
        Readings.one(arch, "latency", [1.0] * 5, device="h100", workload=workload)
    )
    again = Store.open(store)
    first, second = again.workloads_of("h100", "s", "latency")
    assert second == workload
    with pytest.raises(InvalidValue, match=r"latency_ms has several"):
        again.observations("h100", "s", "latency")
    with pytest.raises(InvalidValue, match=r"latency_ms has several"):
        again.repeats(arch, "h100", "latency")
    for choice, rows in ((first, 3), (second, 1)):
        seen = again.observations("h100", "s", "latency", choice)
        assert seen is not None
        assert (len(seen), seen.workload) == (rows, choice)
    assert again.repeats(arch, "h100", "latency", second).tolist() == [1.0] * 5  # type: ignore[union-attr]
    other = Workload(batch_size=3, seq_len=9, method="never used")
    with pytest.raises(InvalidValue, match=r"one of miniature's workloads"):
        again.observations("h100", "s", "latency", other)


def test_strangers_are_listed_and_left_out(store: Path, edit: Callable[..., None]) -> None:
    before = Store.open(store).architectures("s").table.n_layer.tolist()
    edit("architectures/s.parquet", n_layer=[99, *before[1:]])
    known = Store.open(store)
    recorded = known.architectures("s")
    assert len(recorded) == 2
    assert recorded.strangers == {0: "n_layer 99 is not in space s"}
    seen = known.observations("h100", "s", "latency")
    assert seen is not None
    assert (len(seen), seen.strangers, seen.arch_id.tolist()) == (2, 1, [1, 2])


@pytest.mark.parametrize(
    "columns, reason",
    [
        ({"embed_dim": [192, 5, 768]}, "embed_dim 5 is not in space s"),
        ({"n_head": [[4] * 3] * 3}, "a list n_head of length 3 is not in space s"),
        ({"mlp_ratio": [[9] * 12] * 3}, "is not in space s"),
    ],
)
def test_a_stranger_has_a_reason(
    store: Path, edit: Callable[..., None], columns: dict[str, list[object]], reason: str
) -> None:
    edit("architectures/s.parquet", **columns)
    assert any(reason in said for said in Store.open(store).architectures("s").strangers.values())


def damage_truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def damage_no_parquet(path: Path) -> None:
    path.write_text("not parquet")


def damage_missing_column(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["session"]), path)


def damage_wrong_type(path: Path) -> None:
    table = pq.read_table(path).drop_columns(["position"])
    pq.write_table(table.append_column("position", pa.array(["a"] * len(table))), path)


def damage_null(path: Path) -> None:
    table = pq.read_table(path).drop_columns(["position"])
    pq.write_table(table.append_column("position", pa.array([None] * len(table), pa.int32())), path)


@pytest.mark.parametrize(
    "damage, message",
    [
        (damage_truncated, "Cannot read .*h100/s.parquet"),
        (damage_no_parquet, "Cannot read .*h100/s.parquet"),
        (damage_missing_column, "h100/s.parquet must have the columns .* It lacks 'session'"),
        (damage_wrong_type, "Column 'position' of .* must be int32. Got string"),
        (damage_null, "Column 'position' of .* must have no nulls"),
    ],
)
def test_damage_is_one_line_that_names_the_file(
    store: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(store / H100)
    with pytest.raises(InvalidStore, match=message) as error:
        Store.open(store).observations("h100", "s", "latency")
    assert "\n" not in str(error.value)


def test_values_that_are_no_numbers_are_never_returned(
    store: Path, edit: Callable[..., None]
) -> None:
    rows = len(pq.read_table(store / H100))
    edit(H100, values=[[float("nan")]] * rows)
    with pytest.raises(InvalidStore, match=r"must be finite. Got nan in latency_ms"):
        Store.open(store).observations("h100", "s", "latency")


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"arch_id": 77}, "Column 'arch_id' of .* Got 77 instead"),
        ({"workload": 9}, "index into the 5 workloads of store.toml. Got 9 instead"),
        ({"workload": -1}, "Got -1 instead"),
    ],
)
def test_indices_that_lead_nowhere(
    store: Path, edit: Callable[..., None], columns: dict[str, int], message: str
) -> None:
    rows = len(pq.read_table(store / H100))
    edit(H100, **{name: [value] * rows for name, value in columns.items()})
    with pytest.raises(InvalidStore, match=message):
        Store.open(store).observations("h100", "s", "latency")


def test_ids_must_be_unique(store: Path, edit: Callable[..., None]) -> None:
    edit("architectures/s.parquet", arch_id=[0, 1, 1])
    with pytest.raises(InvalidStore, match=r"'arch_id' of .* must have no duplicates. Got 1"):
        Store.open(store).architectures("s")


def test_no_store_no_space_no_metric(tmp_path: Path, miniature: Path) -> None:
    with pytest.raises(InvalidStore, match=r"no record store at .*: no store.toml"):
        Store.open(tmp_path / "nowhere")
    store = Store.open(miniature)
    with pytest.raises(InvalidStore, match=r"has no architectures of space m. It has: s"):
        store.architectures("m")
    with pytest.raises(UnknownName, match=r"Unknown space 'ss'. Did you mean 's'"):
        store.observations("h100", "ss", "latency")
    with pytest.raises(UnknownName, match=r"Unknown metric 'latencyy'. Did you mean 'latency'"):
        store.observations("h100", "s", "latencyy")
    with pytest.raises(InvalidValue, match=r"'path' parameter of Store.open"):
        Store.open(None)  # type: ignore[arg-type]


@pytest.mark.recorded
def test_the_recorded_store_reads(recorded_store: Path) -> None:
    store = Store.open(recorded_store)
    assert len(store.devices()) == 14
    for name in store.spaces():
        assert len(store.architectures(name)) == 9000
    assert len(store.architectures("m").strangers) == 17
    seen = store.observations("a6000", "m", "latency")
    assert seen is not None
    assert (len(seen), seen.strangers, seen.kept.matrix.shape) == (9000, 17, (9000, 7))
    energy = store.observations("a6000", "m", "energy")
    assert energy is not None
    assert energy.kept.matrix.shape == (9000, 38)
