"""The query API: `Benchmark`, and the `Answer` and `Prediction` it gives."""

from hwbench.benchmark.answer import Answer, Predictions
from hwbench.benchmark.benchmark import Benchmark
from hwbench.benchmark.prediction import Components, Prediction

__all__ = ["Answer", "Benchmark", "Components", "Prediction", "Predictions"]
