"""The tree-structured Parzen estimator for several objectives, from Optuna."""

from __future__ import annotations

import warnings

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import TrialState, create_trial

from hwbench.search.history import History
from hwbench.search.optimiser import Setting

_VIOLATION = "violation"


class TPE(History):
    """Optuna's multi-objective TPE sampler (Ozaki et al., 2022), every gene a categorical choice.

    Every proposal is made by a sampler with a seed of its own over the whole history, so that
    nothing but the history has to be kept.
    """

    def __init__(self, setting: Setting) -> None:
        """Begin empty."""
        super().__init__(setting)
        self._space: dict[str, BaseDistribution] = {
            f"gene_{i}": CategoricalDistribution(tuple(range(many)))
            for i, many in enumerate(self._coding.choices.tolist())
        }
        self._study = self._fresh()

    def _fresh(self) -> optuna.Study:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        return optuna.create_study(directions=["minimize"] * self.setting.n_objectives)

    def propose(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """What the sampler suggests."""
        known = len(self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
        for genome, costs, violation in zip(
            self.genomes[known:], self.costs[known:], self.violation[known:], strict=True
        ):
            self._study.add_trial(
                create_trial(
                    params=dict(zip(self._space, genome.tolist(), strict=True)),
                    distributions=self._space,
                    values=costs.tolist(),
                    user_attrs={_VIOLATION: float(violation)},
                )
            )
        constrained = bool((self.violation > 0).any())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._study.sampler = optuna.samplers.TPESampler(
                seed=int(rng.integers(2**31)),
                n_startup_trials=0,
                constraints_func=_constraint if constrained else None,
            )
            trial = self._study.ask(self._space)
        self._study.tell(trial, state=TrialState.FAIL)
        row = np.array([trial.params[name] for name in self._space], np.int64)
        return np.asarray(self._coding.clear(row[None])[0])


def _constraint(trial: optuna.trial.FrozenTrial) -> tuple[float]:
    return (float(trial.user_attrs[_VIOLATION]),)
