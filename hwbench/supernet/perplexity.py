"""Perplexity by a sliding window, each token's loss counted once.

The first window scores all its tokens; each further one begins `stride` tokens later and scores
what no window before it scored, so that every token but the first `context` sees at least
`context - stride` others. The text's first token has nothing before it and is not scored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from hwbench.errors import InvalidValue, invalid
from hwbench.supernet.tokens import Data, Piece

Logits = Callable[[Tensor], Tensor]
"""Token indices (B, T) to logits (B, T, vocabulary)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Perplexity:
    """How well a model predicts a text, and what that was found with.

    Attributes:
        loss: Mean negative log likelihood of a scored token, in nats.
        accuracy: Share of scored tokens that the model gives the greatest logit.
        tokens: Scored tokens: all but the first.
        words: Words of the text, apart by whitespace; None for a file of tokens.
        context: Tokens a window, at most.
        stride: Tokens between the beginnings of windows.
        data: The data file's name.
        data_sha256: Its hash.
        tokeniser_sha256: The tokeniser's hash; None for a file of tokens.
    """

    loss: float
    accuracy: float
    tokens: int
    words: int | None
    context: int
    stride: int
    data: str
    data_sha256: str
    tokeniser_sha256: str | None

    @property
    def perplexity(self) -> float:
        """Per token: e to the mean loss."""
        return math.exp(min(self.loss, 700.0))

    @property
    def perplexity_per_word(self) -> float | None:
        """E to the summed loss over the number of words; None for a file of tokens."""
        if not self.words:
            return None
        return math.exp(min(self.loss * self.tokens / self.words, 700.0))

    def to_dict(self) -> dict[str, Any]:
        """All figures by name, ready for JSON."""
        return {
            "perplexity": self.perplexity,
            "perplexity_per_word": self.perplexity_per_word,
            "accuracy": self.accuracy,
            "loss_nats": self.loss,
            **protocol(self),
            "tokens": self.tokens,
            "words": self.words,
        }


def protocol(found: Perplexity) -> dict[str, Any]:
    """With what a perplexity was found: figures compare only where these agree."""
    names = ("context", "stride", "data", "data_sha256", "tokeniser_sha256")
    return {name: getattr(found, name) for name in names}


@dataclass(frozen=True, slots=True)
class Window:
    """Some consecutive tokens of a stream.

    Attributes:
        tokens: Their indices, shape (n + 1,): n inputs, and the target of each one place later.
        first: The first target that is scored here, from 0.
    """

    tokens: NDArray[np.int64]
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """How a window slides over a text.

    Attributes:
        context: Tokens a window, at most; the model must take as many.
        stride: Tokens between the beginnings of windows, 1 to `context`.
        batch_size: Windows at once; no result depends on it.

    Raises:
        InvalidValue: A number is out of range.
    """

    context: int
    stride: int
    batch_size: int = 1

    def __post_init__(self) -> None:
        """Check every number."""
        for name, most in (
            ("context", math.inf),
            ("stride", self.context),
            ("batch_size", math.inf),
        ):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                least = "an int >= 1" if math.isinf(most) else f"an int from 1 to context, {most}"
                raise invalid(name, "Windows", least, value)

    def over(self, pieces: Iterable[Piece]) -> Iterator[Window]:
        """Cut a stream into windows; no more of it is held than a window and a piece.

        Args:
            pieces: The stream.

        Yields:
            The windows, the last of them shorter where the stream ends.
        """
        held = np.zeros(0, np.int64)
        scored = 1  # the place in `held` of the next target that is not scored yet
        for piece in pieces:
            held = np.concatenate([held, piece.tokens])
            start = 0
            while len(held) - start > self.context:
                yield Window(held[start : start + self.context + 1], scored - 1)
                # Seen from the next window's beginning.
                scored = self.context + 1 - self.stride
                start += self.stride
            held = held[start:]
        if scored < len(held):
            yield Window(held, scored - 1)


@torch.inference_mode()
def perplexity(
    logits: Logits,
    data: Data,
    windows: Windows,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] = lambda tokens: None,
) -> Perplexity:
    """How well a model predicts a text.

    Args:
        logits: The model.
        data: The text.
        windows: How a window slides over it.
        device: Where the model is.
        progress: Called with the number of tokens that were scored since.

    Raises:
        InvalidValue: The text is shorter than the context, or the model gives no finite loss.
    """
    words: list[int | None] = []
    loss, right, tokens = 0.0, 0, 0
    for batch in _batches(windows.over(_counted(data, words)), windows.batch_size):
        if tokens == 0 and len(batch[0].tokens) <= windows.context:
            raise InvalidValue(
                f"The data must hold more tokens than the context of {windows.context}. "
                f"{data.path} holds {len(batch[0].tokens)}; give a smaller one, or a longer text."
            )
        found = _score(logits, batch, device)
        loss, right, tokens = loss + found[0], right + found[1], tokens + found[2]
        progress(found[2])
    if not tokens:
        raise InvalidValue(f"The data must hold two tokens or more. {data.path} does not.")
    if not math.isfinite(loss):
        raise InvalidValue("The model's loss must be finite. It is not: are its weights sound?")
    return Perplexity(
        loss=loss / tokens,
        accuracy=right / tokens,
        tokens=tokens,
        words=None if None in words else sum(w for w in words if w is not None),
        context=windows.context,
        stride=windows.stride,
        data=data.path.name,
        data_sha256=data.sha256,
        tokeniser_sha256=None
        if data.tokeniser is None or data.is_tokens
        else data.tokeniser.sha256,
    )


def _counted(data: Data, words: list[int | None]) -> Iterator[Piece]:
    for piece in data.pieces():
        words.append(piece.words)
        yield piece


def _batches(found: Iterable[Window], size: int) -> Iterator[list[Window]]:
    batch: list[Window] = []
    for window in found:
        batch.append(window)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _score(
    logits: Logits, batch: list[Window], device: torch.device | str
) -> tuple[float, int, int]:
    """Summed loss, right predictions and scored tokens of some windows."""
    longest = max(len(w.tokens) for w in batch)
    # No token sees a later one, so what pads the end changes nothing before it.
    padded = np.zeros((len(batch), longest), np.int64)
    for row, window in zip(padded, batch, strict=True):
        row[: len(window.tokens)] = window.tokens
    tokens = torch.from_numpy(padded).to(device)  # (B, T + 1)
    given = logits(tokens[:, :-1])  # (B, T, V)
    loss, right, count = 0.0, 0, 0
    for i, window in enumerate(batch):
        scored = slice(window.first, len(window.tokens) - 1)
        each, targets = given[i, scored].float(), tokens[i, 1:][scored]  # (n, V), (n,)
        loss += float(F.cross_entropy(each, targets, reduction="none").double().sum())
        right += int((each.argmax(-1) == targets).sum())
        count += len(targets)
    return loss, right, count
