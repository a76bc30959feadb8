"""What is built holds what it needs: the artefacts inside the wheel, the wheel inside the sdist."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from hwbench import __version__

ROOT = Path(__file__).parent.parent
WHEEL_MB = 30


def build(source: Path, target: str, out: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", out]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (built,) = out.iterdir()
    return built


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_the_package_with_its_data_and_artefacts(wheel: Path) -> None:
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "hwbench").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    artefacts = {
        f"hwbench/_surrogates/{path.relative_to(ROOT / 'surrogates').as_posix()}"
        for path in (ROOT / "surrogates").rglob("*")
        if path.is_file()
    }
    info = f"hwbench-{__version__}.dist-info"
    rest = {
        f"{info}/{name}" for name in ("licenses/LICENSE", "licenses/NOTICE", "entry_points.txt")
    }
    assert artefacts
    assert package | artefacts | rest <= names(wheel)
    assert {name.split("/")[0] for name in names(wheel)} == {"hwbench", info}


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size <= WHEEL_MB * 10**6


def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = build(ROOT, "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    again = build(tmp_path / f"hwbench-{__version__}", "wheel", tmp_path / "wheel")
    assert names(again) == names(wheel)
