"""Text and tokens: tokenisers of checkpoints, and data files as streams of tokens.

A data file is UTF-8 text, which is tokenised as it is read, or a `.npy` file of token indices. Text
is cut only before whitespace that follows something else, where GPT-2's own pattern of byte-level
pieces begins a new one, so the tokens of the stream are those of the whole text. A tokeniser with
another pattern may differ by a token or two at a cut, one in a million characters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from hwbench.errors import InvalidArtifact, InvalidValue
from hwbench.records.files import sha256

_PIECE = 1 << 20  # characters read at a time
_SPACES = " \t\r\n"  # what every definition of whitespace counts as such
_FILES = ("tokenizer.json", "vocab.json")
_END_OF_TEXT = "<|endoftext|>"  # GPT-2's one special token


@dataclass(frozen=True, slots=True, eq=False)
class Tokeniser:
    """Text to token indices, all of a text's and no others.

    Attributes:
        tokenizer: The tokeniser of the `tokenizers` library.
    """

    tokenizer: Tokenizer

    @classmethod
    def of_checkpoint(cls, folder: str | Path) -> Tokeniser | None:
        """The tokeniser in a folder or file, or None where there is none.

        Args:
            folder: A folder with a `tokenizer.json`, or with GPT-2's `vocab.json` and
                `merges.txt`; or a file of the first kind.

        Raises:
            InvalidArtifact: The files cannot be read.
        """
        place = Path(folder)
        whole = place if place.is_file() else place / _FILES[0]
        try:
            if whole.is_file():
                return cls(_untruncated(Tokenizer.from_file(str(whole))))
            if not (place / _FILES[1]).is_file():
                return None
            merges = str(place / "merges.txt")
            made = _byte_level(models.BPE.from_file(str(place / _FILES[1]), merges))
            if made.token_to_id(_END_OF_TEXT) is not None:
                made.add_special_tokens([_END_OF_TEXT])
            return cls(made)
        except Exception as error:  # noqa: BLE001 - the library raises bare Exceptions
            reason = " ".join(str(error).split())
            raise InvalidArtifact(f"Cannot read the tokeniser in {place}: {reason}.") from None

    @classmethod
    def from_text(cls, text: str) -> Tokeniser:
        """Read what `to_text` gave."""
        return cls(_untruncated(Tokenizer.from_str(text)))

    @classmethod
    def trained(cls, texts: Iterator[str], vocabulary: int) -> Tokeniser:
        """Train a byte-level BPE.

        Args:
            texts: What to train on.
            vocabulary: Tokens at most, 256 bytes among them.
        """
        made = _byte_level(models.BPE())
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False
        )
        made.train_from_iterator(texts, trainer)
        return cls(made)

    def to_text(self) -> str:
        """The tokeniser as the text of a `tokenizer.json`."""
        return str(self.tokenizer.to_str())

    @property
    def sha256(self) -> str:
        """The hash of `to_text`."""
        return hashlib.sha256(self.to_text().encode()).hexdigest()

    @property
    def vocabulary(self) -> int:
        """How many tokens a model must know for all of its indices, which may have gaps."""
        return 1 + max(self.tokenizer.get_vocab().values(), default=-1)

    def encode(self, text: str) -> NDArray[np.int64]:
        """The token indices of a text."""
        return np.asarray(self.tokenizer.encode(text, add_special_tokens=False).ids, np.int64)


def _byte_level(model: models.BPE) -> Tokenizer:
    made = Tokenizer(model)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def _untruncated(tokenizer: Tokenizer) -> Tokenizer:
    """A tokeniser as its file says, but for the length to which it cuts or pads what it is given.

    A file keeps that from whatever it was last used for.
    """
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a stream.

    Attributes:
        tokens: Token indices.
        words: Words of the text, apart by whitespace; None for a file of tokens.
    """

    tokens: NDArray[np.int64]
    words: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """A data file, read as a stream of tokens.

    Attributes:
        path: The file.
        tokeniser: What makes tokens of text; a file of tokens needs none.
        vocabulary: Tokens that the model knows.
        sha256: The file's hash.
    """

    path: Path
    tokeniser: Tokeniser | None
    vocabulary: int
    sha256: str

    @classmethod
    def open(cls, path: str | Path, tokeniser: Tokeniser | None, vocabulary: int) -> Data:
        """Find a data file.

        Args:
            path: Text, or token indices in a `.npy` file.
            tokeniser: For text.
            vocabulary: Tokens that the model knows.

        Raises:
            InvalidValue: There is no such file, it is empty, or it is text and there is no
                tokeniser, or one that makes tokens that the model does not know.
        """
        place = Path(path)
        if not place.is_file():
            raise InvalidValue(f"The data must be a file. {place} is none.")
        if not place.stat().st_size:
            raise InvalidValue(f"The data must hold text or tokens. {place} is empty.")
        if place.suffix != ".npy":
            if tokeniser is None:
                raise InvalidValue(
                    f"The text {place} needs a tokeniser. The checkpoint holds none: give one that "
                    "has a tokenizer.json, or a vocab.json and merges.txt."
                )
            if tokeniser.vocabulary > vocabulary:
                raise InvalidValue(
                    f"The tokeniser must know at most the model's {vocabulary} tokens. "
                    f"Got {tokeniser.vocabulary} instead."
                )
        return cls(place, tokeniser, vocabulary, sha256(place))

    @property
    def is_tokens(self) -> bool:
        """Whether the file holds token indices rather than text."""
        return self.path.suffix == ".npy"

    def pieces(self) -> Iterator[Piece]:
        """The file's tokens, part by part.

        Raises:
            InvalidValue: The file is no UTF-8 text, or no list of tokens of the vocabulary.
        """
        if self.is_tokens:
            yield from self._of_array()
        else:
            for text in _texts(self.path):
                assert self.tokeniser is not None  # noqa: S101 - `open` saw to it
                yield Piece(self.tokeniser.encode(text), len(text.split()))

    def tokens(self) -> NDArray[np.int64]:
        """All tokens at once, shape (n,); see `pieces`."""
        none = np.zeros(0, np.int64)  # of a text that is a byte-order mark alone
        return np.concatenate([none, *(piece.tokens for piece in self.pieces())])

    def _of_array(self) -> Iterator[Piece]:
        try:
            found = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise InvalidValue(f"Cannot read tokens from {self.path}: {reason}.") from None
        if not isinstance(found, np.ndarray):
            raise InvalidValue(f"Tokens must be one array. {self.path} is an archive of arrays.")
        if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
            raise InvalidValue(
                f"Tokens must be a list of one int or more. {self.path} holds {found.dtype} of "
                f"shape {found.shape}."
            )
        for start in range(0, len(found), _PIECE):
            part = np.asarray(found[start : start + _PIECE], np.int64)
            if part.min() < 0 or part.max() >= self.vocabulary:
                wrong = part.min() if part.min() < 0 else part.max()
                raise InvalidValue(
                    f"Tokens must be from 0 to {self.vocabulary - 1}. {self.path} holds {wrong}."
                )
            yield Piece(part, None)


