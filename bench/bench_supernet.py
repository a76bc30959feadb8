"""How fast a slice is beside the model that is extracted from it: tokens per second as a ratio."""

import statistics
import time
from collections.abc import Callable

import pytest
import torch

from hwbench import space
from hwbench.model import Model, ModelConfig
from hwbench.supernet import Supernet

WARM_UP, ROUNDS = 2, 9


@pytest.mark.parametrize("length", [128, 1024])
@pytest.mark.parametrize("seed", [0, 1, 2])
def bench_slice_beside_extracted(benchmark: Callable[..., object], seed: int, length: int) -> None:
    """GPT-2 small's shape with random weights; the two take turns, so that noise hits both."""
    owner = space("s")
    supernet = Supernet(Model.built(ModelConfig.of(owner.largest, "gpt2"), seed=0), owner)
    arch = owner.sample(3, seed=0)[seed]
    tokens = torch.randint(50257, (4096 // length, length))
    extracted = supernet.extract(arch)
    runs: dict[str, Callable[[], object]] = {
        "slice": lambda: supernet.logits(arch, tokens),
        "extracted": lambda: extracted(tokens),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    with torch.inference_mode():
        for _ in range(WARM_UP + ROUNDS):
            for name, run in runs.items():
                began = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - began)
        benchmark.pedantic(runs["slice"], rounds=1)  # type: ignore[attr-defined]
    typical = {name: statistics.median(all_[WARM_UP:]) for name, all_ in seconds.items()}
    ratio = typical["extracted"] / typical["slice"]
    benchmark.extra_info["ratio"] = ratio  # type: ignore[attr-defined]
    print(f"{arch}, {length} tokens: {ratio:.3f} of the extracted model's speed")  # noqa: T201
