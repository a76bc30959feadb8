"""RAPL energy counters of CPUs through Linux's powercap tree.

A zone's counter is in microjoules and starts again at 0 after `max_energy_range_uj`. Zones overlap:
"psys" is the whole platform, a "package" holds its "core" and "uncore", and a package may appear a
second time through another interface. Only zones that are disjoint are summed: the packages and
the memory ("dram") beside them, or psys where there are no packages.
"""

from __future__ import annotations

from pathlib import Path

from hwbench.errors import Unsupported

POWERCAP = Path("/sys/class/powercap")


class RaplZone:
    """One counter, read often enough to see each time it starts again.

    Attributes:
        name: The zone's name, such as "package-0".
        path: Its folder.
    """

    def __init__(self, name: str, path: Path) -> None:
        """Start at 0 joules."""
        self.name = name
        self.path = path
        self._range_uj = _integer(path / "max_energy_range_uj")
        self._last_uj = _integer(path / "energy_uj")
        self._total_uj = 0

    def read_j(self) -> float:
        """Joules since the zone was opened.

        Raises:
            Unsupported: The counter cannot be read.
        """
        now = _integer(self.path / "energy_uj")
        step = now - self._last_uj
        # At its largest value the counter goes on with 0, so that a turn is one more than it.
        self._total_uj += step if step >= 0 else step + self._range_uj + 1
        self._last_uj = now
        return self._total_uj / 1e6


class Rapl:
    """The CPU's energy: all disjoint zones together.

    Attributes:
        name: What a condition calls the counter.
        method: How energy is read, in words, for a workload.
        period_s: How often it should be read.
        zones: The zones that are summed.
    """

    name = "rapl"
    method = "RAPL counters of {} over a window of repeated passes"
    period_s = 0.05

    def __init__(self, zones: list[RaplZone]) -> None:
        """Use `Rapl.open`."""
        self.zones = zones
        self.method = type(self).method.format(", ".join(zone.name for zone in zones))

    @classmethod
    def open(cls, root: Path = POWERCAP) -> Rapl:
        """Find the disjoint zones.

        Raises:
            Unsupported: There is no powercap tree, it has no zone, or a counter cannot be read.
        """
        if not root.is_dir():
            raise Unsupported(f"rapl: there is no {root}; the kernel or the machine has none")
        named: dict[str, Path] = {}
        for zone in sorted(root.glob("intel-rapl*:*"), key=lambda p: ("mmio" in p.name, p.name)):
            name = _text(zone / "name")
            kind, owner = name.split("-")[0], zone.name.split(":")[1]
            label = name if kind != "dram" else f"dram-{owner}"
            # The same package through another interface (mmio) counts once.
            named.setdefault(label, zone)
        parts = [n for n in named if n.split("-")[0] in ("package", "dram")]
        chosen = parts if any(n.startswith("package") for n in parts) else ["psys"]
        found = [RaplZone(n, named[n]) for n in chosen if n in named]
        if not found:
            raise Unsupported(f"rapl: {root} has no zone of a package")
        return cls(found)

    def read_j(self) -> float:
        """Joules since it was opened, all zones together.

        Raises:
            Unsupported: A counter cannot be read.
        """
        return sum(zone.read_j() for zone in self.zones)


def _integer(path: Path) -> int:
    return int(_text(path))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except PermissionError:
        raise Unsupported(
            f"rapl: permission denied on {path}; run as root, or chmod a+r it"
        ) from None
    except OSError as error:
        raise Unsupported(f"rapl: {path}: {error.strerror}") from None
