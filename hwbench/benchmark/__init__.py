"""The query API: `Benchmark`, and the `Answer` and `Prediction` it gives."""

from hwbench.benchmark.answer import Answer, Components, Prediction
from hwbench.benchmark.benchmark import Benchmark

__all__ = ["Answer", "Benchmark", "Components", "Prediction"]
