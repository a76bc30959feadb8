"""hwbench: what a GPT-2-family architecture costs on a device, and how sure that is.

The names of the public contract are here; everything else is reached through its module.
"""

from hwbench.architectures import Architecture, SearchSpace, space, spaces
from hwbench.cost import count

__version__ = "0.1.0"

__all__ = ["Architecture", "SearchSpace", "__version__", "count", "space", "spaces"]
