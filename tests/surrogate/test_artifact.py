"""Artefacts come back as they were written, or are refused in one line that names the file."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwbench import encode
from hwbench.encode import Features
from hwbench.errors import InvalidArtifact
from hwbench.surrogate import Card, Catalogue, artifact, load, read_card, save, shipped
from hwbench.surrogate.artifact import relative_path, write_file
from hwbench.surrogate.fit import Fit
from tests.surrogate.synthetic import WORKLOAD, space_s

ABOUT: dict[str, Any] = {
    "device": "h100",
    "metric": "latency",
    "unit": "ms",
    "workload": WORKLOAD.to_dict(),
    "evidence": "full",
    "scores": None,
}
LEVELS = np.array([0.05, 0.5, 0.95])


@pytest.fixture(scope="module")
def written(fit: Fit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artefact's folder, not to be changed."""
    root = tmp_path_factory.mktemp("artifact")
    save(root, fit.surrogate, ABOUT)
    return root


@pytest.fixture
def root(written: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(written, tmp_path / "artifacts"))


@pytest.fixture
def path(root: Path) -> Path:
    """The card of the copy."""
    return root / "s/h100/latency.json"


def listed(root: Path) -> list[str]:
    """All files below a folder, hidden ones too."""
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what a card says, its hash included, as a newer hwbench would write it."""
    values = json.loads(path.read_text())
    change(values)
    del values["id"]
    values["id"] = artifact._digest(values)
    path.write_text(artifact._text(values))


def refusal(call: Callable[[], object]) -> str:
    """What a call is refused with, one line."""
    with pytest.raises(InvalidArtifact) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


# There and back


def test_round_trip(fit: Fit, path: Path) -> None:
    card = read_card(path)
    assert (card.device, card.metric, card.evidence) == ("h100", "latency", "full")
    assert card.search_space == fit.surrogate.search_space
    assert card.workload == WORKLOAD
    assert card.scores is None
    again = load(card)
    for n in (3, 300):  # few rows and many take different ways
        features = Features(space_s(n, seed=5))
        assert (
            again.quantiles(features, LEVELS) == fit.surrogate.quantiles(features, LEVELS)
        ).all()
        ours = fit.surrogate.distribution(features).components(0)
        assert again.distribution(features).components(0) == ours


def test_writing_what_was_read_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    again = save(tmp_path / "again", load(read_card(path)), ABOUT)
    assert again.id == read_card(path).id
    assert again.path.read_bytes() == path.read_bytes()
    for part in ("correction", "spread"):
        name = f"latency.{part}.ubj"
        assert again.path.with_name(name).read_bytes() == path.with_name(name).read_bytes()


def test_no_booster_leaves_none_of_an_earlier_fit(fit: Fit, root: Path, path: Path) -> None:
    spread = replace(fit.surrogate.spread, booster=None)
    plain = replace(fit.surrogate, correction=None, spread=spread)
    save(root, plain, ABOUT)
    assert listed(root) == ["s/h100/latency.json"]
    features = Features(space_s(5))
    assert (load(read_card(path)).quantiles(features, LEVELS) > 0).all()


def test_a_metric_without_a_device_lies_in_its_space(fit: Fit, tmp_path: Path) -> None:
    about = {**ABOUT, "device": None, "metric": "perplexity", "workload": None}
    card = save(tmp_path, fit.surrogate, about)
    assert (
        card.path
        == tmp_path / "s/perplexity.json"
        == tmp_path / relative_path("s", None, "perplexity")
    )
    assert card.workload is None


def test_a_card_can_be_compared_line_by_line(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [line.split(":")[0].strip('"') for line in lines[1:-1]] == sorted(
        json.loads(path.read_text())
    )


def test_nothing_is_pickled(root: Path) -> None:
    assert {Path(name).suffix for name in listed(root)} == {".json", ".ubj"}
    assert not any(b"sklearn" in p.read_bytes() for p in root.rglob("*.ubj"))


# What is damaged


def test_a_changed_card_is_refused(path: Path) -> None:
    path.write_text(path.read_text().replace('"evidence": "full"', '"evidence": "high"'))
    assert str(path) in refusal(lambda: read_card(path))


def test_a_card_without_its_hash_is_refused(path: Path) -> None:
    values = json.loads(path.read_text())
    del values["id"]
    path.write_text(json.dumps(values))
    message = refusal(lambda: read_card(path))
    assert str(path) in message
    assert "changed after the fit" in message


def test_a_truncated_card_is_refused(path: Path) -> None:
    content = path.read_bytes()
    for share in (0.0, 0.3, 0.99):
        path.write_bytes(content[: int(share * len(content))])
        message = refusal(lambda: read_card(path))
        assert message.startswith(f"The card {path} is not JSON")


@pytest.mark.parametrize("number", ["NaN", "1e999", "-Infinity"])
def test_a_number_that_is_not_finite_is_refused(path: Path, number: str) -> None:
    values = json.loads(path.read_text())
    values["base"]["floor"] = "HERE"
    path.write_text(json.dumps(values).replace('"HERE"', number))
    assert refusal(lambda: read_card(path)).endswith("must hold finite numbers alone.")


@pytest.mark.parametrize("part", ["base", "boosters", "spread", "calibration", "components"])
@pytest.mark.parametrize("value", [5, [], None, {}, "text"])
def test_a_part_of_the_wrong_kind_is_refused(path: Path, part: str, value: object) -> None:
    rewrite(path, lambda values: values.update({part: value}))
    if (part, value) != ("boosters", {}):  # then it has none
        assert str(path) in refusal(lambda: load(read_card(path)))


@pytest.mark.parametrize(
    "part, name",
    [("spread", n) for n in ("scale", "knots", "tails")]
    + [("components", n) for n in ("drift", "repeat")],
)
@pytest.mark.parametrize("value", [5, [], [1.0]])
def test_a_part_of_the_wrong_shape_is_refused(
    path: Path, part: str, name: str, value: object
) -> None:
    rewrite(path, lambda values: values[part].update({name: value}))
    assert f"Its {part}" in refusal(lambda: load(read_card(path)))


def test_evidence_of_another_kind_is_refused(path: Path) -> None:
    rewrite(path, lambda values: values.update(evidence=5))
    assert "'evidence'" in refusal(lambda: read_card(path))


def test_a_broken_booster_whose_hash_fits_is_refused_in_one_line(path: Path) -> None:
    file = path.with_name("latency.spread.ubj")
    content = file.read_bytes()[:200]
    file.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    rewrite(path, lambda values: values["boosters"]["spread"].update(sha256=digest))
    assert str(path) in refusal(lambda: load(read_card(path)))


@pytest.mark.parametrize("content", [b"[]", b'"text"', b"{}", b'{"id": 3}', b"3", b"null"])
def test_json_that_is_no_card_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert refusal(lambda: read_card(path)).startswith(f"The card {path} must be an artefact's")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"[" * 100_000])
def test_bytes_that_are_no_json_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert str(path) in refusal(lambda: read_card(path))


def test_a_missing_card_is_refused(path: Path) -> None:
    path.unlink()
    assert (
        refusal(lambda: read_card(path))
        == f"Cannot read the card {path}: No such file or directory."
    )


def test_a_newer_format_is_refused_before_its_hash_is_read(path: Path) -> None:
    values = {"format": artifact.FORMAT + 1, "of": "the future"}
    path.write_text(json.dumps(values))
    message = refusal(lambda: read_card(path))
    assert f"The card {path} must be of format 1. Got 2" in message
    assert "fit it again" in message


@pytest.mark.parametrize("part", ["correction", "spread"])
def test_a_changed_booster_is_refused(path: Path, part: str) -> None:
    booster = path.with_name(f"latency.{part}.ubj")
    content = bytearray(booster.read_bytes())
    content[len(content) // 2] ^= 1
    booster.write_bytes(content)
    message = refusal(lambda: load(read_card(path)))
    assert str(path) in message
    assert f"The booster {booster.name} must have the hash" in message


@pytest.mark.parametrize("part", ["correction", "spread"])
def test_a_missing_booster_is_refused(path: Path, part: str) -> None:
    booster = path.with_name(f"latency.{part}.ubj")
    booster.unlink()
    message = refusal(lambda: load(read_card(path)))
    assert str(path) in message
    assert f"Cannot read the booster {booster.name}: No such file" in message


def test_another_version_of_an_encoder_is_refused(path: Path, monkeypatch: Any) -> None:
    name = json.loads(path.read_text())["boosters"]["correction"]["encoder"]
    older = {**encode.ENCODERS, name: replace(encode.ENCODERS[name], version=0)}
    monkeypatch.setattr(encode, "ENCODERS", older)
    message = refusal(lambda: load(read_card(path)))
    assert str(path) in message
    assert f"must be of version 0 of encoder {name}. Got version 1" in message


def test_an_encoder_of_the_future_is_refused(path: Path) -> None:
    rewrite(path, lambda v: v["boosters"]["spread"].update(encoder="layer-graphs"))
    message = refusal(lambda: load(read_card(path)))
    assert str(path) in message
    assert "Unknown encoder 'layer-graphs'" in message


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.pop("base"),
        lambda v: v["base"].update(kind="magic"),
        lambda v: v["base"].update(coefficients=[1.0]),
        lambda v: v["spread"].pop("scale"),
        lambda v: v["spread"].update(extra=[1.0]),
        lambda v: v["components"].pop("model"),
        lambda v: v["calibration"].update(groups=[{}]),
        lambda v: v.update(transform="square"),
        lambda v: v.update(boosters={"correction": {}}),
    ],
)
def test_a_card_that_makes_no_surrogate_is_refused(path: Path, change: Any) -> None:
    rewrite(path, change)
    assert str(path) in refusal(lambda: load(read_card(path)))


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.pop("device"),
        lambda v: v.pop("workload"),
        lambda v: v["space"].update(embed_dim=[]),
        lambda v: v["workload"].update(batch_size=0),
    ],
)
def test_a_card_that_says_too_little_of_itself_is_refused(path: Path, change: Any) -> None:
    rewrite(path, change)
    assert str(path) in refusal(lambda: read_card(path))


def test_a_booster_outside_the_folder_is_not_read(path: Path) -> None:
    """A card names files beside it; a path in the name does not lead elsewhere."""
    rewrite(path, lambda v: v["boosters"]["spread"].update(file="../../../etc/passwd"))
    assert "Cannot read the booster passwd" in refusal(lambda: load(read_card(path)))


# Half-written


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_failure_leaves_no_part_and_no_artefact_that_looks_whole(
    fit: Fit, root: Path, path: Path, fails_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at the first, second or third file: hidden parts used to be left."""
    calls, write = [], Path.write_bytes

    def full(self: Path, data: Any) -> int:
        calls.append(self)
        if len(calls) == fails_at:
            write(self, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        return write(self, data)

    before = listed(root)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="No space left"):
            save(root, fit.surrogate, {**ABOUT, "evidence": "low"})
    assert listed(root) == before
    # The boosters are the same, so the earlier artefact is whole still.
    assert load(read_card(path)).search_space.name == "s"
    assert read_card(path).evidence == "full"
    assert save(root, fit.surrogate, {**ABOUT, "evidence": "low"}).evidence == "low"


