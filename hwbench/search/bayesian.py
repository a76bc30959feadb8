"""Bayesian optimisation with BoTorch's Gaussian processes and acquisition functions.

The acquisition function is maximised over a drawn set of candidates: the choices are discrete, and
so many that their list cannot be gone through.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from botorch.acquisition.analytic import LogExpectedImprovement
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.acquisition.multi_objective.analytic import ExpectedHypervolumeImprovement
from botorch.acquisition.objective import GenericMCObjective, ScalarizedPosteriorTransform
from botorch.fit import fit_gpytorch_mll
from botorch.models.gp_regression import SingleTaskGP
from botorch.models.model_list_gp_regression import ModelListGP
from botorch.models.transforms.outcome import Standardize
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.multi_objective.box_decompositions import NondominatedPartitioning
from gpytorch.mlls import ExactMarginalLogLikelihood
from numpy.typing import NDArray

from hwbench.search.coding import Coding, Genomes
from hwbench.search.history import History
from hwbench.search.optimiser import Floats, Setting

_REFIT = 4  # evaluations between two fits of the hyperparameters; every one is conditioned on
_STEPS = 30  # of L-BFGS; answers have next to no noise, and the likelihood creeps on for hundreds


def features(coding: Coding, genomes: Genomes) -> Floats:
    """Rows as a model sees them: what is chosen once, and the means and ends of what is not.

    A metric of an architecture depends on how many layers have which choice far more than on which
    layer that is, so a few means say most of it, and few evaluations can fit them.

    Returns:
        float64 in [0, 1], shape (n, 9).
    """
    scaled, deep = coding.scaled(genomes), coding.deepest
    columns = [scaled[:, :3]]
    for group in (scaled[:, 3 : 3 + deep], scaled[:, 3 + deep :]):
        there = group >= 0
        total = np.where(there, group, 0.0).sum(axis=1)
        half = max(deep // 2, 1)
        first = np.where(there[:, :half], group[:, :half], 0.0).sum(axis=1)
        columns.append(
            np.stack(
                [total / deep, total / there.sum(axis=1), first / there[:, :half].sum(axis=1)],
                axis=1,
            )
        )
    return np.concatenate(columns, axis=1)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Give torch one thread and a seed of its own, and then back what it had."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


class _Bayesian(History):
    """A Gaussian process for each objective, less being better, and one for the violation."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._fits: tuple[int, list[dict[str, torch.Tensor]]] = (0, [])

    def propose(self, rng: np.random.Generator) -> NDArray[np.int64]:
        pool = self.candidates(rng)
        x = torch.from_numpy(features(self._coding, self.genomes))
        at = torch.from_numpy(features(self._coding, pool))
        models = self._models(x)
        seed = int(rng.integers(2**31))
        with seeded(seed), torch.no_grad():
            gain = self.gain(ModelListGP(*models[: self.costs.shape[1]]), at, rng)
            if (self.violation > 0).any():
                found = models[-1].posterior(at)
                score = -found.mean[:, 0] / found.variance[:, 0].sqrt()
                gain = gain + torch.special.log_ndtr(score)
        chosen: NDArray[np.int64] = pool[int(torch.argmax(gain))]
        return chosen

    def gain(self, model: ModelListGP, at: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """The logarithm of the expected gain at candidates, shape (n,)."""
        raise NotImplementedError

    def _columns(self) -> list[Floats]:
        """What is modelled, more being better, shape (n,) each."""
        found = [-column for column in self.normalised().T]
        return [*found, self.violation] if (self.violation > 0).any() else found

    def _models(self, x: torch.Tensor) -> list[SingleTaskGP]:
        """Models of all evaluations; their hyperparameters are those of some evaluations ago."""
        columns = self._columns()
        n = len(x) - len(x) % _REFIT
        if self._fits[0] != n or len(self._fits[1]) != len(columns):
            # The seed is that of the evaluations, so that a resumed run fits the same.
            with seeded(int(self.setting.rng(n, 1).integers(2**31))):
                self._fits = n, [_fitted(x[:n], column[:n]) for column in columns]
        models = []
        for column, fit in zip(columns, self._fits[1], strict=True):
            model = _model(x, column)
            model.load_state_dict(fit, strict=False)
            models.append(model.eval())
        return models

    def _best(self, values: Floats) -> float:
        """The greatest value of what is feasible, or of all where nothing is."""
        feasible = self.violation <= 0
        return float(values[feasible].max() if feasible.any() else values.max())

    def _weights(self, rng: np.random.Generator) -> Floats:
        return rng.dirichlet(np.ones(self.setting.n_objectives))


def _model(x: torch.Tensor, y: Floats) -> SingleTaskGP:
    column = torch.from_numpy(np.ascontiguousarray(y, np.float64))[:, None]
    return SingleTaskGP(x, column, outcome_transform=Standardize(1))


def _fitted(x: torch.Tensor, y: Floats) -> dict[str, torch.Tensor]:
    """The hyperparameters that fit best, without those of the scale of `y`."""
    model = _model(x, y)
    likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": _STEPS}})
    state: dict[str, torch.Tensor] = model.state_dict()
    return {k: v for k, v in state.items() if not k.startswith("outcome_transform")}


class LinearBO(_Bayesian):
    """The expected improvement of a randomly weighted sum of the objectives."""

    def gain(self, model: ModelListGP, at: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """Log expected improvement (Ament et al., 2023)."""
        weights = self._weights(rng)
        best = self._best(-self.normalised() @ weights)
        found: torch.Tensor = LogExpectedImprovement(
            model, best, posterior_transform=ScalarizedPosteriorTransform(torch.from_numpy(weights))
        )(at[:, None])
        return found


class ChebyshevBO(_Bayesian):
    """The expected improvement of a randomly weighted augmented Chebyshev scalarisation.

    Knowles (2006), ParEGO: a hybrid algorithm with on-line landscape approximation for expensive
    multiobjective optimization problems.
    """

    def gain(self, model: ModelListGP, at: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """Log expected improvement by 64 quasi-random draws (Ament et al., 2023)."""
        weights = torch.from_numpy(self._weights(rng))

        def scalarised(y: torch.Tensor, X: torch.Tensor | None = None) -> torch.Tensor:
            return (y * weights).amin(dim=-1) + 0.05 * (y * weights).sum(dim=-1)

        seen = scalarised(torch.from_numpy(-self.normalised())).numpy()
        found: torch.Tensor = qLogExpectedImprovement(
            model,
            best_f=self._best(seen),
            sampler=_sampler(rng),
            objective=GenericMCObjective(scalarised),
        )(at[:, None])
        return found


class ExpectedHypervolume(_Bayesian):
    """The expected hypervolume improvement.

    Yang, Emmerich, Deutz and Baeck (2019), Efficient computation of expected hypervolume
    improvement using box decomposition algorithms. BoTorch's `qLogExpectedHypervolumeImprovement`
    would compile an extension for the machine at hand when it is first used.
    """

    REFERENCE = 1.1

    def gain(self, model: ModelListGP, at: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """Against 1.1 of the ranges seen; the exact expectation, for the models are independent."""
        y = torch.from_numpy(-self.normalised()[self.violation <= 0])
        k = self.costs.shape[1]
        reference = torch.full((k,), -self.REFERENCE, dtype=torch.float64)
        cells = NondominatedPartitioning(ref_point=reference, Y=y.reshape(-1, k))
        found: torch.Tensor = ExpectedHypervolumeImprovement(
            model, ref_point=reference.tolist(), partitioning=cells
        )(at[:, None])
        return torch.log(found.clamp_min(1e-30))


def _sampler(rng: np.random.Generator) -> SobolQMCNormalSampler:
    return SobolQMCNormalSampler(torch.Size([64]), seed=int(rng.integers(2**31)))
