"""`Setup`: what a session measures, and the results of one architecture, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from hwbench.architectures import SearchSpace
from hwbench.cost import block_config
from hwbench.errors import InvalidValue, Unsupported, invalid, unknown
from hwbench.measure.energy import EnergyProtocol
from hwbench.measure.nvml import DeviceState
from hwbench.measure.protocol import Protocol
from hwbench.workload import Workload

DTYPES: Mapping[str, tuple[str, str, bool]] = MappingProxyType(
    {
        "float32": ("float32", "float32", False),
        "bfloat16": ("bfloat16", "bfloat16", False),
        "float16": ("float16", "float16", False),
        "autocast-bfloat16": ("float32", "bfloat16", True),
        "autocast-float16": ("float32", "float16", True),
    }
)
"""Types by name: of the weights, of the products, and whether autocasting makes the difference."""

NEW_TOKENS = 32
"""Tokens that a decoding pass generates unless told otherwise."""

_MOST_THREADS = 4096
_MOST_TOKENS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a session runs and how it measures.

    Attributes:
        device: The torch device, such as "cuda:0" or "cpu".
        block: "hwgpt" or "gpt2".
        phase: "forward" (logits of a prompt), "decode" (`new_tokens` steps after a prompt that is
            in the cache already) or "train" (forward, cross-entropy and backward; no step).
        batch_size: Sequences a pass.
        seq_len: Tokens a sequence; in the decode phase, of the prompt.
        new_tokens: Tokens generated in the decode phase; 0 elsewhere.
        dtype: A name from `DTYPES`.
        protocol: How often a pass is run.
        energy: How long an energy window is.
        peak_memory: On a CPU, measure the growth of the peak resident set too, which takes a
            process of its own for each architecture. On CUDA peaks are always measured.
        threads: Threads that torch uses on a CPU; as many as it chooses unless given.
        seed: Of weights and tokens.

    Raises:
        InvalidValue: A field has a value that is not allowed.
        UnknownName: No such type or block.
    """

    device: str = "cpu"
    block: str = "hwgpt"
    phase: str = "forward"
    batch_size: int
    seq_len: int
    new_tokens: int = 0
    dtype: str = "float32"
    protocol: Protocol = field(default_factory=Protocol)
    energy: EnergyProtocol = field(default_factory=EnergyProtocol)
    peak_memory: bool = False
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Check what `Workload` checks, and that the block's positions suffice."""
        threads: object = self.threads
        if threads is not None and (type(threads) is not int or not 1 <= threads <= _MOST_THREADS):
            raise invalid("threads", "Setup", f"an int from 1 to {_MOST_THREADS}", threads)
        if self.dtype not in DTYPES:
            raise unknown("dtype", self.dtype, DTYPES)
        self.workload("none")
        tokens = self.batch_size * self.context
        if tokens > _MOST_TOKENS:
            allowed = f"with sequences of {self.context} at most {_MOST_TOKENS} tokens a pass"
            raise invalid("batch_size", "Setup", allowed, tokens)
        positions = block_config(self.block).positions
        if positions and self.context > positions:
            allowed = f"with new_tokens at most {positions} in block {self.block}"
            raise invalid("seq_len", "Setup", allowed, self.context)

    @classmethod
    def of_space(
        cls,
        space: SearchSpace,
        device: str,
        *,
        dtype: str | None = None,
        batch_size: int | None = None,
        seq_len: int | None = None,
        phase: str = "forward",
        new_tokens: int | None = None,
        **more: Any,
    ) -> Setup:
        """The workload that was recorded in a space, as far as nothing else is asked for.

        Args:
            space: Gives batch size and sequence length.
            device: The torch device.
            dtype: A name from `DTYPES`; unless given float32 on a CPU, and on CUDA the type that
                was recorded there: autocast to bfloat16, before Ampere to float16.
            batch_size: The space's unless given.
            seq_len: The space's unless given.
            phase: "forward", "decode" or "train".
            new_tokens: 32 in the decode phase unless given.
            more: Further fields of `Setup`.

        Raises:
            InvalidValue: The device is not there, or a value is not allowed.
        """
        checked_device(device)
        if new_tokens is None:
            new_tokens = NEW_TOKENS if phase == "decode" else 0
        return cls(
            device=device,
            dtype=dtype or _recorded_dtype(device),
            batch_size=batch_size if batch_size is not None else space.batch_size,
            seq_len=seq_len if seq_len is not None else space.seq_len,
            phase=phase,
            new_tokens=new_tokens,
            **more,
        )

    @property
    def context(self) -> int:
        """The longest sequence of a pass."""
        return self.seq_len + self.new_tokens

    def workload(self, method: str) -> Workload:
        """The workload of a reading that was taken by some method."""
        weights, compute, autocast = DTYPES[self.dtype]
        return Workload(
            block=self.block,  # type: ignore[arg-type]
            phase=self.phase,  # type: ignore[arg-type]
            batch_size=self.batch_size,
            seq_len=self.seq_len,
            new_tokens=self.new_tokens,
            weights_dtype=weights,
            compute_dtype=compute,
            autocast=autocast,
            method=method,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One metric of one architecture.

    Attributes:
        values: All raw repeats in the metric's unit, in the order they were taken.
        method: How they were read, in words.
        warmup: The passes before, likewise.
        window_s: Length of an energy window.
        passes: Passes in an energy window.
        counter: What energy was read off.
    """

    values: tuple[float, ...]
    method: str
    warmup: tuple[float, ...] = ()
    window_s: float | None = None
    passes: int | None = None
    counter: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Why one metric of one architecture was not read.

    Attributes:
        status: "skipped" (not attempted) or "failed" (attempted in vain).
        reason: Why, in one line.
        method: How it would have been read.
    """

    status: Literal["skipped", "failed"]
    reason: str
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What measuring one architecture gave.

    Attributes:
        readings: Field name to what was read, or why it was not.
        before: What the device said of itself before.
        after: What it said afterwards.
        measured_s: Time spent in warm-up and measured repeats.
        fatal: Whether the process that measured must be replaced.
    """

    readings: Mapping[str, Reading | Absent]
    before: DeviceState = field(default_factory=DeviceState)
    after: DeviceState = field(default_factory=DeviceState)
    measured_s: float = 0.0
    fatal: bool = False


def failed(reason: str, method: str) -> Outcome:
    """The outcome of an architecture that could not be measured at all."""
    absent = Absent(status="failed", reason=reason, method=method)
    return Outcome(readings={"latency_ms": absent}, fatal=True)


def checked_device(name: str) -> Any:
    """The torch device of that name, which is there.

    Raises:
        InvalidValue: It is not there, or torch knows no such device. A CPU never stands in.
        MissingDependency: torch is not installed.
    """
    torch = _torch()
    try:
        device = torch.device(name)
    except RuntimeError:
        raise invalid("device", "profile", "'cpu' or 'cuda:<index>'", name) from None
    if device.type == "cpu" and device.index is None:
        return device
    if device.type != "cuda":
        raise invalid("device", "profile", "'cpu' or 'cuda:<index>'", name)
    if not torch.cuda.is_available():
        raise InvalidValue(
            f"Device {name!r} needs CUDA, which torch {torch.__version__} does not see here: "
            "install a CUDA build of torch and the driver, or measure with device 'cpu' under a "
            "name of its own."
        )
    there = torch.cuda.device_count()
    index = device.index if device.index is not None else 0
    if index >= there:
        raise InvalidValue(f"There must be a device {name!r}. torch sees {there} CUDA device(s).")
    return torch.device("cuda", index)


def _recorded_dtype(name: str) -> str:
    torch, device = _torch(), checked_device(name)
    if device.type == "cpu":
        return "float32"
    ampere = torch.cuda.get_device_capability(device) >= (8, 0)
    return "autocast-bfloat16" if ampere else "autocast-float16"


def _torch() -> Any:
    import torch

    import hwbench.model  # noqa: F401 - says what to install where torch is not

    return torch


def reason_of(error: Unsupported) -> str:
    """The reason in an error, in one line."""
    return " ".join(str(error).split())
