"""`Prediction`: a distribution with its moments, its samples and its parts."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtri

from hwbench import Benchmark, Prediction, SearchSpace
from hwbench.architectures import ArchitectureTable
from hwbench.benchmark import Components
from hwbench.benchmark.prediction import FromForm, FromRecord, FromSurrogate
from hwbench.encode import Features
from hwbench.errors import InvalidValue, UnknownName
from hwbench.metrics import metric
from hwbench.records import Store
from hwbench.surrogate import Surrogate
from hwbench.surrogate import surrogate as parts
from hwbench.surrogate.base import LayerCost
from hwbench.surrogate.calibration import Calibration
from hwbench.surrogate.fit_all import fit_all, tasks
from hwbench.surrogate.settings import Settings
from hwbench.surrogate.transform import transform
from tests.benchmark.conftest import OWN, readings, unique

ONE = SearchSpace("one", (64,), (1,), (1,), (2,), (True,))
MEDIAN, SIGMA = 7.0, 0.3


def lognormal(architectures: int = 10**6) -> Prediction:
    """A latency whose logarithm is normal, as from a surrogate that so many calibrated."""
    least = 1 / (architectures + 1)
    tail = np.geomspace(1e-6, 1e-3, 200)
    levels = np.unique(np.r_[least, 1 - least, tail, 1 - tail, np.linspace(0.001, 0.999, 999)])
    levels = levels[(levels >= least) & (levels <= 1 - least)]
    scores = np.array([-1.0, 0.0, 1.0])
    surrogate = Surrogate(
        ONE,
        transform("log"),
        LayerCost(np.array([[[MEDIAN - 1.0, 1.0]]]), 1e-6),
        None,
        parts.Spread(scores, np.array([SIGMA]), scores[None], np.ones((1, 2)), None),
        Calibration((levels,), (ndtri(levels),), (architectures,)),
        parts.Components(np.array([0.1]), np.array([0.2]), np.array([0.05])),
    )
    features = Features(ArchitectureTable.of([ONE.smallest]))
    return Prediction(metric("latency"), "h100", FromSurrogate(surrogate.distribution(features)))


def measured(*repeats: float) -> Prediction:
    return Prediction(metric("latency"), "h100", FromRecord(np.array(repeats)))


def test_a_lognormal_has_its_quantiles_and_moments() -> None:
    p = lognormal()
    assert p.median == pytest.approx(MEDIAN, rel=1e-12)
    for q in (0.05, 0.3, 0.9):
        assert p.quantile(q) == pytest.approx(MEDIAN * math.exp(SIGMA * ndtri(q)), rel=1e-9)
    mean = MEDIAN * math.exp(SIGMA**2 / 2)
    assert p.mean == pytest.approx(mean, rel=1e-3)
    assert p.std == pytest.approx(mean * math.sqrt(math.exp(SIGMA**2) - 1), rel=0.002)
    assert dict(p.components) == pytest.approx(
        {"repeat": 0.1 * MEDIAN, "drift": 0.2 * MEDIAN, "model": 0.05 * MEDIAN}
    )


def shipped() -> list[Prediction]:
    bench = Benchmark("l")
    predictions = bench.query(bench.space.sample(1, 2)[0]).predictions()
    return [p for p in predictions if p.supported]


def test_moments_are_those_of_a_fine_grid() -> None:
    """Two hundred equal shares once missed an eighth of the deviation where tails are heavy."""
    fine = (np.arange(100_000) + 0.5) / 100_000
    for p in shipped():
        source = p._source
        assert source is not None
        values = source.quantiles(np.clip(fine, *source.support()))
        assert p.mean == pytest.approx(values.mean(), rel=1e-4), p
        assert p.std == pytest.approx(values.std(), rel=0.01, abs=1e-12), p


def test_samples_are_of_the_distribution() -> None:
    for p in shipped():
        drawn = p.sample(20_000, seed=3)
        assert drawn.shape == (20_000,)
        assert drawn.dtype == np.float64
        assert (drawn > 0).all()
        assert np.isfinite(drawn).all()
        for q in (0.1, 0.5, 0.9):
            assert np.mean(drawn <= p.quantile(q)) == pytest.approx(q, abs=0.015) or p.std == 0
        assert drawn.mean() == pytest.approx(p.mean, abs=5 * p.std / math.sqrt(20_000) + 1e-9)


def test_a_seed_gives_the_same_samples_in_another_process() -> None:
    script = (
        "import hwbench; b = hwbench.Benchmark('s'); a = b.space.smallest;"
        "print(b.query(a, 'h100', 'latency')['h100']['latency'].sample(3, 7).tolist())"
    )
    bench = Benchmark("s")
    p = bench.query(bench.space.smallest, "h100", "latency")["h100"]["latency"]
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "5"},
    )
    assert done.stdout.strip() == str(p.sample(3, 7).tolist())
    assert np.array_equal(p.sample(5, 7)[:3], p.sample(3, 7))
    rng = np.random.default_rng(7)
    assert np.array_equal(p.sample(3, rng), p.sample(3, 7))
    assert not np.array_equal(p.sample(3, rng), p.sample(3, 7))
    assert p.sample(0, 7).shape == (0,)
    assert p.sample(np.int64(2), 7).shape == (2,)  # type: ignore[arg-type]


@pytest.mark.parametrize("p", [lognormal(), measured(3.0, 5.0, 4.0)], ids=["surrogate", "measured"])
def test_an_interval_ends_at_its_quantiles(p: Prediction) -> None:
    """0.5 - 0.9 / 2 is no 0.05 in floating point; the ends are the quantiles all the same."""
    for level, low, high in ((0.9, 0.05, 0.95), (0.5, 0.25, 0.75), (0.8, 0.1, 0.9)):
        assert p.interval(level) == (p.quantile(low), p.quantile(high))
    assert p.quantile(0.5) == p.median
    widths = [b - a for a, b in map(p.interval, (0.01, 0.3, 0.6, 0.9))]
    assert widths == sorted(widths)


def test_levels_beyond_the_calibration_are_infinite_never_falsely_finite() -> None:
    p = lognormal(architectures=9)
    for q in (0.1, 0.5, 0.9):
        assert p.quantile(q) == pytest.approx(MEDIAN * math.exp(SIGMA * ndtri(q)), rel=1e-3)
    assert p.quantile(0.95) == math.inf
    assert p.quantile(0.05) == 0.0
    said = "No 90% interval of latency on h100: 9 calibration architectures support 80% at most."
    with pytest.warns(UserWarning, match="No 90%") as warned:
        assert p.interval(0.9) == (0.0, math.inf)
    assert [str(w.message) for w in warned] == [p.unbounded(0.9)] == [said]
    assert p.unbounded(0.8) is None
    assert p.interval(0.8) == (p.quantile(0.1), p.quantile(0.9))
    assert np.isfinite([p.mean, p.std, *p.sample(1000, 0)]).all()
    assert "no 90% interval" in repr(p)


def test_what_20_architectures_support_is_told_to_the_last_bit() -> None:
    """The 90% interval of 20 is known (0.05 > 1/21), and so is the widest that is named."""
    p = lognormal(architectures=20)
    assert p.unbounded(0.9) is None
    assert p.unbounded(19 / 21) is None
    for level in (0.905, 0.95, 0.99, 0.999):
        unbounded = p.unbounded(level)
        assert unbounded is not None
        assert unbounded.endswith(": 20 calibration architectures support 90.47% at most.")
    assert measured(3.0, 5.0).unbounded(0.9999) is None


@pytest.mark.parametrize("level", [0, 1, math.nan, 1.5])
def test_a_level_that_is_none_is_no_unbounded_one(level: float) -> None:
    with pytest.raises(InvalidValue, match=r"'level' parameter of interval"):
        lognormal().unbounded(level)


def test_a_fit_on_few_architectures_bounds_few_levels(tmp_path: Path) -> None:
    from hwbench.records import StoreWriter

    writer = StoreWriter.create(tmp_path / "few", name="few", source="a test", licence="CC0-1.0")
    writer.append(readings(unique(OWN, 60, 5), "my-gpu", "latency", 8.0, 5))
    store = Store.open(tmp_path / "few")
    (done,) = fit_all(store, tmp_path / "artifacts", tasks(store), settings=Settings())
    calibrated = done.card.values["training"]["observations"]["calibrate"]
    bench = Benchmark(OWN, artifacts=tmp_path / "artifacts")
    p = bench.query(OWN.smallest, "my-gpu", "latency")["my-gpu"]["latency"]
    assert p.evidence == "low"
    outermost = 1 / (calibrated + 1)
    assert 0 < p.quantile(outermost) < p.quantile(1 - outermost) < math.inf
    assert p.quantile(0.9 * outermost) == 0.0
    assert p.quantile(1 - 0.9 * outermost) == math.inf
    frame = bench.query_many(OWN.sample(70, 0), "my-gpu", "latency")
    if outermost > 0.05:
        assert np.isinf(frame["q95"]).all()
    assert np.isfinite(frame[["median", "mean", "std"]]).all(axis=None)


def test_measured_moments_are_the_repeats_own() -> None:
    p = measured(2.0, 4.0, 9.0)
    assert (p.median, p.mean) == (4.0, 5.0)
    assert p.std == pytest.approx(np.std([2, 4, 9], ddof=1))
    assert p.components == Components(p.std, None, None)
    assert p.source == "measured"
    alone = measured(2.0)
    assert (alone.median, alone.mean, alone.std) == (2.0, 2.0, 0.0)
    assert alone.interval(0.9) == (2.0, 2.0)
    assert alone.components.repeat is None


def test_a_closed_form_is_exact() -> None:
    p = Prediction(metric("params"), None, FromForm(124_439_808))
    assert p.median == p.mean == p.quantile(0.01) == p.interval(0.99)[1] == 124_439_808
    assert p.std == 0
    assert p.sample(2, 0).tolist() == [124_439_808.0] * 2
    assert set(p.components.values()) == {0.0}
    assert (p.source, p.artifact, p.workload, p.evidence) == ("analytic", None, None, None)
    assert repr(p) == "<params: 1.2444e+08 parameters, 90% in 1.2444e+08 to 1.2444e+08>"


def test_components_are_attributes_and_keys() -> None:
    found = Components(1.0, None, 2.0)
    assert dict(found) == {"repeat": 1.0, "drift": None, "model": 2.0}
    assert found["model"] == found.model
    assert len(found) == 3
    with pytest.raises(UnknownName, match=r"component 'modle'\. Did you mean 'model'"):
        found["modle"]


@pytest.mark.parametrize(
    "level", [0, 1, -0.1, 1.5, 2, math.nan, math.inf, None, "0.5", True, [0.5], 0.5 + 0j]
)
def test_a_level_outside_the_unit_interval_is_refused(level: object) -> None:
    p = lognormal()
    for ask, name in ((p.quantile, "'q'"), (p.interval, "'level'")):
        with pytest.raises(InvalidValue, match=r"must be a number in \(0, 1\)\. Got ") as caught:
            ask(level)  # type: ignore[arg-type]
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n", [-1, 2.0, "2", None, True, math.nan, 10**30])
def test_a_number_of_samples_is_an_int(n: object) -> None:
    with pytest.raises(InvalidValue, match="'n' parameter of sample must be an int from 0"):
        lognormal().sample(n, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 1.5, None, "0", True])
def test_a_seed_is_an_int_or_a_generator(seed: object) -> None:
    with pytest.raises(InvalidValue, match="'seed' parameter of sample"):
        lognormal().sample(1, seed)  # type: ignore[arg-type]
