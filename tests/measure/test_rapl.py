"""RAPL through a powercap tree that is made of files: which zones count, and how they turn over."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwbench.errors import Unsupported
from hwbench.measure import rapl
from hwbench.measure.rapl import Rapl
from tests.measure.fakes import powercap, set_uj

RANGE = 1_000_000


def names(root: Path) -> list[str]:
    return [zone.name for zone in Rapl.open(root).zones]


def test_only_disjoint_zones_count(tmp_path: Path) -> None:
    root = powercap(
        tmp_path,
        {
            "intel-rapl:0": ("package-0", 100, RANGE),
            "intel-rapl:0:0": ("core", 40, RANGE),
            "intel-rapl:0:1": ("uncore", 10, RANGE),
            "intel-rapl:0:2": ("dram", 30, RANGE),
            "intel-rapl:1": ("package-1", 100, RANGE),
            "intel-rapl:1:0": ("dram", 30, RANGE),
            "intel-rapl:2": ("psys", 500, RANGE),
            "intel-rapl-mmio:0": ("package-0", 100, RANGE),
        },
    )
    meter = Rapl.open(root)
    assert sorted(z.name for z in meter.zones) == ["dram-0", "dram-1", "package-0", "package-1"]
    assert meter.read_j() == 0
    for folder, step in (
        ("intel-rapl:0", 7),
        ("intel-rapl:0:0", 1000),
        ("intel-rapl:0:2", 20),
        ("intel-rapl:1", 300),
        ("intel-rapl:2", 5000),
        ("intel-rapl-mmio:0", 7),
    ):
        set_uj(root, folder, int((root / folder / "energy_uj").read_text()) + step)
    assert meter.read_j() == pytest.approx(327e-6)
    assert "package-0" in meter.method
    assert "package-0" not in Rapl.method


def test_psys_counts_where_there_is_no_package(tmp_path: Path) -> None:
    assert names(powercap(tmp_path, {"intel-rapl:0": ("psys", 1, RANGE)})) == ["psys"]


def test_the_interface_through_memory_counts_alone(tmp_path: Path) -> None:
    assert names(powercap(tmp_path, {"intel-rapl-mmio:0": ("package-0", 1, RANGE)})) == [
        "package-0"
    ]


def test_three_turns_in_one_window(tmp_path: Path) -> None:
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 900_000, RANGE)})
    meter = Rapl.open(root)
    # 0.9 J, then 2.5 J more in steps of less than the range, which turns at 1 J + 1 uJ.
    counter = 900_000
    for _ in range(10):
        counter = (counter + 250_000) % (RANGE + 1)
        set_uj(root, "intel-rapl:0", counter)
        last = meter.read_j()
    assert counter == (900_000 + 2_500_000) % (RANGE + 1)
    assert last == pytest.approx(2.5)


def test_an_unreadable_counter_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 1, RANGE)})
    read = Path.read_text

    def refuse(self: Path, *args: str) -> str:  # root may read a file of mode 0
        if self.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read(self, *args)

    monkeypatch.setattr(Path, "read_text", refuse)
    said = r"^rapl: permission denied on .*intel-rapl:0/energy_uj; run as root, or chmod a\+r it$"
    with pytest.raises(Unsupported, match=said):
        Rapl.open(root)


def test_no_tree_no_zone_and_a_zone_that_goes_away(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="there is no"):
        Rapl.open(tmp_path / "nowhere")
    with pytest.raises(Unsupported, match="no zone of a package"):
        Rapl.open(tmp_path)
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 1, RANGE)})
    meter = Rapl.open(root)
    (root / "intel-rapl:0/energy_uj").unlink()
    with pytest.raises(Unsupported, match="No such file"):
        meter.read_j()
    assert Path("/sys/class/powercap") == rapl.POWERCAP
