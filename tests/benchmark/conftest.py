"""A synthetic store and the artefacts fitted on it, beside those that come with hwbench."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwbench import Benchmark, SearchSpace, space
from hwbench.architectures import ArchitectureTable
from hwbench.records import Readings, Repeats, Store, StoreWriter
from hwbench.surrogate.fit_all import fit_all, tasks
from hwbench.surrogate.settings import Settings
from hwbench.workload import Workload

OWN = SearchSpace("own", (64, 128), (2, 3), (1, 2), (2, 4), (True, False))
"""A space of one's own, of 320 architectures."""

WORKLOAD = Workload(batch_size=1, seq_len=1024, method="synthetic", warmup_repeats=2)
QUICK = Settings(fewest=100, correction_rounds=4, spread_rounds=3)


@pytest.fixture(scope="session")
def own_toml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of `OWN`."""
    path = tmp_path_factory.mktemp("spaces") / "own.toml"
    fields = {k: v for k, v in OWN.to_dict().items() if k != "name"}
    path.write_text("".join(f"{k} = {str(v).lower()}\n" for k, v in fields.items()))
    return path


def unique(owner: SearchSpace, n: int, seed: int) -> ArchitectureTable:
    """Different architectures of a space."""
    return ArchitectureTable.of(list(dict.fromkeys(owner.sample(20 * n, seed)))[:n])


def readings(
    table: ArchitectureTable, device: str | None, metric: str, scale: float, kept: int
) -> Readings:
    """Noisy readings that grow with an architecture's heads, ratios and width."""
    rng = np.random.default_rng(17)
    size = table.embed_dim * (1.0 + 0.1 * table.heads + 0.05 * table.ratios)
    noise = np.exp(0.02 * rng.standard_normal((len(table), kept)))
    values = scale * (size / size.max())[:, None] * noise
    if device is not None:  # two slow repeats before
        values = np.concatenate([1.5 * values[:, :1], 1.2 * values[:, :1], values], axis=1)
    n, repeats = values.shape
    return Readings(
        device=device,
        metric=metric,
        workload=WORKLOAD if device is not None else None,
        architectures=table,
        session=np.zeros(n, np.int64),
        position=np.arange(n),
        repeats=Repeats(values.ravel(), repeats * np.arange(n + 1)),
    )


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two spaces: an own device in each, and the h100 in s; not to be written."""
    path = tmp_path_factory.mktemp("stores") / "synthetic"
    writer = StoreWriter.create(path, name="synthetic", source="a test", licence="CC0-1.0")
    own, s = unique(OWN, 250, 1), unique(space("s"), 200, 2)
    writer.append(
        readings(own, "my-gpu", "latency", 8.0, 5),
        readings(own, "my-gpu", "energy", 2.0, 5),
        readings(own, None, "perplexity", 60.0, 1),
        readings(s, "my-gpu", "latency", 30.0, 5),
        readings(s, "h100", "latency", 90.0, 5),
    )
    return path


@pytest.fixture(scope="session")
def artifacts(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that can be fitted on the store, with boosters; not to be written."""
    out = tmp_path_factory.mktemp("artifacts")
    opened = Store.open(store)
    done = list(fit_all(opened, out, tasks(opened), settings=QUICK))
    assert len(done) == 5
    return out


@pytest.fixture(scope="session")
def bench() -> Benchmark:
    """Space s on the artefacts that come with hwbench."""
    return Benchmark("s")


@pytest.fixture(scope="session")
def own(own_toml: Path, artifacts: Path) -> Benchmark:
    """The space and the artefacts of one's own."""
    return Benchmark(own_toml, artifacts=artifacts)
