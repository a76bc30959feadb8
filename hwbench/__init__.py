"""hwbench: what a GPT-2-family architecture costs on a device, and how sure that is.

The names of the public contract are here; everything else is reached through its module.
"""

from typing import TYPE_CHECKING, Any

from hwbench.architectures import Architecture, SearchSpace, space, spaces
from hwbench.cost import count

if TYPE_CHECKING:
    from hwbench.benchmark import Answer, Benchmark, Prediction

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Architecture",
    "Benchmark",
    "Prediction",
    "SearchSpace",
    "__version__",
    "count",
    "space",
    "spaces",
]


def __getattr__(name: str) -> Any:
    """Import the query API when it is first used: spaces and counts do without XGBoost."""
    if name in ("Answer", "Benchmark", "Prediction"):
        from hwbench import benchmark

        return getattr(benchmark, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, those that are imported late among them."""
    return sorted(__all__)
