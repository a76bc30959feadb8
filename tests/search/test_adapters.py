"""The adapters give other libraries the benchmark's own values."""

from __future__ import annotations

import numpy as np
import pytest

from hwbench.architectures import Architecture, ArchitectureTable, space
from hwbench.search import Evaluator
from hwbench.search.adapters import (
    configuration_space,
    directions,
    from_configuration,
    optuna_objective,
    pymoo_problem,
)


def test_optuna(evaluator: Evaluator) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(directions=directions(evaluator), sampler=sampler)
    study.optimize(optuna_objective(evaluator), n_trials=5)
    for trial in study.trials:
        arch = Architecture.parse(trial.user_attrs["architecture"])
        assert trial.values == evaluator.values(ArchitectureTable.of([arch]))[0].tolist()


def test_pymoo(evaluator: Evaluator) -> None:
    pytest.importorskip("pymoo")
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.operators.repair.rounding import RoundingRepair
    from pymoo.operators.sampling.rnd import IntegerRandomSampling
    from pymoo.optimize import minimize

    result = minimize(
        pymoo_problem(evaluator),
        NSGA2(20, sampling=IntegerRandomSampling(), repair=RoundingRepair()),
        ("n_gen", 3),
        seed=0,
    )
    assert np.isfinite(result.F).all()
    assert result.F.shape[1] == 2


@pytest.mark.parametrize("name", ["s", "m-wide"])
def test_configspace(name: str) -> None:
    pytest.importorskip("ConfigSpace")
    owner = space(name)
    made = configuration_space(owner, seed=1)
    archs = [from_configuration(owner, c) for c in made.sample_configuration(60)]
    assert all(owner.contains(a) for a in archs)
    assert {a.n_layer for a in archs} == set(owner.n_layer)
    assert {a.bias for a in archs} == {True, False}
