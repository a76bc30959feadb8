"""The registry of optimisers: to add one, add an entry to `ALGORITHMS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType

from hwbench.errors import InvalidValue, MissingDependency, unknown
from hwbench.search.optimiser import Optimiser, Setting


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One optimiser by name.

    Attributes:
        name: The name on the command line.
        title: The name in tables and pictures.
        module: The module of `hwbench.search` that makes it, imported when it is used.
        factory: The name there of what makes it from a `Setting`.
        baseline: Whether it is what others are compared with, and expected to beat.
        model_based: Whether it fits a model at every step, and so is slow.
        extra: The extra of hwbench that it needs.
    """

    name: str
    title: str
    module: str
    factory: str
    baseline: bool = False
    model_based: bool = False
    extra: str = "search"

    def make(self, setting: Setting) -> Optimiser:
        """Make the optimiser of a run.

        Raises:
            MissingDependency: Its library is not installed.
            InvalidValue: There are too few objectives.
        """
        if setting.n_objectives < 2:
            raise InvalidValue(f"{self.name} needs two objectives. Got {setting.n_objectives}.")
        try:
            module = import_module(f"hwbench.search.{self.module}")
        except ModuleNotFoundError as error:
            missing = str(error.name).partition(".")[0]
            raise MissingDependency(
                f"The algorithm {self.name} needs {missing}: pip install 'hwbench[{self.extra}]'."
            ) from None
        factory: Callable[[Setting], Optimiser] = getattr(module, self.factory)
        return factory(setting)


_ALL = (
    Algorithm("random", "random search", "simple", "RandomSearch", baseline=True),
    Algorithm("local", "local search", "simple", "LocalSearch", baseline=True),
    Algorithm("mo-rea", "MO-REA", "simple", "RegularisedEvolution"),
    Algorithm("nsga2", "NSGA-II", "genetic", "nsga2"),
    Algorithm("sms-emoa", "SMS-EMOA", "genetic", "sms_emoa"),
    Algorithm("tpe", "TPE", "tpe", "TPE", model_based=True),
    Algorithm(
        "bo-linear",
        "BO, linear scalarisation",
        "bayesian",
        "LinearBO",
        model_based=True,
        extra="bayes",
    ),
    Algorithm(
        "bo-random",
        "BO, random Chebyshev scalarisation",
        "bayesian",
        "ChebyshevBO",
        model_based=True,
        extra="bayes",
    ),
    Algorithm(
        "ehvi",
        "BO, expected hypervolume",
        "bayesian",
        "ExpectedHypervolume",
        model_based=True,
        extra="bayes",
    ),
)

ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType({a.name: a for a in _ALL})
"""All optimisers by name, baselines first and those that fit models last."""


def algorithm(name: str) -> Algorithm:
    """The optimiser of that name.

    Raises:
        UnknownName: No optimiser bears the name.

    >>> algorithm("nsga2").title
    'NSGA-II'
    """
    found = ALGORITHMS.get(name)
    if found is None:
        raise unknown("algorithm", name, ALGORITHMS)
    return found
