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
from botorch.acquisition.multi_objective.logei import qLogExpectedHypervolumeImprovement
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
from hwbench.search.optimiser import Floats

_STEPS = 50  # of L-BFGS; answers have next to no noise, and the likelihood creeps on for hundreds


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
    def propose(self, rng: np.random.Generator) -> NDArray[np.int64]:
        pool = self.candidates(rng)
        with seeded(int(rng.integers(2**31))):
            x = torch.from_numpy(features(self._coding, self.genomes))
            at = torch.from_numpy(features(self._coding, pool))
            gain = self.gain(x, at, rng)
            if (self.violation > 0).any():
                gain = gain + self._holding(x, at)
        chosen: NDArray[np.int64] = pool[int(torch.argmax(gain))]
        return chosen

    def gain(self, x: torch.Tensor, at: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """The logarithm of the expected gain at candidates, shape (n,)."""
        raise NotImplementedError

    def _holding(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """The logarithm of the probability that the constraints hold at candidates."""
        with torch.no_grad():
            found = _fitted(x, self.violation).posterior(at)
            score = -found.mean[:, 0] / found.variance[:, 0].sqrt()
        chance: torch.Tensor = torch.special.log_ndtr(score)
        return chance


def _fitted(x: torch.Tensor, y: Floats) -> SingleTaskGP:
    column = torch.from_numpy(np.ascontiguousarray(y, np.float64))[:, None]
    model = SingleTaskGP(x, column, outcome_transform=Standardize(1))
    likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": _STEPS}})
    return model


class ScalarisedBO(_Bayesian):
    """A Gaussian process of a randomly weighted sum, and its expected improvement.

    Linear: the weighted sum of the objectives.
    """

    def scalarised(self, rng: np.random.Generator) -> Floats:
        """What is minimised at this step, shape (n,)."""
        weights = rng.dirichlet(np.ones(self.setting.n_objectives))
        return np.asarray(self.normalised() @ weights)

    def gain(self, x: torch.Tensor, at: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """Log expected improvement (Ament et al., 2023)."""
        y = self.scalarised(rng)
        model = _fitted(x, -y)
        feasible = self.violation <= 0
        best = -float(y[feasible].min()) if feasible.any() else -float(y.min())
        with torch.no_grad():
            found: torch.Tensor = LogExpectedImprovement(model, best)(at[:, None])
        return found


class ChebyshevBO(ScalarisedBO):
    """As `ScalarisedBO`, with randomly weighted augmented Chebyshev scalarisation.

    Knowles (2006), ParEGO: a hybrid algorithm with on-line landscape approximation for expensive
    multiobjective optimization problems.
    """

    def scalarised(self, rng: np.random.Generator) -> Floats:
        """The greatest weighted objective, and a little of their sum."""
        weighted = self.normalised() * rng.dirichlet(np.ones(self.setting.n_objectives))
        return np.asarray(weighted.max(axis=1) + 0.05 * weighted.sum(axis=1))


class ExpectedHypervolume(_Bayesian):
    """A Gaussian process for each objective, and the expected hypervolume improvement.

    Daulton, Balandat and Bakshy (2020), Differentiable expected hypervolume improvement for
    parallel multi-objective Bayesian optimization; its logarithm by Ament et al. (2023).
    """

    REFERENCE = 1.1

    def gain(self, x: torch.Tensor, at: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """Log expected hypervolume improvement, against 1.1 of the ranges seen."""
        y = self.normalised()
        model = ModelListGP(*(_fitted(x, -column) for column in y.T))
        reference = torch.full((y.shape[1],), -self.REFERENCE, dtype=torch.float64)
        feasible = torch.from_numpy(-y[self.violation <= 0]).reshape(-1, y.shape[1])
        cells = NondominatedPartitioning(ref_point=reference, Y=feasible)
        sampler = SobolQMCNormalSampler(torch.Size([64]), seed=int(rng.integers(2**31)))
        gain = qLogExpectedHypervolumeImprovement(
            model, ref_point=reference, partitioning=cells, sampler=sampler
        )
        with torch.no_grad():
            found: torch.Tensor = gain(at[:, None])
        return found
