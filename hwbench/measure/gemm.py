"""Measure matrix products on a device, as a transformer in PyTorch runs them."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hwbench.cost.gemm_record import GemmRecord, Measured
from hwbench.cost.transformer import Gemm
from hwbench.devices import Hardware, catalogue
from hwbench.errors import InvalidValue, MissingDependency, invalid

REPEATS = 20
"""Times that are kept of each product."""

WARMUP = 5
"""Runs before the first that counts."""

_WINDOW_US = 2000.0  # a CUDA event is exact to half a microsecond, so a window holds many kernels
_MOST_RUNS = 200
_TOO_LARGE = ("memory", "Storage size calculation overflowed")  # what torch says of too much
_FUSED_FORWARD, _FUSED_BACKWARD = 2, 5  # products in a fused kernel of each direction


def new_record(device: str, dtype: str) -> GemmRecord:
    """A record without products of a device, after checking that the device is there.

    Args:
        device: "cpu", "cuda" or "cuda:N".
        dtype: float16, bfloat16 or float32.

    Raises:
        InvalidValue: The device is none of these, or is not there.
        MissingDependency: There is no torch.
    """
    torch = _torch()
    target = _device(torch, device)
    versions = {"torch": str(torch.__version__)}
    if target.type == "cuda":
        versions["cuda"] = str(torch.version.cuda)
        name = torch.cuda.get_device_name(target)
        method = "CUDA events around windows of runs, one stream, operands kept"
    else:
        name, method = "cpu", f"perf_counter_ns around one run, {torch.get_num_threads()} threads"
    return GemmRecord(device=name, dtype=dtype, method=method, warmup=WARMUP, versions=versions)


def measure(
    gemms: Sequence[Gemm], device: str, dtype: str, repeats: int = REPEATS
) -> Iterator[Measured]:
    """Measure products one after the other.

    Args:
        gemms: The products, each once.
        device: "cpu", "cuda" or "cuda:N".
        dtype: float16, bfloat16 or float32.
        repeats: Times to keep of each, an int >= 1.

    Yields:
        Each product with its raw times.

    Raises:
        InvalidValue: The device is not there, `repeats` is no int >= 1, or a product does not fit
            in memory.
        MissingDependency: There is no torch.
    """
    if type(repeats) is not int or repeats < 1:
        raise invalid("repeats", "measure", "an int >= 1", repeats)
    torch = _torch()
    target = _device(torch, device)
    kind = getattr(torch, dtype)
    for gemm in gemms:
        try:
            run, share = _runner(torch, gemm, target, kind)
            times = _times_us(torch, run, target, repeats)
        except RuntimeError as error:
            if not any(word in str(error) for word in _TOO_LARGE):
                raise
            sizes = f"{gemm.m} x {gemm.n} x {gemm.k}, batch {gemm.batch}"
            raise InvalidValue(
                f"The product {gemm.name} ({sizes}) does not fit in memory."
            ) from None
        yield Measured(gemm, tuple(t * share for t in times))


def figures_of(name: str) -> Hardware | None:
    """The catalogue's figures of a device that names itself so, or None.

    >>> figures_of("NVIDIA H200").name, figures_of("cpu")
    ('h200', None)
    """
    for entry in catalogue().values():
        word = entry.label.removeprefix("NVIDIA ")
        if entry.hardware is not None and re.search(rf"\b{re.escape(word)}\b", name):
            return entry.hardware
    return None


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingDependency(
            "Measuring products needs torch: install 'hwbench[torch]'."
        ) from None
    return torch


def _device(torch: Any, name: str) -> Any:
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", str(name)):
        raise invalid("device", "gemm", "cpu, cuda or cuda:N", name)
    if name == "cpu":
        return torch.device("cpu")
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = int(name.partition(":")[2] or 0)
    if index >= there:
        raise invalid("device", "gemm", f"cpu or one of {there} CUDA devices", name)
    return torch.device("cuda", index)


def _runner(torch: Any, gemm: Gemm, device: Any, dtype: Any) -> tuple[Callable[[], Any], float]:
    """A call that runs the product once, and the product's share of the call's time."""
    if gemm.fused:
        return _fused(torch, gemm, device, dtype)
    m, n, k = gemm.m, gemm.n, gemm.k

    def matrix(*shape: int) -> Any:
        return torch.randn(*shape, device=device, dtype=dtype)

    if gemm.batch > 1:
        # A batched product's second operand is transposed where its sum is the shorter dimension,
        # as in the scores.
        a = matrix(gemm.batch, m, k)
        b = matrix(gemm.batch, n, k).transpose(1, 2) if k < n else matrix(gemm.batch, k, n)
        out = torch.empty(gemm.batch, m, n, device=device, dtype=dtype)
        return lambda: torch.bmm(a, b, out=out), 1.0
    if gemm.role == "weight gradient":
        a, b = matrix(k, m).t(), matrix(k, n)
    elif gemm.role == "input gradient":
        a, b = matrix(m, k), matrix(k, n)
    else:
        a, b = matrix(m, k), matrix(n, k).t()
    out = torch.empty(m, n, device=device, dtype=dtype)
    return lambda: torch.mm(a, b, out=out), 1.0


def _fused(torch: Any, gemm: Gemm, device: Any, dtype: Any) -> tuple[Callable[[], Any], float]:
    """Causal attention by torch's own kernel, forward or backward."""
    forward = gemm.role == "forward"
    head, keys = min(gemm.n, gemm.k), max(gemm.n, gemm.k)
    queries, keys_and_values = (
        [
            torch.randn(1, gemm.batch, length, head, device=device, dtype=dtype)
            for _ in range(number)
        ]
        for length, number in ((gemm.m, 1), (keys, 2))
    )
    inputs = [*queries, *keys_and_values]
    attention = torch.nn.functional.scaled_dot_product_attention

    def once() -> Any:
        return attention(*inputs, is_causal=gemm.m == keys)

    if forward:
        return once, 1 / _FUSED_FORWARD
    for tensor in inputs:
        tensor.requires_grad_()
    result = once()
    gradient = torch.ones_like(result)

    def back() -> Any:
        return torch.autograd.grad(result, inputs, gradient, retain_graph=True)

    return back, 1 / _FUSED_BACKWARD


def _times_us(torch: Any, run: Callable[[], Any], device: Any, repeats: int) -> list[float]:
    timer = _cuda_us if device.type == "cuda" else _cpu_us
    for _ in range(WARMUP):
        run()
    first = timer(torch, run, 1, device)
    runs = 1
    if device.type == "cuda":
        runs = min(_MOST_RUNS, max(1, math.ceil(_WINDOW_US / first)))
        timer(torch, run, runs, device)
    return [timer(torch, run, runs, device) for _ in range(repeats)]


def _cuda_us(torch: Any, run: Callable[[], Any], runs: int, device: Any) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.device(device):
        start.record()
        for _ in range(runs):
            run()
        end.record()
        end.synchronize()
    return float(start.elapsed_time(end)) * 1e3 / runs


def _cpu_us(torch: Any, run: Callable[[], Any], runs: int, device: Any) -> float:
    start = time.perf_counter_ns()
    for _ in range(runs):
        run()
    return (time.perf_counter_ns() - start) / 1e3 / runs
