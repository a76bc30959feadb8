"""The real path on this machine's CPU, on tiny subnetworks; other devices by what stands in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hwbench.architectures import SearchSpace
from hwbench.errors import InvalidValue, UnknownName
from hwbench.measure.energy import EnergyProtocol
from hwbench.measure.protocol import Protocol
from hwbench.measure.setup import Absent, Outcome, Reading, Setup, checked_device
from tests.measure.fakes import Clock, FakeGpu, FakeNvml, powercap

torch = pytest.importorskip("torch", reason="torch is not installed")
instruments = pytest.importorskip("hwbench.measure.instruments")
passes = pytest.importorskip("hwbench.measure.passes")

SPACE = SearchSpace("tiny", (16, 32), (1, 2), (1, 2), (2, 4), head_size=16, seq_len=16)
QUICK = Protocol(max_warmup=4, min_repeats=3, max_repeats=3, min_time_s=1e-6)


def setup(**more: Any) -> Setup:
    given: dict[str, Any] = {"batch_size": 2, "seq_len": 12, "protocol": QUICK, **more}
    return Setup(**given)


def measured(**more: Any) -> Outcome:
    made: Outcome = instruments.Instruments.open(setup(**more)).measure(SPACE.largest)
    return made


@pytest.mark.parametrize("block", ["hwgpt", "gpt2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "autocast-bfloat16"])
@pytest.mark.parametrize("phase", ["forward", "decode", "train"])
def test_every_block_type_and_phase_runs(block: str, dtype: str, phase: str) -> None:
    new = {"new_tokens": 3} if phase == "decode" else {}
    made = setup(block=block, dtype=dtype, phase=phase, **new)
    run = passes.make_pass(SPACE.largest, made)
    answers = [run(), run()]
    assert torch.isfinite(torch.as_tensor(answers[0])).all()
    torch.testing.assert_close(*answers)  # no pass changes what the next one does
    if phase == "forward":
        assert answers[0].shape[:2] == (2, 12)


def test_an_outcome_holds_repeats_warm_up_and_reasons() -> None:
    found = measured()
    latency = found.readings["latency_ms"]
    assert isinstance(latency, Reading)
    assert len(latency.values) == 3
    assert 1 <= len(latency.warmup) <= 4
    assert all(0 < v < 10_000 for v in latency.values)
    assert found.measured_s > 0
    energy = found.readings["energy_j"]
    assert isinstance(energy, Reading) or energy.reason


def test_no_meter_is_absent_with_its_reason_and_never_0(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("hwbench.measure.instruments.cpu_source", lambda: opened(tmp_path / "no"))
    energy = measured().readings["energy_j"]
    assert energy == Absent(
        status="skipped",
        reason=f"rapl: there is no {tmp_path / 'no'}; the kernel or the machine has none",
        method="no energy meter",
    )


def opened(root: Path) -> Any:
    from hwbench.measure.rapl import Rapl

    return Rapl.open(root)


def test_a_cpu_with_rapl_reads_gross_energy_and_what_is_above_idle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 0, 10**12)})
    source = opened(root)
    reads: list[int] = []

    def read_j() -> float:  # a joule a reading: busier in the window than at rest
        reads.append(1)
        return float(len(reads))

    monkeypatch.setattr(source, "read_j", read_j)
    monkeypatch.setattr("hwbench.measure.instruments.cpu_source", lambda: source)
    short = EnergyProtocol(min_window_s=0.05, min_steps=5, idle_s=0.3)
    found = measured(energy=short).readings
    gross, above = found["energy_j"], found["energy_above_idle_j"]
    assert isinstance(gross, Reading)
    assert gross.counter == "rapl"
    assert gross.passes is not None
    assert gross.passes >= 1
    assert gross.window_s is not None
    assert gross.window_s >= 0.05
    if isinstance(above, Reading):
        assert above.values[0] < gross.values[0]


def test_a_meter_that_stands_still_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 5, 10**12)})
    monkeypatch.setattr("hwbench.measure.instruments.cpu_source", lambda: opened(root))
    energy = measured(energy=EnergyProtocol(idle_s=0.05)).readings["energy_j"]
    assert isinstance(energy, Absent)
    assert "moved 0 times" in energy.reason


def test_peak_memory_of_a_process_of_its_own() -> None:
    pytest.importorskip("resource")
    found = measured(peak_memory=True).readings.get("memory_peak_resident_mb")
    assert isinstance(found, Reading)


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_out_of_memory_is_an_outcome(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    def too_large(*_: object) -> None:
        if kind == "cuda":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB. More")
        torch.empty(1 << 60)

    monkeypatch.setattr("hwbench.measure.instruments.make_pass", too_large)
    found = measured()
    absent = found.readings["latency_ms"]
    assert isinstance(absent, Absent)
    assert absent.status == "failed"
    asked = "20 GiB" if kind == "cuda" else f"{4 << 60} bytes"
    assert absent.reason == f"out of memory: tried to allocate {asked}"
    assert found.fatal


def test_the_card_is_ready_for_json_and_says_what_was_used() -> None:
    made = instruments.Instruments.open(setup(threads=1))
    card = json.loads(json.dumps(made.card()))
    assert card["libraries"]["torch"] == torch.__version__
    assert card["torch"]["threads"] == 1
    assert card["cpu"]["cores"] >= 1
    assert card["energy"]["method"] or card["energy"]["reason"]


def test_an_nvidia_meter_is_found_through_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    library = FakeNvml(FakeGpu("GPU-1", clock, throttle=0x8))
    made = instruments.Instruments(setup(device="cuda:0"))
    monkeypatch.setattr("hwbench.measure.instruments.nvml.load", lambda: library)
    monkeypatch.setattr("hwbench.measure.instruments.cuda_uuid", lambda _: "1")
    assert made._source().name == "nvml"
    assert made._state().throttle == "hw_slowdown"
    assert made._state().clock_sm_mhz == 1410


def test_cuda_is_never_stood_in_for() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is CUDA here")
    with pytest.raises(InvalidValue, match="needs CUDA"):
        checked_device("cuda:0")
    with pytest.raises(InvalidValue, match="'cpu' or 'cuda:<index>'"):
        checked_device("gpu")
    with pytest.raises(InvalidValue, match="'cpu' or 'cuda:<index>'"):
        checked_device("meta")


def test_the_defaults_are_the_recorded_workload_of_the_space() -> None:
    from hwbench.architectures import space

    for name, batch in (("s", 8), ("m", 4), ("l", 1)):
        made = Setup.of_space(space(name), "cpu")
        assert (made.block, made.phase, made.dtype) == ("hwgpt", "forward", "float32")
        assert (made.batch_size, made.seq_len) == (batch, 1024)
    assert Setup.of_space(space("s"), "cpu", phase="decode", seq_len=100).context == 132


def test_what_cannot_be_run_is_refused() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'bfloat16'"):
        setup(dtype="bf16loat")
    with pytest.raises(InvalidValue, match="batch_size"):
        setup(batch_size=0)
    with pytest.raises(InvalidValue, match="at most 1024 in block gpt2"):
        setup(block="gpt2", phase="decode", seq_len=1020, new_tokens=5)
    with pytest.raises(InvalidValue, match="threads"):
        setup(threads=0)


@pytest.mark.parametrize("phase, mode", [("forward", "inference mode"), ("train", "autograd on")])
def test_the_method_says_whether_gradients_were_on(phase: str, mode: str) -> None:
    latency = measured(phase=phase).readings["latency_ms"]
    assert isinstance(latency, Reading)
    assert latency.method == f"perf_counter_ns around a synchronised pass, {mode}"
