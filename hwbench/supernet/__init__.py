"""A supernet that inherits GPT-2 and scores any subnetwork's perplexity.

`Supernet` takes a Hugging Face checkpoint; every architecture of a space is a slice of it. `train`
trains it, and `perplexity` scores a slice as it would a dense model. The idea of one supernet for
all architectures of GPT-2's family is HW-GPT-Bench's (arXiv 2405.10299).
"""

from hwbench.errors import MissingDependency

try:
    import accelerate as _accelerate  # noqa: F401
    import safetensors as _safetensors  # noqa: F401
    import tokenizers as _tokenizers  # noqa: F401
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingDependency(
        f"The supernet needs {error.name}: pip install 'hwbench[supernet]'."
    ) from None

from hwbench.supernet.agreement import Tau, rank_correlation, stratified
from hwbench.supernet.checkpoint import read_gpt2, write_gpt2
from hwbench.supernet.describe import describe
from hwbench.supernet.perplexity import Perplexity, Windows, perplexity
from hwbench.supernet.quality import record_quality, subnetwork_perplexity
from hwbench.supernet.settings import TrainSettings
from hwbench.supernet.slicing import sort_by_importance
from hwbench.supernet.supernet import Supernet
from hwbench.supernet.tokens import Data, Tokeniser, calibration_batches
from hwbench.supernet.train import train
from hwbench.supernet.trainable import Alone, Subnetworks

__all__ = [
    "Alone",
    "Data",
    "Perplexity",
    "Subnetworks",
    "Supernet",
    "Tau",
    "Tokeniser",
    "TrainSettings",
    "Windows",
    "calibration_batches",
    "describe",
    "perplexity",
    "rank_correlation",
    "read_gpt2",
    "record_quality",
    "sort_by_importance",
    "stratified",
    "subnetwork_perplexity",
    "train",
    "write_gpt2",
]
