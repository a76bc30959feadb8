"""Every token's loss is counted once, whatever the windows, the batches and the pieces."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from hwbench.errors import InvalidArtifact, InvalidValue
from hwbench.supernet import (
    Data,
    Perplexity,
    Tokeniser,
    Windows,
    perplexity,
    subnetwork_perplexity,
)
from hwbench.supernet import tokens as tokens_of
from hwbench.supernet.tokens import Piece
from tests.supernet.tiny import TINY, VOCABULARY, text, tiny_supernet

CONTEXT = 24


@pytest.fixture(scope="module")
def tokeniser() -> Tokeniser:
    return Tokeniser.trained(iter([text()]), VOCABULARY)


@pytest.fixture
def data(tmp_path: Path, tokeniser: Tokeniser) -> Data:
    path = tmp_path / "text.txt"
    path.write_text(text(300, seed=1))
    return Data.open(path, tokeniser, VOCABULARY)


def uneven(tokens: Tensor) -> Tensor:
    """A model whose logits depend on the last token, its place and the one before."""
    before = torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], dim=1)
    place = torch.arange(tokens.shape[1])
    mixed = (tokens * 7 + before * 3 + place)[..., None] * torch.arange(1, VOCABULARY + 1)
    return torch.sin(mixed.double()).float()


def pieces(total: int, *cuts: int) -> Iterator[Piece]:
    for part in np.split(np.arange(total), cuts):
        yield Piece(part, None)


@pytest.mark.parametrize("cuts", [(), (1,), (3, 4, 30), tuple(range(1, 40))])
@pytest.mark.parametrize("stride", [1, 2, 5, 8])
@pytest.mark.parametrize("total", [2, 8, 9, 10, 17, 40])
def test_each_token_but_the_first_is_scored_once(
    total: int, stride: int, cuts: tuple[int, ...]
) -> None:
    scored = []
    for window in Windows(context=8, stride=stride).over(
        pieces(total, *(c for c in cuts if c < total))
    ):
        targets = window.tokens[1:][window.first :]
        scored += targets.tolist()
        assert len(window.tokens) <= 9
        if window.tokens[0] > 0:  # all but the first window's see enough before them
            assert window.first >= 8 - stride
    assert scored == list(range(1, total))


def by_hand(tokens: NDArray[np.int64], context: int, stride: int) -> tuple[float, float]:
    """Mean loss and accuracy, target by target, each in the window that scores it first."""
    losses, right = [], []
    for target in range(1, len(tokens)):
        start = 0
        while start + context < target:
            start += stride
        given = torch.from_numpy(tokens[start:target])[None]
        logits = uneven(given)[0, -1].double()
        losses.append(float(torch.logsumexp(logits, 0) - logits[tokens[target]]))
        right.append(int(logits.argmax()) == tokens[target])
    return float(np.mean(losses)), float(np.mean(right))


@pytest.mark.parametrize("stride", [3, 12, 24])
@pytest.mark.parametrize("batch_size", [1, 5])
def test_it_is_what_counting_by_hand_gives(data: Data, stride: int, batch_size: int) -> None:
    tokens = data.tokens()[:200]
    path = data.path.with_suffix(".npy")
    np.save(path, tokens)
    found = perplexity(
        uneven,
        Data.open(path, None, VOCABULARY),
        Windows(context=CONTEXT, stride=stride, batch_size=batch_size),
    )
    loss, accuracy = by_hand(tokens, CONTEXT, stride)
    assert found.loss == pytest.approx(loss, abs=1e-6)
    assert found.accuracy == pytest.approx(accuracy)
    assert found.tokens == len(tokens) - 1
    assert found.perplexity == pytest.approx(math.exp(loss))
    assert (found.words, found.perplexity_per_word, found.tokeniser_sha256) == (None, None, None)


@pytest.mark.parametrize("stride", [7, 24])
def test_batches_and_padding_change_nothing(data: Data, stride: int, tmp_path: Path) -> None:
    supernet, arch = tiny_supernet(tmp_path / "parent"), TINY.sample(1, seed=4)[0]
    found = [
        subnetwork_perplexity(
            supernet, arch, data, Windows(context=CONTEXT, stride=stride, batch_size=batch_size)
        )
        for batch_size in (1, 2, 3, 16, 1000)
    ]
    for other in found[1:]:
        assert other.perplexity == pytest.approx(found[0].perplexity, rel=1e-5)
        assert other.tokens == found[0].tokens


def test_a_result_says_how_it_was_found(data: Data, tokeniser: Tokeniser) -> None:
    found = perplexity(uneven, data, Windows(context=CONTEXT, stride=12))
    said = found.to_dict()
    assert (said["context"], said["stride"], said["data"]) == (24, 12, "text.txt")
    assert said["data_sha256"] == data.sha256
    assert said["tokeniser_sha256"] == tokeniser.sha256
    assert said["tokens"] == len(data.tokens()) - 1
    assert said["words"] == 300
    assert found.perplexity_per_word == pytest.approx(
        math.exp(found.loss * found.tokens / 300), rel=1e-12
    )


def test_a_slice_and_the_model_extracted_from_it_agree(data: Data, tmp_path: Path) -> None:
    supernet, arch = tiny_supernet(tmp_path / "parent"), TINY.sample(1, seed=5)[0]
    windows = Windows(context=CONTEXT, stride=12, batch_size=4)
    sliced = subnetwork_perplexity(supernet, arch, data, windows)
    assert perplexity(supernet.extract(arch), data, windows).loss == pytest.approx(sliced.loss)


def test_a_loss_past_what_a_float_holds_stays_a_number() -> None:
    found = Perplexity(
        loss=1e6, accuracy=0.0, tokens=9, words=3, context=2, stride=1, data="", data_sha256="",
        tokeniser_sha256=None,
    )  # fmt: skip
    assert math.isfinite(found.perplexity)
    assert found.perplexity_per_word is not None


# Streams


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
def test_text_read_in_parts_is_tokenised_as_the_whole(
    size: int, tmp_path: Path, tokeniser: Tokeniser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_of, "_PIECE", size)
    content = (
        text(200, seed=2) + "\n\n  two  spaces\t\ttabs\r\nand lines \n \n" + "x" * 300
        + " caf\u00e9 \u65e5\u672c\u8a9e\u3000full width\u00a0fixed don't 3.14   end  "
    )  # fmt: skip
    path = tmp_path / "text.txt"
    path.write_text(content, "utf-8", newline="")
    data = Data.open(path, tokeniser, VOCABULARY)
    assert data.tokens().tolist() == tokeniser.encode(content).tolist()
    assert sum(p.words or 0 for p in data.pieces()) == len(content.split())


def test_little_of_a_long_text_is_held(
    tmp_path: Path, tokeniser: Tokeniser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_of, "_PIECE", 500)
    path = tmp_path / "text.txt"
    path.write_text(text(5000))
    longest = max(len(p.tokens) for p in Data.open(path, tokeniser, VOCABULARY).pieces())
    assert longest <= 1000


def test_gpt2s_own_tokeniser_files_are_read(tmp_path: Path, tokeniser: Tokeniser) -> None:
    tokeniser.tokenizer.model.save(str(tmp_path))
    found = Tokeniser.of_checkpoint(tmp_path)
    assert found is not None
    assert {p.name for p in tmp_path.iterdir()} == {"vocab.json", "merges.txt"}
    assert found.encode(text(50)).tolist() == tokeniser.encode(text(50)).tolist()
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(InvalidArtifact, match="Cannot read the tokeniser"):
        Tokeniser.of_checkpoint(tmp_path)


def test_a_tokeniser_that_was_saved_with_truncation_reads_all(
    data: Data, tokeniser: Tokeniser, tmp_path: Path
) -> None:
    """Every part of a text was cut to the length that the file was last used with."""
    cutting = Tokeniser.from_text(tokeniser.to_text()).tokenizer
    cutting.enable_truncation(40)
    cutting.enable_padding(length=50)
    cutting.save(str(tmp_path / "tokenizer.json"))
    for found in (Tokeniser.of_checkpoint(tmp_path), Tokeniser.from_text(cutting.to_str())):
        assert found is not None
        assert found.encode(text(200)).tolist() == tokeniser.encode(text(200)).tolist()
        assert found.sha256 == tokeniser.sha256


def test_gpt2s_end_of_text_is_one_token(tmp_path: Path, tokeniser: Tokeniser) -> None:
    vocabulary = {**tokeniser.tokenizer.get_vocab(), "<|endoftext|>": VOCABULARY}
    tokeniser.tokenizer.model.save(str(tmp_path))
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    found = Tokeniser.of_checkpoint(tmp_path)
    assert found is not None
    assert found.encode("cat<|endoftext|>cat").tolist()[1:-1] == [VOCABULARY]
    assert found.vocabulary == VOCABULARY + 1


def test_a_byte_order_mark_is_no_text(tmp_path: Path, tokeniser: Tokeniser) -> None:
    path = tmp_path / "text.txt"
    path.write_text(text(50), "utf-8-sig")
    data = Data.open(path, tokeniser, VOCABULARY)
    assert data.tokens().tolist() == tokeniser.encode(text(50)).tolist()
    path.write_text("", "utf-8-sig")
    data = Data.open(path, tokeniser, VOCABULARY)
    assert len(data.tokens()) == 0
    with pytest.raises(InvalidValue, match="two tokens or more"):
        perplexity(uneven, data, Windows(context=CONTEXT, stride=12))


def test_a_text_without_spaces_is_searched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_of, "_PIECE", 10)
    searched = 0
    search = tokens_of._last_cut

    def counted(part: str) -> int:
        nonlocal searched
        searched += len(part)
        return search(part)

    monkeypatch.setattr(tokens_of, "_last_cut", counted)
    path = tmp_path / "text.txt"
    path.write_text("x" * 1000 + " end")
    assert list(tokens_of._texts(path)) == ["x" * 1000, " end"]
    assert searched < 1200


# Bad input


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "is empty"),
        (b"cat on a mat", "more tokens than the context of 24"),
        (b"\xff\xfe" * 100, "must be UTF-8 text"),
    ],
)
def test_bad_texts_are_refused(
    content: bytes, said: str, tmp_path: Path, tokeniser: Tokeniser
) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(InvalidValue, match=said) as error:
        perplexity(
            uneven, Data.open(path, tokeniser, VOCABULARY), Windows(context=CONTEXT, stride=12)
        )
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "tokens, said",
    [
        (np.array([1, 2, VOCABULARY]), "from 0 to 299. .* holds 300"),
        (np.array([1, -1, 2]), "holds -1"),
        (np.array([[1, 2]]), r"holds int64 of shape \(1, 2\)"),
        (np.array([1.0, 2.0]), "holds float64"),
        (np.array([], np.int64), "one int or more"),
    ],
)
def test_bad_tokens_are_refused(tokens: NDArray[np.int64], said: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens.npy"
    np.save(path, tokens)
    with pytest.raises(InvalidValue, match=said):
        perplexity(uneven, Data.open(path, None, VOCABULARY), Windows(context=2, stride=1))


def test_what_is_no_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens.npy"
    path.write_text("no array")
    with pytest.raises(InvalidValue, match="Cannot read tokens"):
        Data.open(path, None, VOCABULARY).tokens()
    np.save(path, np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(InvalidValue, match="Cannot read tokens"):
        Data.open(path, None, VOCABULARY).tokens()
    np.savez(tmp_path / "archive.npz", tokens=np.arange(9))
    (tmp_path / "archive.npz").rename(path)
    with pytest.raises(InvalidValue, match="is an archive of arrays"):
        Data.open(path, None, VOCABULARY).tokens()


def test_text_needs_a_tokeniser_that_the_model_knows(tmp_path: Path, tokeniser: Tokeniser) -> None:
    path = tmp_path / "text.txt"
    path.write_text(text())
    with pytest.raises(InvalidValue, match="needs a tokeniser"):
        Data.open(path, None, VOCABULARY)
    with pytest.raises(InvalidValue, match="at most the model's 100 tokens"):
        Data.open(path, tokeniser, 100)
    with pytest.raises(InvalidValue, match="must be a file"):
        Data.open(tmp_path / "absent", tokeniser, VOCABULARY)
    # Few tokens, one of them with an index past the model's.
    content = json.loads(tokeniser.to_text())
    content["model"]["vocab"]["\u0120cat"] = 5000
    gaps = Tokeniser.from_text(json.dumps(content))
    with pytest.raises(InvalidValue, match=r"at most the model's 300 tokens\. Got 5001"):
        Data.open(path, gaps, VOCABULARY)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"context": 0, "stride": 1}, "'context' .* an int >= 1. Got 0"),
        ({"context": 24, "stride": 0}, "'stride' .* from 1 to context, 24. Got 0"),
        ({"context": 24, "stride": 25}, "Got 25"),
        ({"context": 24, "stride": 12, "batch_size": 0}, "'batch_size' .* Got 0"),
        ({"context": 25, "stride": 12}, "at most the model's 24 tokens. Got 25"),
    ],
)
def test_windows_out_of_range_are_refused(
    options: dict[str, int], said: str, data: Data, tmp_path: Path
) -> None:
    supernet = tiny_supernet(tmp_path / "parent")
    with pytest.raises(InvalidValue, match=said):
        subnetwork_perplexity(supernet, TINY.largest, data, Windows(**options))


def test_a_model_that_gives_no_numbers_is_refused(data: Data) -> None:
    def broken(tokens: Tensor) -> Tensor:
        return torch.full((*tokens.shape, VOCABULARY), float("nan"))

    with pytest.raises(InvalidValue, match="loss must be finite"):
        perplexity(broken, data, Windows(context=CONTEXT, stride=12))