def test_a_failure_in_an_empty_folder_leaves_no_card(
    fit: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path, target: Path) -> Path:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(target))

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(OSError, match="Permission denied"):
        save(tmp_path, fit.surrogate, ABOUT)
    assert listed(tmp_path) == []


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, b"one")
    write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert listed(tmp_path) == ["file"]


# Catalogue


def test_a_catalogue_knows_what_lies_where(root: Path) -> None:
    (root / "s/perplexity.json").touch()
    (root / "README.md").touch()
    (root / "notes.json").touch()
    (root / "s/h100/.energy.json.partial").touch()
    deeper = root / "s/h100/old"
    deeper.mkdir()
    (deeper / "memory.json").touch()
    found = Catalogue.of(root)
    assert set(found.cards) == {("s", "h100", "latency"), ("s", None, "perplexity")}
    assert found.devices() == found.devices("s") == {"h100"}
    assert found.devices("m") == set()
    assert found.metrics("s", "h100") == {"latency"}
    assert found.metrics("s", None) == {"perplexity"}
    assert found.card("m", "h100", "latency") is None


def test_a_later_root_lies_over_an_earlier_one(root: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(root / "s/h100", own / "s/h100")
    shutil.copytree(root / "s/h100", own / "s/a100")
    cards = Catalogue.of(root, own).cards
    assert cards["s", "h100", "latency"] == own / "s/h100/latency.json"
    assert set(cards) == {("s", "h100", "latency"), ("s", "a100", "latency")}


def test_an_artefact_is_read_once(root: Path) -> None:
    found = Catalogue.of(root)
    card = found.card("s", "h100", "latency")
    assert card is not None
    assert found.card("s", "h100", "latency") is card
    assert found.surrogate(card) is found.surrogate(card)


def test_an_artefact_that_was_replaced_is_read_anew(root: Path, path: Path) -> None:
    found = Catalogue.of(root)
    before = found.card("s", "h100", "latency")
    rewrite(path, lambda v: v.update(evidence="low"))
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))
    after = found.card("s", "h100", "latency")
    assert isinstance(before, Card)
    assert isinstance(after, Card)
    assert (before.evidence, after.evidence) == ("full", "low")


