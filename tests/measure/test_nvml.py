"""NVML: the right device under every form of CUDA_VISIBLE_DEVICES, and what it says of itself."""

from __future__ import annotations

import importlib

import pytest

from hwbench.errors import Unsupported
from hwbench.measure.nvml import NvmlDevice, initialised, load
from tests.measure.fakes import Clock, FakeGpu, FakeNvml

A = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
B = "GPU-0aa1b2c3-1111-2222-3333-444455556666"
C = "GPU-8932ffff-0000-0000-0000-000000000000"
MIG = "MIG-5c6a2b5e-9a1d-5e4f-8e62-0a1b2c3d4e5f"


def nvml(*, mig: bool = False) -> FakeNvml:
    clock = Clock()
    parts = (FakeGpu(MIG, clock),) if mig else ()
    return FakeNvml(FakeGpu(A, clock, parts=parts), FakeGpu(B, clock), FakeGpu(C, clock))


@pytest.mark.parametrize(
    "index, cuda, visible, order, uuid",
    [
        (0, A[4:], None, None, A),
        (2, C[4:], None, None, C),
        (0, B[4:], "1", None, B),
        (1, A[4:], "1,0", None, A),
        (0, B[4:], "2,0", None, B),  # CUDA's order is its own: its UUID decides
        (0, None, "1", "PCI_BUS_ID", B),
        (1, None, "2,0", "PCI_BUS_ID", A),
        (2, None, None, "PCI_BUS_ID", C),
        (0, None, B, None, B),
        (1, None, f"{A},{B}", None, B),
        (0, None, "GPU-0aa1", None, B),
        (0, B[4:], "", None, B),
    ],
)
def test_the_right_card(
    index: int, cuda: str | None, visible: str | None, order: str | None, uuid: str
) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": order}
    given = {key: value for key, value in environ.items() if value is not None}
    found = NvmlDevice.find(nvml(), index, cuda, given)
    assert (found.uuid, found.mig) == (uuid, False)


@pytest.mark.parametrize("entry", [MIG, MIG.lower().replace("mig", "MIG"), f"MIG-{A}/1/0"])
def test_a_part_of_a_card(entry: str) -> None:
    # CUDA may give the whole card's UUID for its part, so the form in the environment decides.
    found = NvmlDevice.find(nvml(mig=True), 0, A[4:], {"CUDA_VISIBLE_DEVICES": entry})
    assert (found.uuid, found.mig) == (MIG, True)
    with pytest.raises(Unsupported, match="whole card"):
        found.energy_j()
    with pytest.raises(Unsupported, match="whole card"):
        found.power_w()


@pytest.mark.parametrize(
    "cuda, visible, said",
    [
        (None, "0", "CUDA_DEVICE_ORDER"),
        (None, None, "CUDA_DEVICE_ORDER"),
        (None, "GPU-8932f", "2 devices"),
        (None, "GPU-7777", "no device"),
        ("77777777-0", None, "no device"),
        (None, f"MIG-{A}/9/0", "Not Found"),
    ],
)
def test_what_cannot_be_told_is_said(cuda: str | None, visible: str | None, said: str) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    with pytest.raises(Unsupported, match=said):
        NvmlDevice.find(FakeNvml(*nvml().gpus), 0, cuda, environ)


def test_a_single_card_needs_no_order() -> None:
    library = FakeNvml(FakeGpu("GPU-old-1", Clock()))
    assert NvmlDevice.find(library, 0, None, {}).uuid == "GPU-old-1"
    with pytest.raises(Unsupported, match="only 1"):
        NvmlDevice.find(library, 1, None, {})


def test_no_driver_is_a_reason() -> None:
    with pytest.raises(Unsupported, match="nvml: Driver Not Loaded"):
        initialised(FakeNvml(driver=False))


def test_the_real_library_imports_without_a_driver() -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    assert importlib.metadata.version("nvidia-ml-py")
    try:
        load()
    except Unsupported as error:
        assert str(error).startswith("nvml: ")  # noqa: PT017 - a machine with a driver has none


def test_what_a_device_says_of_itself() -> None:
    clock = Clock()
    library = FakeNvml(FakeGpu(A, clock, throttle=0x4 | 0x40 | 0x1))
    device = NvmlDevice.find(library, 0, None, {})
    state = device.state()
    assert (state.clock_sm_mhz, state.clock_memory_mhz, state.temperature_c) == (1410, 1215, 61)
    assert state.throttle == "sw_power_cap+hw_thermal_slowdown"  # idle (0x1) slows nothing down
    assert device.card() == {
        "name": "Fake GPU",
        "uuid": A,
        "driver": "999.1",
        "power_limit_w": 350.0,
    }
    library.gpus[0].throttle = 0
    assert device.state().throttle == ""


def test_what_a_device_does_not_say_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(FakeNvml, "nvmlDeviceGetClockInfo")  # an older library lacks a function
    monkeypatch.delattr(FakeNvml, "nvmlDeviceGetCurrentClocksThrottleReasons")
    found = NvmlDevice.find(FakeNvml(FakeGpu(A, Clock())), 0, None, {}).state()
    assert (found.clock_sm_mhz, found.throttle, found.temperature_c) == (None, None, 61)


def test_power_is_of_this_moment_where_the_device_says_so() -> None:
    clock = Clock()
    clock.pass_time(10.0)

    def stepped(at: float) -> float:
        return 300.0 if at >= 9.9 else 100.0

    for instant, power_w in ((True, 300.0), (False, 122.0)):
        gpu = FakeGpu(A, clock, power_w=stepped, instant=instant)
        device = NvmlDevice.find(FakeNvml(gpu), 0, None, {})
        assert device.power_w() == pytest.approx(power_w, abs=3)


def test_an_older_library_has_only_the_plain_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(FakeNvml, "NVML_FI_DEV_POWER_INSTANT")
    gpu = FakeGpu(A, Clock(), instant=True)
    assert NvmlDevice.find(FakeNvml(gpu), 0, None, {}).power_w() == pytest.approx(200.0)
