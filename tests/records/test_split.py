"""The split depends on an architecture's text and on nothing else."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwbench import space
from hwbench.architectures import ArchitectureTable
from hwbench.errors import InvalidValue
from hwbench.records.split import LABELS, digest, split, texts


def test_shares_are_as_asked_for() -> None:
    labels = split(space("m").sample(20_000, 0))
    share = {label: float(np.mean(labels == label)) for label in LABELS}
    assert share == pytest.approx({"train": 0.75, "calibrate": 0.15, "test": 0.1}, abs=0.01)


def test_table_architectures_and_texts_are_labelled_alike() -> None:
    for name in ("s", "l", "s-wide"):
        drawn = space(name).sample(50, 1)
        table = ArchitectureTable.of(drawn)
        assert texts(table) == [str(a) for a in drawn]
        assert split(table).tolist() == split(drawn).tolist() == split(texts(drawn)).tolist()
        assert digest(table) == digest(drawn[::-1])


@given(st.permutations(range(12)), st.integers(0, 2**32))
def test_order_and_company_do_not_matter(order: list[int], seed: int) -> None:
    drawn = space("s").sample(12, seed)
    labels = split(drawn)
    assert split([drawn[i] for i in order]).tolist() == labels[order].tolist()
    assert split(drawn[:3]).tolist() == labels[:3].tolist()


def test_another_process_with_another_hash_seed_agrees() -> None:
    code = (
        "from hwbench import space; from hwbench.records.split import digest, split;"
        "a = space('s').sample(200, 7); print(digest(a), *split(a))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    drawn = space("s").sample(200, 7)
    assert outputs == {" ".join([digest(drawn), *split(drawn)]) + "\n"}


def test_a_larger_test_share_keeps_a_smaller_one_and_another_salt_is_another_split() -> None:
    drawn = space("s").sample(2000, 3)
    small, large = (split(drawn, test=share, calibrate=0.2) == "test" for share in (0.1, 0.3))
    assert (large | ~small).all()
    assert (split(drawn, salt="another") != split(drawn)).any()


def test_extremes_and_nothing() -> None:
    drawn = space("s").sample(20, 0)
    assert set(split(drawn, test=1, calibrate=0)) == {"test"}
    assert set(split(drawn, test=0, calibrate=1)) == {"calibrate"}
    assert set(split(drawn, test=0, calibrate=0)) == {"train"}
    assert split([]).tolist() == []


def test_labels_never_change() -> None:
    # Scores that were published name this split; the labels of these texts are part of that.
    drawn = space("s").sample(12, 0)
    assert " ".join(label[0] for label in split(drawn)) == GOLDEN_LABELS
    assert digest(drawn) == GOLDEN_DIGEST


GOLDEN_LABELS = "t t t t t c c t t c t t"
GOLDEN_DIGEST = "b58e8afdba49b77ba286ef060e24341c5646a9f9ae1cc4ef2ad8a42a49ad99e9"


@pytest.mark.parametrize(
    "test, calibrate", [(-0.1, 0.2), (1.1, 0), (0.6, 0.5), (float("nan"), 0.1), (0.1, 2)]
)
def test_shares_outside_their_range_are_refused(test: float, calibrate: float) -> None:
    with pytest.raises(InvalidValue, match="parameter of split must be a share"):
        split([], test=test, calibrate=calibrate)