@pytest.mark.parametrize("place", ["m/h100/latency", "s/a100/latency", "s/h100/energy"])
def test_an_artefact_in_anothers_place_is_refused(root: Path, path: Path, place: str) -> None:
    moved = root / f"{place}.json"
    moved.parent.mkdir(parents=True, exist_ok=True)
    path.rename(moved)
    space, device, metric = place.split("/")
    message = refusal(lambda: Catalogue.of(root).card(space, device, metric))
    assert message == (
        f"The card {moved} must be of {metric} on {device} in {space}. "
        f"Got latency on h100 in s instead."
    )


def test_an_artefact_that_went_away_is_refused(root: Path, path: Path) -> None:
    found = Catalogue.of(root)
    path.unlink()
    assert str(path) in refusal(lambda: found.card("s", "h100", "latency"))


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_what_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    message = refusal(lambda: Catalogue.of(tmp_path / name))
    assert message.startswith(f"Cannot read the artefacts in '{tmp_path / name}': N")


def test_a_folder_without_rights_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It used to look empty. Rights do not bind root, so the system's refusal is acted."""
    scandir = os.scandir

    def refused(folder: Any) -> Any:
        if Path(folder).name == "h100":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refused)
    message = refusal(lambda: Catalogue.of(root))
    assert message == f"Cannot read the artefacts in '{root / 's/h100'}': Permission denied."


def test_a_card_without_rights_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path, encoding: str) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "read_text", refused)
    assert refusal(lambda: read_card(path)) == f"Cannot read the card {path}: Permission denied."


# What is shipped


def shipped_cards() -> list[Path]:
    return sorted(Catalogue.of(shipped()).cards.values())


@pytest.mark.skipif(not shipped_cards(), reason="no artefacts in surrogates/ yet")
def test_every_shipped_artefact_is_whole() -> None:
    catalogue = Catalogue.of(shipped())
    for key in catalogue.cards:
        card = catalogue.card(*key)
        assert card is not None
        assert card.values["boosters"].keys() <= {"correction", "spread"}
        for about in card.values["boosters"].values():
            assert encode.encoder(about["encoder"]).version == about["encoder_version"]
            assert card.path.with_name(about["file"]).is_file()


@pytest.mark.skipif(not shipped_cards(), reason="no artefacts in surrogates/ yet")
def test_no_shipped_booster_is_without_a_card() -> None:
    named = {
        path.with_name(about["file"])
        for path in shipped_cards()
        for about in read_card(path).values["boosters"].values()
    }
    assert set(shipped().rglob("*.ubj")) == named
