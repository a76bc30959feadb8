"""Nothing here can be imported without the supernet's own dependencies."""

from __future__ import annotations

from importlib.util import find_spec

_NEEDED = ("torch", "accelerate", "tokenizers", "transformers")

collect_ignore_glob = ["*"] if any(find_spec(name) is None for name in _NEEDED) else []
