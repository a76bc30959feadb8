"""The benchmark in the terms of other libraries: Optuna, pymoo and ConfigSpace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hwbench.architectures import Architecture, ArchitectureTable, SearchSpace
from hwbench.errors import MissingDependency
from hwbench.search.coding import Coding
from hwbench.search.task import Evaluator

if TYPE_CHECKING:
    import ConfigSpace
    import optuna
    import pymoo.core.problem


def _missing(name: str) -> MissingDependency:
    return MissingDependency(f"This adapter needs {name}: pip install 'hwbench[search]'.")


def optuna_objective(evaluator: Evaluator) -> Callable[[optuna.Trial], tuple[float, ...]]:
    """An objective function for an Optuna study.

    Make the study with `directions=directions(evaluator)`. Every choice is categorical; a layer's
    choices are asked for only where the architecture has the layer.

    Args:
        evaluator: The task and what answers.

    Returns:
        A function of a trial that gives the objectives' values in their units.
    """
    space = evaluator.task.search_space

    def objective(trial: optuna.Trial) -> tuple[float, ...]:
        n_layer = trial.suggest_categorical("n_layer", space.n_layer)
        arch = Architecture.from_dict(
            {
                "space": space.name,
                "n_layer": n_layer,
                "embed_dim": trial.suggest_categorical("embed_dim", space.embed_dim),
                "bias": trial.suggest_categorical("bias", space.bias),
                "n_head": [
                    trial.suggest_categorical(f"n_head_{i}", space.n_head) for i in range(n_layer)
                ],
                "mlp_ratio": [
                    trial.suggest_categorical(f"mlp_ratio_{i}", space.mlp_ratio)
                    for i in range(n_layer)
                ],
            },
            space,
        )
        trial.set_user_attr("architecture", str(arch))
        table = ArchitectureTable.of([arch])
        return tuple(evaluator.values(table, first=trial.number)[0].tolist())

    return objective


def directions(evaluator: Evaluator) -> list[str]:
    """The directions of a task's objectives, as Optuna names them."""
    return ["minimize" if o.sign > 0 else "maximize" for o in evaluator.task.objectives]


def pymoo_problem(evaluator: Evaluator) -> pymoo.core.problem.Problem:
    """A pymoo problem of whole numbers, evaluated a population at once.

    Its variables are the genes of `hwbench.search.coding.Coding`; its objectives are costs, which
    are negative where more is better.

    Args:
        evaluator: The task and what answers.

    Raises:
        MissingDependency: pymoo is not installed.
    """
    try:
        from pymoo.core.problem import Problem
    except ImportError:
        raise _missing("pymoo") from None
    task, coding = evaluator.task, Coding(evaluator.task.search_space)

    class BenchmarkProblem(Problem):  # type: ignore[misc]
        """The task."""

        def __init__(self) -> None:
            """Set the bounds."""
            super().__init__(
                n_var=len(coding.choices),
                n_obj=len(task.objectives),
                n_ieq_constr=len(task.constraints),
                xl=np.zeros(len(coding.choices), int),
                xu=coding.choices - 1,
                vtype=int,
            )

        def _evaluate(self, X: Any, out: Any, *args: Any, **kwargs: Any) -> None:
            table = coding.table(coding.clear(np.asarray(X, np.int64)))
            out["F"] = evaluator.costs(evaluator.values(table))
            if task.constraints:
                out["G"] = evaluator.violations(table)

    return BenchmarkProblem()


def configuration_space(
    search_space: SearchSpace, seed: int | None = None
) -> ConfigSpace.ConfigurationSpace:
    """The space as a ConfigSpace space; a layer's choices are active where there is the layer.

    Args:
        search_space: The space.
        seed: ConfigSpace's own.

    Raises:
        MissingDependency: ConfigSpace is not installed.
    """
    try:
        import ConfigSpace
    except ImportError:
        raise _missing("ConfigSpace") from None
    made = ConfigSpace.ConfigurationSpace(name=search_space.name, seed=seed)
    depth = ConfigSpace.OrdinalHyperparameter("n_layer", sorted(search_space.n_layer))
    made.add(
        depth,
        ConfigSpace.OrdinalHyperparameter("embed_dim", sorted(search_space.embed_dim)),
        ConfigSpace.CategoricalHyperparameter("bias", list(search_space.bias)),
    )
    for i in range(max(search_space.n_layer)):
        layer = [
            ConfigSpace.OrdinalHyperparameter(f"n_head_{i}", sorted(search_space.n_head)),
            ConfigSpace.OrdinalHyperparameter(f"mlp_ratio_{i}", sorted(search_space.mlp_ratio)),
        ]
        made.add(*layer)
        if i >= min(search_space.n_layer):
            deeper = [n for n in search_space.n_layer if n > i]
            made.add(*(ConfigSpace.InCondition(choice, depth, deeper) for choice in layer))
    return made


def from_configuration(search_space: SearchSpace, configuration: Mapping[str, Any]) -> Architecture:
    """The architecture of a configuration of `configuration_space`."""
    values = dict(configuration)
    n = int(values["n_layer"])
    return Architecture.from_dict(
        {
            "space": search_space.name,
            "n_layer": n,
            "embed_dim": int(values["embed_dim"]),
            "bias": bool(values["bias"]),
            "n_head": [int(values[f"n_head_{i}"]) for i in range(n)],
            "mlp_ratio": [int(values[f"mlp_ratio_{i}"]) for i in range(n)],
        },
        search_space,
    )
