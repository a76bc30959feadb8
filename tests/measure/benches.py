"""What a worker may open instead of instruments: functions, since another process imports them."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from hwbench.architectures import Architecture
from hwbench.errors import InvalidValue
from hwbench.measure.setup import Outcome, Reading, Setup, failed


class FakeBench:
    """Measures by formula, and fails as an architecture's width says."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def card(self) -> dict[str, Any]:
        return {"pid": os.getpid()}

    def measure(self, arch: Architecture) -> Outcome:
        heads, ratios = sum(arch.n_head), sum(arch.mlp_ratio)
        cost = 1.0 + arch.embed_dim / 100 * (heads + 2 * ratios) * (1 + 0.1 * arch.bias)
        values = tuple(cost * (1 + 1e-4 * i) for i in range(5))
        reading = Reading(values=values, method="formula", warmup=(cost * 2,))
        return Outcome(readings={"latency_ms": reading}, measured_s=0.001)


class FragileBench(FakeBench):
    """Runs out of memory, crashes or breaks, by the number of layers."""

    def measure(self, arch: Architecture) -> Outcome:
        match arch.n_layer:
            case 2:
                return failed("out of memory: too large", "formula")
            case 3:
                os.kill(os.getpid(), signal.SIGKILL)
            case 4:
                os._exit(7)
            case 5:
                raise InvalidValue("The fifth layer is refused.")
            case 6:
                raise RuntimeError("CUDA error: misaligned address\nFor debugging consider more.")
        return super().measure(arch)


class SlowBench(FakeBench):
    """Takes its time."""

    def measure(self, arch: Architecture) -> Outcome:
        time.sleep(0.15)
        return super().measure(arch)


def fake(setup: Setup) -> FakeBench:
    return FakeBench(setup)


def fragile(setup: Setup) -> FakeBench:
    return FragileBench(setup)


def slow(setup: Setup) -> FakeBench:
    return SlowBench(setup)


def refusing(setup: Setup) -> FakeBench:
    raise InvalidValue("There must be a device.")


def undriven(setup: Setup) -> FakeBench:
    raise RuntimeError("The driver is too old.\nUpdate it.")


def dying(setup: Setup) -> FakeBench:
    os._exit(3)
