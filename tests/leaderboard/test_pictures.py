"""Every picture is drawn from one call, as PNG and SVG, the same bytes each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwbench.errors import InvalidValue, UnknownName
from hwbench.leaderboard import Suite
from hwbench.leaderboard.build import leaderboard

pytest.importorskip("matplotlib")

from hwbench.leaderboard.pictures import KINDS, _style, picture, save, svg


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_drawn(kind: str, built: Suite, tmp_path: Path) -> None:
    figure = picture(kind, built, lambda: leaderboard(built))
    png, vector = save(figure, tmp_path / "pictures" / kind)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in vector.read_text()
    assert svg(picture(kind, built, lambda: leaderboard(built))) == vector.read_text()
    labels = [a.get_xlabel() for a in figure.axes if a.get_xlabel()]
    assert labels or kind == "devices"


def test_one_task_alone(built: Suite) -> None:
    task = built.tasks()[0]
    figure = picture("hypervolume", built, lambda: leaderboard(built), task=task)
    assert task.name in figure.axes[0].get_title()


def test_an_unknown_picture(built: Suite) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'devices'"):
        picture("device", built, lambda: leaderboard(built))


def test_an_unknown_metric_of_devices(built: Suite) -> None:
    with pytest.raises(UnknownName, match=r"Unknown metric .* 'energies'\. Did you mean 'energy'"):
        picture("devices", built, lambda: leaderboard(built), metric="energies")


@pytest.mark.parametrize("path", ["", ".", "/"])
def test_a_path_without_a_name(path: str, built: Suite) -> None:
    with pytest.raises(InvalidValue, match="must end in a name"):
        save(picture("devices", built, lambda: leaderboard(built)), Path(path))


def test_no_two_lines_look_alike() -> None:
    """The ninth optimiser had the colour and the dashes of the first."""
    looks = [tuple(map(str, _style(i).values())) for i in range(64)]
    assert len(set(looks)) == len(looks)
