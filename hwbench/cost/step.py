"""The predicted step of a transformer: its products, its other kernels, its throughput."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hwbench.cost.gpu import Estimate, estimate
from hwbench.cost.kernels import Kernel, kernels
from hwbench.cost.transformer import Gemm, TransformerShape, gemms
from hwbench.devices import Hardware

Timer = Callable[[Gemm], float | None]
"""The measured microseconds of a product, or None where it was not measured."""

# Mixed-precision training with Adam holds 2 + 2 bytes of weight and gradient and 12 of float32
# weight and moments a parameter (ZeRO, arXiv 1910.02054, section 3.1); inference holds the weights.
_TRAIN_BYTES = 16
_INFERENCE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True, slots=True)
class Row:
    """One product of a step with its time.

    Attributes:
        estimate: What the model of the hardware says.
        measured_us: Its measured time, where there is one.
    """

    estimate: Estimate
    measured_us: float | None = None

    @property
    def gemm(self) -> Gemm:
        """The product."""
        return self.estimate.gemm

    @property
    def time_us(self) -> float:
        """Time of one kernel: measured, or else predicted."""
        return self.estimate.time_us if self.measured_us is None else self.measured_us

    @property
    def total_us(self) -> float:
        """Time of all kernels of this kind."""
        return self.time_us * self.gemm.count

    @property
    def efficiency(self) -> float:
        """Share of the device's peak."""
        return self.estimate.ideal_us / self.time_us

    @property
    def wasted_us(self) -> float:
        """Time of all kernels of this kind beyond what the peak would need."""
        return self.total_us - self.estimate.ideal_us * self.gemm.count


@dataclass(frozen=True, slots=True)
class Step:
    """The predicted step of one device.

    Attributes:
        shape: The model and the step.
        hardware: The device's figures.
        rows: The products.
        others: The kernels that are no products.
    """

    shape: TransformerShape
    hardware: Hardware
    rows: tuple[Row, ...]
    others: tuple[Kernel, ...]

    @property
    def products_us(self) -> float:
        """Time of the products."""
        return sum(row.total_us for row in self.rows)

    @property
    def others_us(self) -> float:
        """Time of everything else."""
        return sum(kernel.total_us(self.hardware) for kernel in self.others)

    @property
    def time_us(self) -> float:
        """Time of the step."""
        return self.products_us + self.others_us

    @property
    def tokens_per_s(self) -> float:
        """Tokens a second, all devices of the tensor-parallel group together."""
        return self.shape.tokens / self.time_us * 1e6

    @property
    def efficiency(self) -> float:
        """Share of the peak that the products' FLOPs make of the whole step's time."""
        ideal = sum(row.estimate.ideal_us * row.gemm.count for row in self.rows)
        return ideal / self.time_us

    @property
    def measured_share(self) -> float:
        """Share of the products' time that was measured rather than predicted."""
        measured = sum(row.total_us for row in self.rows if row.measured_us is not None)
        return measured / self.products_us


def step(shape: TransformerShape, hardware: Hardware, measured: Timer | None = None) -> Step:
    """Predict a step.

    Args:
        shape: The model and the step.
        hardware: The device's figures.
        measured: Looks up measured products, whose times go before predicted ones.

    Returns:
        The step; all its pipeline stages run on one device after another, and communication
        between devices is left out.

    >>> from hwbench.devices import hardware
    >>> gpt3 = TransformerShape(
    ...     hidden=2560, heads=32, layers=32, vocab=50257, seq=2048, microbatch=4
    ... )
    >>> predicted = step(gpt3, hardware("a100"))
    >>> 0.2 < predicted.efficiency < 0.8
    True
    """
    rows = tuple(
        Row(estimate(gemm, hardware, shape.dtype), measured(gemm) if measured else None)
        for gemm in gemms(shape)
    )
    return Step(shape, hardware, rows, kernels(shape))


def memory_gb(shape: TransformerShape) -> float:
    """Memory that one device needs for weights, and in training for gradients and Adam, in GB.

    Activations are left out: they depend on what is recomputed.

    >>> shape = TransformerShape(
    ...     hidden=2560, heads=32, layers=32, vocab=50257, seq=2048, microbatch=4, tied=True
    ... )
    >>> round(memory_gb(shape), 1)
    42.3
    """
    each = _TRAIN_BYTES if shape.phase == "train" else _INFERENCE_BYTES[shape.dtype]
    return shape.parameters * each / (shape.tensor_parallel * shape.pipeline) / 1e9
