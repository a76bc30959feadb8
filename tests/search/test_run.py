"""Runs: complete files, the same bytes again and after an interrupt, and folders kept apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hwbench.architectures import Architecture, SearchSpace
from hwbench.benchmark import Benchmark
from hwbench.errors import InvalidValue, MissingDependency
from hwbench.processes import held_alone
from hwbench.search import ALGORITHMS, Evaluator, Run, Setting, Task, read, run, trajectory
from hwbench.search.run import summary

FAST = [a.name for a in ALGORITHMS.values() if not a.model_based]
TINY = {
    "name": "tiny",
    "n_layer": [2],
    "embed_dim": [64],
    "n_head": [2],
    "mlp_ratio": [4],
    "head_size": 64,
    "batch_size": 1,
    "seq_len": 128,
}
SLOW = [a.name for a in ALGORITHMS.values() if a.model_based]


@pytest.mark.parametrize("name", FAST)
def test_a_run_has_its_evaluations_and_both_biases(
    name: str, evaluator: Evaluator, tmp_path: Path
) -> None:
    found = read(run(evaluator, Run(name, 0, 130), tmp_path))
    assert len(found.texts) == 130
    archs = [Architecture.parse(text) for text in found.texts]
    assert {a.bias for a in archs} == {True, False}
    assert np.isfinite(found.values).all()
    medians = evaluator.bench.predict(archs, None, "perplexity", (0.5,))[:, 0]
    assert found.values[:, 0] == pytest.approx(medians, rel=1e-6)
    assert summary(found)["front"] >= 1


def test_half_of_a_random_search_has_no_bias(evaluator: Evaluator) -> None:
    found = trajectory(evaluator, Run("random", 0, 2000))
    share = np.mean([text.endswith("False") for text in found.texts])
    assert share == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("name", FAST)
def test_fewer_evaluations_are_the_first_of_more(name: str, evaluator: Evaluator) -> None:
    few, many = (trajectory(evaluator, Run(name, 3, n)) for n in (37, 90))
    assert many.texts[:37] == few.texts


@pytest.mark.parametrize("name", FAST)
def test_an_interrupted_run_ends_in_the_same_bytes(
    name: str, evaluator: Evaluator, tmp_path: Path
) -> None:
    what = Run(name, 1, 123)
    whole = run(evaluator, what, tmp_path / "whole").read_bytes()
    for cut in (10, len(whole) // 3, len(whole) - 5):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / f".{what.file}.partial").write_bytes(whole[:cut])
        assert run(evaluator, what, folder).read_bytes() == whole


@pytest.mark.parametrize("name", SLOW)
def test_a_model_based_run_resumes_without_its_earlier_models(
    name: str, evaluator: Evaluator, tmp_path: Path
) -> None:
    what = Run(name, 1, 22)
    whole = run(evaluator, what, tmp_path / "whole").read_bytes()
    lines = whole.splitlines(keepends=True)
    for kept in (6, 22):
        folder = tmp_path / str(kept)
        folder.mkdir()
        (folder / f".{what.file}.partial").write_bytes(b"".join(lines[: kept + 1]) + b"[7")
        assert run(evaluator, what, folder).read_bytes() == whole


@pytest.mark.parametrize("name", ["nsga2", "bo-linear", "tpe"])
def test_another_process_writes_the_same_bytes(
    name: str, evaluator: Evaluator, tmp_path: Path
) -> None:
    np.random.seed(99)  # noqa: NPY002 - what other code did to the global state must not matter
    here = run(evaluator, Run(name, 5, 22), tmp_path / "here").read_bytes()
    command = [sys.executable, "-m", "hwbench.cli", "search", "--space", "s"]
    command += ["--objectives", "perplexity,latency@h100", "--algorithm", name]
    command += ["--evaluations", "22", "--seeds", "5", "--out", str(tmp_path / "there")]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    assert (tmp_path / "there" / f"{name}-seed-5.jsonl").read_bytes() == here


@pytest.mark.parametrize("noisy", [False, True])
def test_a_processor_without_avx512_writes_the_same_bytes(
    noisy: bool, bench: Benchmark, tmp_path: Path
) -> None:
    """The last bits of values differed, and with them every file."""
    dispatched = pytest.importorskip("numpy._core._multiarray_umath").__cpu_dispatch__
    task = Task.of(bench.space, ["perplexity", "energy@h100:0.9"], noisy=noisy)
    here = run(Evaluator(task, bench), Run("nsga2", 0, 300), tmp_path / "here").read_bytes()
    command = [sys.executable, "-m", "hwbench.cli", "search", "--space", "s"]
    command += ["--objectives", "perplexity,energy@h100:0.9", "--evaluations", "300"]
    command += ["--out", str(tmp_path / "there"), *(["--noisy"] if noisy else [])]
    wide = [name for name in dispatched if name.startswith(("AVX512", "X86_V4"))]
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(wide)}
    subprocess.run(command, check=True, env=environment)
    assert (tmp_path / "there/nsga2-seed-0.jsonl").read_bytes() == here


def test_two_processes_at_one_run_keep_apart(evaluator: Evaluator, tmp_path: Path) -> None:
    """The first to end took the file from under the other, which could still write into it."""
    what = Run("random", 0, 20)
    with (tmp_path / f".{what.file}.partial").open("a") as file:
        assert held_alone(file)
        with pytest.raises(InvalidValue, match=r"Another process writes .*: wait for it"):
            run(evaluator, what, tmp_path)
    assert not (tmp_path / what.file).exists()
    assert len(read(run(evaluator, what, tmp_path)).texts) == 20
    assert [p.name for p in tmp_path.iterdir()] == [what.file]


def test_a_complete_run_is_left_alone(evaluator: Evaluator, tmp_path: Path) -> None:
    path = run(evaluator, Run("random", 0, 20), tmp_path)
    before = path.stat().st_mtime_ns
    assert run(evaluator, Run("random", 0, 20), tmp_path) == path
    assert path.stat().st_mtime_ns == before


def test_another_runs_file_is_not_overwritten(
    evaluator: Evaluator, bench: Benchmark, tmp_path: Path
) -> None:
    run(evaluator, Run("random", 0, 20), tmp_path)
    with pytest.raises(InvalidValue, match="of evaluations 20, not 30"):
        run(evaluator, Run("random", 0, 30), tmp_path)
    other = Evaluator(Task.of(bench.space, ["perplexity", "params"]), bench)
    with pytest.raises(InvalidValue, match="must not hold another run's file"):
        run(other, Run("random", 0, 20), tmp_path)


def test_a_trajectory_of_other_artefacts_is_refused_with_both_ids(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    path = run(evaluator, Run("random", 0, 20), tmp_path)
    pin = evaluator.pins["perplexity"]
    path.write_text(path.read_text().replace(pin, "0" * 64))
    with pytest.raises(InvalidValue) as caught:
        run(evaluator, Run("random", 0, 20), tmp_path)
    assert pin in str(caught.value)
    assert "0" * 64 in str(caught.value)


class Climber:
    """An optimiser of one's own, of plain lists."""

    def __init__(self, setting: Setting) -> None:
        self.space: SearchSpace = setting.search_space
        self.rng = setting.rng()
        self.best: Architecture | None = None

    def ask(self) -> list[Architecture]:
        if self.best is None:
            return self.space.sample(1, self.rng)
        near = self.space.neighbours(self.best)
        return [near[int(self.rng.integers(len(near)))]]

    def tell(self, asked: object, costs: np.ndarray, violation: np.ndarray) -> None:
        self.best = asked.architectures()[int(np.argmin(costs.sum(axis=1)))]  # type: ignore[attr-defined]


