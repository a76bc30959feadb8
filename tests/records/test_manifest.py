"""What store.toml says survives writing and reading; what it must not say is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwbench.architectures import SearchSpace
from hwbench.errors import InvalidStore
from hwbench.records.manifest import Manifest
from hwbench.workload import Workload

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
WORKLOADS = st.builds(
    Workload,
    batch_size=st.integers(1, 99),
    seq_len=st.integers(1, 9999),
    autocast=st.booleans(),
    method=TEXT.filter(bool),
    warmup_repeats=st.integers(0, 9),
)


@given(TEXT, TEXT, st.lists(WORKLOADS, max_size=3), st.dictionaries(TEXT, TEXT, max_size=3))
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    source: str,
    workloads: list[Workload],
    hashes: dict[str, str],
) -> None:
    folder = tmp_path_factory.mktemp("store")
    tiny = SearchSpace("tiny", (64,), (1, 2), (1,), (2, 4), (True,))
    made = Manifest(
        name, source, "CC0-1.0", workloads=tuple(workloads), spaces={"tiny": tiny}, sha256=hashes
    )
    (folder / "store.toml").write_text(made.to_toml(), "utf-8")
    assert Manifest.read(folder) == made


def test_hashes_are_sorted_so_that_the_text_is_the_same() -> None:
    made = [Manifest("a", "b", "c", sha256=dict(p)) for p in ([("x", "1"), ("a", "2")],)]
    again = Manifest("a", "b", "c", sha256={"a": "2", "x": "1"})
    assert made[0].to_toml() == again.to_toml()


GOOD = 'name = "a"\nsource = "b"\nlicence = "c"\n'


@pytest.mark.parametrize(
    "text, message",
    [
        ("name = ", "is not TOML"),
        ('name = "a"\nsource = "b"\n', "needs the field 'licence', a text"),
        ("name = 3\n", "needs the field 'name', a text"),
        (GOOD + "colour = 1\n", "Unknown field 'colour'. Known: name, source"),
        (GOOD + "workloads = 1\n", "'workloads' must be a list"),
        (GOOD + "workloads = [1]\n", "'workloads' must be made of tables"),
        (GOOD + "units = 1\n", "'units' must be a dict"),
        (GOOD + "units = { a = 1 }\n", "units.a must be a text. Got 1"),
        (GOOD + "[spaces]\na = 1\n", "'spaces' must be made of tables"),
        (GOOD + "[[workloads]]\nbatch_size = 0\n", "'workload' parameter of Workload"),
        (
            GOOD + '[[workloads]]\nbatch_size = 0\nseq_len = 1\nmethod = "x"\n',
            "'batch_size' parameter of Workload must be an int >= 1. Got 0",
        ),
        (GOOD + "[spaces.a]\nembed_dim = [1]\n", "needs the field 'n_layer'"),
    ],
)
def test_what_is_not_as_it_must_be(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "store.toml").write_text(text, "utf-8")
    with pytest.raises(InvalidStore) as error:
        Manifest.read(tmp_path)
    assert str(tmp_path) in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "store.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidStore, match=r"is not TOML"):
        Manifest.read(tmp_path)


@pytest.mark.recorded
def test_the_recorded_manifest_survives(recorded_store: Path, tmp_path: Path) -> None:
    manifest = Manifest.read(recorded_store)
    (tmp_path / "store.toml").write_text(manifest.to_toml(), "utf-8")
    assert Manifest.read(tmp_path) == manifest
    assert len(manifest.workloads) == 17