def calibration_batches(
    tokens: NDArray[np.int64], context: int, *, sequences: int = 64, seed: int = 0
) -> tuple[torch.Tensor, ...]:
    """Sequences of a text for `sort_by_importance`, the same for a seed.

    Args:
        tokens: The text, shape (n,).
        context: Tokens a sequence.
        sequences: How many; they may overlap.
        seed: Of the places where they begin.

    Returns:
        Token indices, each (up to 8, context).

    Raises:
        InvalidValue: The text has no more tokens than the context.
    """
    if len(tokens) <= context:
        raise InvalidValue(
            f"Calibration text must hold more tokens than the context of {context}. "
            f"Got {len(tokens)}."
        )
    starts = np.random.default_rng(seed).integers(0, len(tokens) - context, sequences)
    drawn = tokens[starts[:, None] + np.arange(context)]
    return tuple(torch.from_numpy(drawn[at : at + 8]) for at in range(0, sequences, 8))


def _texts(path: Path) -> Iterator[str]:
    """The text of a file in parts that are tokenised as they are in the whole.

    Line ends stay as they are; a byte-order mark is no text.
    """
    rest: list[str] = []  # what was read since the last cut
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            while read := file.read(_PIECE):
                # With the character before it: a text without a place to cut is searched once.
                before = rest[-1][-1] if rest else ""
                cut = _last_cut(before + read) - len(before)
                if cut < 0:
                    rest.append(read)
                else:
                    yield "".join([*rest, read[:cut]])
                    rest = [read[cut:]]
    except UnicodeDecodeError as error:
        raise InvalidValue(f"The data must be UTF-8 text. {path}: {error.reason}.") from None
    if rest:
        yield "".join(rest)


def _last_cut(text: str) -> int:
    """The last place before whitespace that follows something else, or -1 where there is none."""
    for at in range(len(text) - 1, 0, -1):
        if text[at] in _SPACES and not text[at - 1].isspace():
            return at
    return -1
