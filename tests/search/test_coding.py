"""Genes: every architecture has a row and comes back from it; changes stay inside the space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwbench.architectures import ArchitectureTable, SearchSpace, space, spaces
from hwbench.search.coding import Coding, texts

ODD = SearchSpace("odd", (64, 32), (3, 1), (2,), (4, 1, 2), (False,))


@pytest.mark.parametrize("owner", [*map(space, spaces()), ODD], ids=lambda s: s.name)
def test_architectures_come_back_from_their_rows(owner: SearchSpace) -> None:
    archs = owner.sample(50, seed=3)
    coding = Coding(owner)
    rows = coding.genomes(ArchitectureTable.of(archs))
    assert coding.table(rows).architectures() == archs
    assert texts(coding.table(rows)) == [str(a) for a in archs]
    assert (rows >= 0).all()
    assert (rows < coding.choices).all()


@pytest.mark.parametrize("owner", [space("s"), space("l-wide"), ODD], ids=lambda s: s.name)
def test_neighbours_are_those_of_the_space(owner: SearchSpace) -> None:
    coding = Coding(owner)
    for arch in owner.sample(10, seed=1):
        row = coding.genomes(ArchitectureTable.of([arch]))[0]
        found = coding.table(coding.neighbours(row)).architectures()
        assert set(found) == set(owner.neighbours(arch))
        assert len(found) == len(set(found))


@given(seed=st.integers(0, 2**32 - 1))
def test_a_mutant_is_another_architecture_of_the_space(seed: int) -> None:
    coding = Coding(space("s-wide"))
    rng = np.random.default_rng(seed)
    rows = coding.sample(20, rng)
    mutants = coding.mutate(rows, rng)
    assert (mutants != rows).any(axis=1).all()
    assert (mutants == coding.clear(mutants)).all()
    assert (mutants < coding.choices).all()


def test_a_mutant_can_have_any_choice_of_the_new_layers() -> None:
    owner = space("s-wide")
    coding = Coding(owner)
    row = coding.genomes(ArchitectureTable.of([owner.smallest]))
    many = coding.mutate(np.repeat(row, 3000, axis=0), np.random.default_rng(0))
    deep = coding.table(many[coding.depth(many) == 12])
    assert set(np.unique(deep.n_head[:, 11]).tolist()) == {4, 8, 12}
    assert set(np.unique(deep.mlp_ratio[:, 11]).tolist()) == {1, 2, 4}


def test_drawing_twice_is_drawing_once() -> None:
    coding = Coding(space("m"))
    first, second = np.random.default_rng(5), np.random.default_rng(5)
    parts = [coding.sample(n, first) for n in (3, 0, 4)]
    assert (np.concatenate(parts) == coding.sample(7, second)).all()


def test_every_choice_is_drawn_alike() -> None:
    table = Coding(space("s")).table(Coding(space("s")).sample(4000, np.random.default_rng(0)))
    assert abs(table.bias.mean() - 0.5) < 0.03
    for column, choices in ((table.embed_dim, 3), (table.n_layer, 3)):
        _, counts = np.unique(column, return_counts=True)
        assert len(counts) == choices
        assert abs(counts / 4000 - 1 / 3).max() < 0.03


def test_scaled_rows_lie_in_the_unit_interval() -> None:
    coding = Coding(ODD)
    scaled = coding.scaled(coding.sample(50, np.random.default_rng(0)))
    assert set(np.unique(scaled).tolist()) <= {-1.0, 0.0, 1 / 3, 1.0}
