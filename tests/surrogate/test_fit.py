"""A fit finds what is there, tells its parts apart, and sees nothing of what it is scored on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hwbench import space
from hwbench.encode import Features
from hwbench.errors import InvalidStore
from hwbench.records import Observations, Readings, Repeats, Store, StoreWriter
from hwbench.surrogate import Surrogate
from hwbench.surrogate.artifact import save
from hwbench.surrogate.base import Base, fit_layer_cost
from hwbench.surrogate.drift import NO_DRIFT
from hwbench.surrogate.fit import (
    Fit,
    Measurements,
    Settings,
    _left_out,
    drift_of,
    fit_surrogate,
)
from hwbench.surrogate.transform import transform
from tests.surrogate.conftest import BOOSTED
from tests.surrogate.synthetic import (
    WORKLOAD,
    Machine,
    labels_of,
    layer_costs,
    sinusoid,
    space_s,
)

PLAIN = Settings(fewest=10**6)
"""No boosters."""


def written(surrogate: Surrogate, root: Path) -> dict[str, bytes]:
    """The bytes of a surrogate's files."""
    about = {
        "device": "h100",
        "metric": "latency",
        "workload": WORKLOAD.to_dict(),
        "evidence": "full",
    }
    save(root, surrogate, about)
    return {path.name: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def changed(measured: Measurements, rows: NDArray[np.bool_], seed: int = 0) -> Measurements:
    """Measurements with some rows' values replaced by anything at all."""
    values = measured.values.copy()
    values[rows] = np.random.default_rng(seed).lognormal(5, 3, values[rows].shape)
    return replace(measured, values=values)


# What a fit may see


@pytest.mark.parametrize("metric", ["latency", "perplexity"])
def test_test_architectures_are_seen_by_nothing(
    measured: Measurements, labels: NDArray[np.str_], metric: str, tmp_path: Path
) -> None:
    wild = changed(measured, labels == "test")
    unreadable = replace(measured, values=measured.values.copy())
    unreadable.values[labels == "test"] = -1.0
    fits = [fit_surrogate(m, labels, metric, BOOSTED) for m in (measured, wild, unreadable)]
    files = [written(f.surrogate, tmp_path / str(i)) for i, f in enumerate(fits)]
    assert files[0] == files[1] == files[2]
    assert len(files[0]) == 3
    assert fits[0].drift == fits[1].drift == fits[2].drift


def test_calibration_architectures_calibrate_and_do_nothing_else(
    fit: Fit, measured: Measurements, labels: NDArray[np.str_]
) -> None:
    wild = fit_surrogate(changed(measured, labels == "calibrate"), labels, "latency", BOOSTED)
    before, after = fit.surrogate, wild.surrogate
    assert before.base.to_dict() == after.base.to_dict()
    assert fit.drift == wild.drift
    for one, other in ((before.correction, after.correction), (before.spread, after.spread)):
        one = getattr(one, "booster", one)
        other = getattr(other, "booster", other)
        assert one is not None
        assert other is not None
        assert one.model.save_raw("ubj") == other.model.save_raw("ubj")
    for name in ("scale", "knots", "tails"):
        assert (getattr(before.spread, name) == getattr(after.spread, name)).all()
    assert before.calibration.to_dict() != after.calibration.to_dict()


def test_the_rest_of_a_store_does_not_matter(
    fit: Fit, measured: Measurements, labels: NDArray[np.str_], tmp_path: Path
) -> None:
    """Without the rows to be scored on, the same bytes."""
    seen = labels != "test"
    without = fit_surrogate(measured.take(seen), labels[seen], "latency", BOOSTED)
    assert written(without.surrogate, tmp_path / "a") == written(fit.surrogate, tmp_path / "b")


def test_the_seed_decides(measured: Measurements, labels: NDArray[np.str_], tmp_path: Path) -> None:
    fits = [fit_surrogate(measured, labels, "latency", replace(BOOSTED, seed=s)) for s in (7, 7, 8)]
    files = [written(f.surrogate, tmp_path / str(i)) for i, f in enumerate(fits)]
    assert files[0] == files[1] != files[2]


def test_inputs_are_not_changed(measured: Measurements, labels: NDArray[np.str_]) -> None:
    frozen = Measurements(
        *(getattr(measured, k) for k in ("table", "values")),
        *(getattr(measured, k).copy() for k in ("session", "position")),
    )
    for column in (frozen.values, frozen.session, frozen.position, labels):
        column.setflags(write=False)
    fit_surrogate(frozen, labels, "latency", PLAIN)


# What a fit finds


def relative_error(fitted: Fit, fresh: Measurements) -> float:
    """Of the median, on average."""
    median = fitted.surrogate.quantiles(Features(fresh.table), np.array([0.5]))[:, 0]
    return float(np.abs(median / fresh.medians - 1).mean())


def test_drift_does_not_spoil_the_costs() -> None:
    """A drift of 10% leaves 0.3% in the costs, up to a factor that nothing can tell from drift."""
    measured, labels = Machine(drift=sinusoid(0.1)).measure(space_s(1500), 1), labels_of(1500)
    features = Features(space_s(300, seed=9))
    truth = np.log(layer_costs(space("s"), 0).predict(features))

    def error(costs: Base) -> float:
        return float(np.std(costs.location(features) - truth))

    train = measured.take(labels == "train")
    assert error(fit_layer_cost(train.table, train.medians)) > 0.01
    found = fit_surrogate(measured, labels, "latency", PLAIN)
    assert found.drift.window > 0
    assert error(found.surrogate.base) < 0.003


def test_the_correction_finds_what_layers_do_not_cost() -> None:
    """Eleven layers without biases are 10% faster than their sum."""

    def fast(measured: Measurements) -> Measurements:
        bonus = np.where((measured.table.n_layer == 11) & ~measured.table.bias, -0.1, 0.0)
        return replace(measured, values=measured.values * np.exp(bonus)[:, None])

    measured, labels = fast(Machine().measure(space_s(3000), 1)), labels_of(3000)
    fresh = fast(Machine(repeat=0.0).measure(space_s(300, seed=9), 0))
    plain, corrected = (
        relative_error(fit_surrogate(measured, labels, "latency", Settings(fewest=fewest)), fresh)
        for fewest in (10**6, 100)
    )
    assert corrected < 0.25 * plain


def test_the_spread_depends_on_the_architecture() -> None:
    """Twelve layers have five times the noise; one width for all would hold 99% and 60%."""
    table, rng = space_s(3000), np.random.default_rng(2)
    noise = np.where(table.n_layer == 12, 0.05, 0.01)[:, None] * rng.standard_normal((3000, 5))
    exact = Machine(repeat=0.0).measure(table, 1)
    measured = replace(exact, values=exact.values * np.exp(noise))
    labels = labels_of(3000)
    found = fit_surrogate(measured, labels, "latency", Settings(fewest=100))
    test = measured.take(labels == "test")
    low, high = found.surrogate.quantiles(Features(test.table), np.array([0.05, 0.95])).T
    widths = np.log(high / low)
    deep = test.table.n_layer == 12
    # 90% of a normal distribution lies within 1.645 standard deviations on each side.
    assert np.median(widths[deep]) == pytest.approx(2 * 1.645 * 0.05, rel=0.2)
    assert np.median(widths[~deep]) == pytest.approx(2 * 1.645 * 0.01, rel=0.3)
    inside = (test.values >= low[:, None]) & (test.values <= high[:, None])
    for rows in (deep, ~deep):
        assert 0.8 < inside[rows].mean() < 0.97


def test_of_many_repeats_the_seed_draws_a_few_for_the_spread() -> None:
    """A fifth of the repeats gives the widths that all of them give, in a fifth of the time."""
    measured, labels = Machine(repeat=0.02, repeats=30).measure(space_s(600), 1), labels_of(600)
    features, levels = Features(space_s(50, seed=9)), np.array([0.05, 0.95])
    some, same, all_of_them = (
        fit_surrogate(measured, labels, "latency", replace(BOOSTED, repeats=repeats))
        for repeats in (6, 6, 30)
    )
    found = [f.surrogate.quantiles(features, levels) for f in (some, same, all_of_them)]
    assert (found[0] == found[1]).all()
    assert (found[0] != found[2]).any()
    widths = [np.log(high / low).mean() for low, high in (f.T for f in found)]
    assert widths[0] == pytest.approx(widths[2], rel=0.05)


@pytest.mark.parametrize("settings", [PLAIN, Settings(fewest=100)])
def test_intervals_hold_single_measurements(settings: Settings) -> None:
    shares = np.array([0.5, 0.8, 0.9, 0.95])
    inside = []
    for seed in range(3):
        machine = Machine(repeat=0.02, drift=sinusoid(0.03), model=0.01)
        measured, labels = machine.measure(space_s(3000), seed), labels_of(3000, seed)
        found = fit_surrogate(measured, labels, "latency", settings)
        test = measured.take(labels == "test")
        low = found.surrogate.quantiles(Features(test.table), 0.5 - shares / 2)
        high = found.surrogate.quantiles(Features(test.table), 0.5 + shares / 2)
        values = test.values[:, :, None]
        inside.append(((values >= low[:, None]) & (values <= high[:, None])).mean(axis=(0, 1)))
    assert np.mean(inside, axis=0) == pytest.approx(shares, abs=0.03)


# The parts of what it is unsure about


@pytest.mark.parametrize(
    "repeat, drift, model",
    [(0.02, 0.04, 0.01), (0.01, 0.02, 0.03), (0.03, 0.0, 0.02), (0.02, 0.03, 0.0)],
)
def test_components_are_those_of_the_machine(repeat: float, drift: float, model: float) -> None:
    machine = Machine(repeat, sinusoid(drift), model, repeats=6)
    found = fit_surrogate(machine.measure(space_s(6000), 1), labels_of(6000), "latency", PLAIN)
    parts = found.surrogate.components
    assert parts.repeat == pytest.approx([repeat] * 3, rel=0.1)
    assert parts.drift == pytest.approx([drift] * 3, rel=0.15, abs=0.006)
    assert parts.model == pytest.approx([model] * 3, rel=0.15, abs=0.006)
    total = np.asarray(parts.repeat) ** 2 + parts.drift**2 + parts.model**2
    assert total == pytest.approx([repeat**2 + drift**2 + model**2] * 3, rel=0.15)


def test_what_a_mean_of_repeats_wobbles_is_not_drift() -> None:
    """Repeat noise over the root of the number of repeats used to be counted as drift."""
    machine = Machine(repeat=0.05, repeats=3)
    found = fit_surrogate(machine.measure(space_s(6000), 1), labels_of(6000), "latency", PLAIN)
    parts = found.surrogate.components
    assert parts.repeat == pytest.approx([0.05] * 3, rel=0.1)
    assert (np.hypot(parts.drift, parts.model) < 0.25 * 0.05).all()


def test_components_sum_to_the_variance_of_single_observations() -> None:
    machine = Machine(0.02, sinusoid(0.03), 0.02)
    measured, labels = machine.measure(space_s(3000), 1), labels_of(3000)
    found = fit_surrogate(measured, labels, "latency", PLAIN)
    held = measured.take(labels == "calibrate")
    features, parts = Features(held.table), found.surrogate.components
    residuals = np.log(held.values) - found.surrogate.location(features)[:, None]
    for w in range(3):
        own = residuals[features.width == w]
        assert parts.repeat is not None
        total = parts.repeat[w] ** 2 + parts.drift[w] ** 2 + parts.model[w] ** 2
        # Cut tails and degrees of freedom make a difference of some percent.
        assert total == pytest.approx(own.var(), rel=0.06)


def test_single_values_have_no_repeat_noise() -> None:
    measured = Machine(repeats=1, drift=sinusoid(0.03)).measure(space_s(1500), 1)
    parts = fit_surrogate(measured, labels_of(1500), "latency", PLAIN).surrogate.components
    assert parts.repeat is None
    assert parts.drift == pytest.approx([0.03] * 3, rel=0.25)


def test_quality_does_not_drift(measured: Measurements, labels: NDArray[np.str_]) -> None:
    found = fit_surrogate(measured, labels, "perplexity", PLAIN)
    assert found.drift == NO_DRIFT == drift_of(found.surrogate, measured, labels, "perplexity")
    assert (found.surrogate.components.drift == 0).all()


def test_an_accuracy_stays_below_one() -> None:
    table = space_s(900)
    line = Machine(repeats=1).measure(table, 1)
    measured = replace(line, values=line.values / (1 + line.values))
    found = fit_surrogate(measured, labels_of(900), "accuracy", PLAIN)
    quantiles = found.surrogate.quantiles(Features(table), np.array([0.01, 0.5, 0.99]))
    assert ((quantiles > 0) & (quantiles < 1)).all()
    assert found.surrogate.transform.name == "logit"


def test_the_drift_is_read_off_the_artefact_as_the_fit_read_it(
    fit: Fit, measured: Measurements, labels: NDArray[np.str_]
) -> None:
    assert drift_of(fit.surrogate, measured, labels, "latency") == fit.drift


# Where an architecture trains and calibrates


def few(seed: int, test: int = 0) -> tuple[Measurements, NDArray[np.str_]]:
    """Twenty designed architectures, thirty drawn ones that do both, and some to be scored on."""
    labels = np.array(["train"] * 20 + ["both"] * 30 + ["test"] * test)
    machine = Machine(repeat=0.003, model=0.01)
    return machine.measure(space_s(50 + test, seed), seed), labels


def test_who_does_both_calibrates_with_a_base_that_has_not_seen_it() -> None:
    measured, labels = few(0)
    settings, everyone = Settings(), np.ones(50, bool)
    target, scale = np.log(measured.medians), transform("log")
    arguments = scale, False, settings
    found = _left_out(measured, everyone, labels == "both", target, np.zeros(50), *arguments)
    assert (found[:20] == 0).all()
    for row in (20, 33, 49):
        others = np.arange(50) != row
        without = fit_layer_cost(measured.table.take(others), measured.medians[others])
        own = Features(measured.table.take(np.array([row])))
        assert found[row] == without.location(own)[0]
    wild = target.copy()
    wild[20] += 3.0
    again = _left_out(measured, everyone, labels == "both", wild, np.zeros(50), *arguments)
    assert again[20] == found[20]


def test_all_observations_of_an_architecture_are_left_out_together() -> None:
    measured, labels = few(1)
    rows = np.concatenate([np.arange(50), [49]])
    double, arguments = measured.take(rows), (transform("log"), False, Settings())
    target = np.log(double.medians)
    target[49] += 3.0
    both = labels[rows] == "both"
    found = _left_out(double, np.ones(51, bool), both, target, np.zeros(51), *arguments)
    others = np.arange(51) < 49
    without = fit_layer_cost(double.table.take(others), np.exp(target[others]))
    assert found[49] == found[50] == without.location(Features(double.table))[50]


def test_few_architectures_that_do_both_give_honest_intervals() -> None:
    inside = []
    for seed in range(6):
        measured, labels = few(seed, test=200)
        found = fit_surrogate(measured, labels, "latency")
        assert found.surrogate.calibration.architectures == (30, 30, 30)
        test = measured.take(labels == "test")
        low, high = found.surrogate.quantiles(Features(test.table), np.array([0.05, 0.95])).T
        inside.append(np.mean((test.values >= low[:, None]) & (test.values <= high[:, None])))
    # One calibration of 30 wanders by 5 points, six by 2.2.
    assert np.mean(inside) == pytest.approx(0.9, abs=0.07)


# What cannot be fitted


@pytest.mark.parametrize("part", ["train", "calibrate"])
def test_too_few_observations_are_refused(measured: Measurements, part: str) -> None:
    labels = np.full(len(measured), "test", dtype="<U9")
    labels[:40] = "calibrate" if part == "train" else "train"
    labels[40] = part
    with pytest.raises(InvalidStore, match=rf"needs observations to {part}\. Got 1\."):
        fit_surrogate(measured, labels, "latency")


def test_values_outside_the_range_are_refused(measured: Measurements) -> None:
    labels = labels_of(len(measured))
    values = measured.values.copy()
    values[np.flatnonzero(labels == "train")[:2], 1] = np.nan
    with pytest.raises(InvalidStore, match=r"finite and positive\. Got nan in 2 observations"):
        fit_surrogate(replace(measured, values=values), labels, "latency")
    with pytest.raises(InvalidStore, match="accuracy must be between 0 and 1"):
        fit_surrogate(replace(measured, values=2 + measured.values), labels, "accuracy")


# What is measured


def observations(store: Path, lists: list[list[float]]) -> Observations:
    """Latencies of a few architectures, two leading repeats being warm-up."""
    writer = StoreWriter.create(store, name="ragged", source="a test", licence="CC0-1.0")
    n = len(lists)
    offsets = np.concatenate([[0], np.cumsum([len(values) for values in lists])])
    writer.append(
        Readings(
            device="h100",
            metric="latency",
            workload=WORKLOAD,
            architectures=space_s(n),
            session=np.zeros(n, np.int64),
            position=np.arange(n),
            repeats=Repeats(np.concatenate(lists), offsets),
        )
    )
    found = Store.open(store).observations("h100", "s", "latency")
    assert found is not None
    return found


def test_warm_up_is_left_out(tmp_path: Path) -> None:
    found = Measurements.of(observations(tmp_path / "s", [[9, 8, 1, 2, 6], [7, 7, 4, 5, 3]]))
    assert found.values.tolist() == [[1, 2, 6], [4, 5, 3]]
    assert found.medians.tolist() == [2, 4]


def test_repeats_of_different_numbers_are_laid_out_as_quantiles(tmp_path: Path) -> None:
    lists = [[9, 9, 1, 2, 3], [9, 9, 5], [9, 9], [9, 9, 4, 1, 3, 2, 5], [9, 9, 7, 8, 6]]
    found = Measurements.of(observations(tmp_path / "s", [[float(v) for v in x] for x in lists]))
    assert len(found) == 4  # the third has nothing but warm-up
    assert found.values.shape == (4, 3)
    assert found.position.tolist() == [0, 1, 3, 4]
    assert found.values[1].tolist() == [5, 5, 5]
    assert found.values[2] == pytest.approx(np.quantile([1, 2, 3, 4, 5], [1 / 6, 1 / 2, 5 / 6]))
    assert found.medians == pytest.approx([2, 5, 3, 7])


def test_nothing_but_warm_up_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidStore, match=r"latency_ms on h100 in s must have more than 2 rep"):
        Measurements.of(observations(tmp_path / "s", [[1.0, 2.0], [1.0]]))


def test_settings_are_ready_for_json() -> None:
    values = Settings(levels=(0.1, 0.9), seed=5).to_dict()
    assert values["levels"] == [0.1, 0.9]
    assert values["seed"] == 5


def test_costs_are_found_to_the_percent(fit: Fit) -> None:
    fresh = space_s(300, seed=9)
    truth = layer_costs(fresh.search_space, 0).predict(Features(fresh))
    found = fit.surrogate.quantiles(Features(fresh), np.array([0.5]))[:, 0]
    assert np.abs(found / truth - 1).mean() < 0.01
