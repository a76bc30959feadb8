"""The split by architecture: which ones a fit trains on, calibrates with and is scored on.

A label depends on nothing but the architecture's text form: not on the order of the rows, on what
else the store holds, nor on the process. All repeats, devices and metrics of one architecture fall
on the same side, and a label given once never changes as a store grows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hwbench.architectures import Architecture, ArchitectureTable
from hwbench.errors import invalid

LABELS = ("train", "calibrate", "test")
"""The three parts."""

TEST_FRACTION = 0.10
"""Share of the architectures that fits never see and scores are made on."""

CALIBRATE_FRACTION = 0.15
"""Share of the architectures that calibration alone sees."""

SALT = "hwbench split 1"
"""What is hashed before the text; another salt is another split."""


def split(
    architectures: ArchitectureTable | Iterable[Architecture | str],
    *,
    test: float = TEST_FRACTION,
    calibrate: float = CALIBRATE_FRACTION,
    salt: str = SALT,
) -> NDArray[np.str_]:
    """Label every architecture "train", "calibrate" or "test".

    The SHA-256 of the salt and the text form is read as a number u in [0, 1): "test" where
    u < test, "calibrate" where u < test + calibrate, "train" elsewhere. So a larger test share
    keeps all of a smaller one's.

    Args:
        architectures: A table, or architectures, or their text forms.
        test: Share to be scored on, in [0, 1].
        calibrate: Share to be calibrated with; the two together at most 1.
        salt: What is hashed before the text.

    Returns:
        Labels, shape (n,).

    Raises:
        InvalidValue: A share is not in its range.

    >>> a = Architecture("s", 10, 192, (4,) * 10, (2,) * 10, False)
    >>> split([a]).tolist() == split([str(a)]).tolist() == ["train"]
    True
    """
    for name, share in (("test", test), ("calibrate", calibrate), ("test", test + calibrate)):
        if not 0 <= share <= 1:
            allowed = "a share in [0, 1], and test + calibrate at most 1"
            raise invalid(name, "split", allowed, share)
    drawn = _uniform(texts(architectures), salt)
    labels = np.full(len(drawn), "train", dtype="<U9")
    labels[drawn < test + calibrate] = "calibrate"
    labels[drawn < test] = "test"
    return labels


def texts(architectures: ArchitectureTable | Iterable[Architecture | str]) -> list[str]:
    """The text forms of architectures, in their order."""
    if not isinstance(architectures, ArchitectureTable):
        return [str(a) for a in architectures]
    table = architectures
    if not len(table):
        return []
    word = [str(i) for i in range(1 + max(table.n_head.max(), table.mlp_ratio.max()))]
    start = f"gpt-{table.search_space.name}"
    columns = (table.n_layer, table.embed_dim, table.mlp_ratio, table.n_head, table.bias)
    return [
        f"{start}-{n}-{d}-{'-'.join([word[i] for i in (*r[:n], *h[:n])])}-{b}"
        for n, d, r, h, b in zip(*(c.tolist() for c in columns), strict=True)
    ]


def digest(architectures: ArchitectureTable | Iterable[Architecture | str]) -> str:
    """SHA-256 of the sorted text forms, one a line: names a set of architectures on a card.

    Neither order nor duplicates matter.

    >>> digest(["b", "a"]) == digest(["a", "b", "b"])
    True
    """
    lines = "".join(f"{text}\n" for text in sorted(set(texts(architectures))))
    return hashlib.sha256(lines.encode()).hexdigest()


def _uniform(lines: Sequence[str], salt: str) -> NDArray[np.float64]:
    """A number in [0, 1) for each text, the first 53 bits of its salted hash."""
    start = hashlib.sha256(f"{salt}\n".encode())

    def first_bytes(line: str) -> bytes:
        state = start.copy()
        state.update(line.encode())
        return state.digest()[:8]

    words = np.frombuffer(b"".join(map(first_bytes, lines)), dtype=">u8")
    exact: NDArray[np.float64] = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return exact