def test_ones_own_optimiser_plugs_in(evaluator: Evaluator, tmp_path: Path) -> None:
    found = read(run(evaluator, Run("climber", 0, 15, Climber), tmp_path))
    assert found.header.algorithm == "climber"
    assert len(found.texts) == 15


def test_an_optimiser_that_asks_for_something_else_is_told(evaluator: Evaluator) -> None:
    class Wrong(Climber):
        def ask(self) -> list[Architecture]:
            return "gpt"  # type: ignore[return-value]

    with pytest.raises(InvalidValue, match="ask must give architectures"):
        trajectory(evaluator, Run("wrong", 0, 5, Wrong))


@pytest.mark.parametrize("biases", [[True], [True, False]])
@pytest.mark.parametrize("name", FAST)
def test_a_space_of_next_to_nothing_is_searched_all_the_same(name: str, biases: list[bool]) -> None:
    """NSGA-II and SMS-EMOA ended in a traceback once they had seen all of it."""
    space = SearchSpace.from_dict({**TINY, "bias": biases})
    evaluator = Evaluator(Task.of(space, ["params", "flops"]), Benchmark(space))
    found = trajectory(evaluator, Run(name, 0, 90))
    assert len(found.texts) == 90
    assert len(set(found.texts)) == space.size


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "a b", "x" * 61, 3, None])
def test_a_run_s_name_is_that_of_a_file(name: object, evaluator: Evaluator, tmp_path: Path) -> None:
    """A run named ../x was written beside its folder."""
    with pytest.raises(InvalidValue, match="'algorithm' parameter of Run must be a name"):
        run(evaluator, Run(name, 0, 5, Climber), tmp_path / "runs")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name, library, extra",
    [("nsga2", "pymoo", "search"), ("tpe", "optuna", "search"), ("ehvi", "botorch", "bayes")],
)
def test_a_library_that_is_missing_is_named_and_nothing_written(
    name: str, library: str, extra: str, evaluator: Evaluator, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A file with a header alone stayed behind, and TPE asked for what it does not need."""
    for module in [m for m in sys.modules if m.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, f"hwbench.search.{ALGORITHMS[name].module}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependency, match=rf"needs {library}: .*hwbench\[{extra}\]"):
        run(evaluator, Run(name, 0, 10), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed, evaluations", [(-1, 5), (0, 0), (True, 5)])
def test_a_run_needs_a_seed_and_evaluations(
    seed: int, evaluations: int, evaluator: Evaluator, tmp_path: Path
) -> None:
    with pytest.raises(InvalidValue, match="parameter of Run must be an int >="):
        run(evaluator, Run("random", seed, evaluations), tmp_path)


@pytest.mark.parametrize("name", [n for n in FAST if n not in ("random", "local")])
def test_optimisers_beat_random_search(name: str, evaluator: Evaluator) -> None:
    from hwbench.search.extremes import bounds
    from hwbench.search.indicators import Frame, of_trajectory

    frame = Frame(*bounds(evaluator))

    def volume(name: str) -> float:
        found = [trajectory(evaluator, Run(name, seed, 600)) for seed in range(3)]
        scores = [of_trajectory(t, frame, np.zeros((1, 2)), (600,)) for t in found]
        return float(np.mean([s.hypervolume[-1] for s in scores]))

    assert volume(name) > volume("random")


@pytest.mark.parametrize("name", ["nsga2", "mo-rea", "sms-emoa", "local"])
def test_constraints_are_kept_in_the_end(name: str, bench: Benchmark) -> None:
    bound = float(np.quantile(bench.predict(bench.space.sample(200, 0), "h100")[:, 1], 0.3))
    task = Task.of(bench.space, ["perplexity", "latency@h100"], [f"latency@h100:0.95<={bound:.4g}"])
    found = trajectory(Evaluator(task, bench), Run(name, 0, 400))
    assert (found.violation[-100:] <= 0).mean() > 0.3
    again = trajectory(Evaluator(task, bench), Run(name, 0, 400))
    assert again.texts == found.texts
