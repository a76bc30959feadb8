"""The house stands: every import goes down, every room has its floor, every file its size.

A room is a module or package directly inside hwbench/. It imports rooms on lower floors only;
rooms on one floor never import each other, with one exception: `errors` is the ground that the
other rooms of floor 0 stand on. The facade, hwbench/__init__.py, may import any room, and only the
faces on the top floor import it. Imports inside functions and under TYPE_CHECKING count as well:
a reader has to follow them too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hwbench

PACKAGE = Path(hwbench.__file__).parent

FLOORS = (
    ("metrics", "devices", "workload", "processes"),
    ("architectures",),
    ("cost",),
    ("encode", "records", "model"),
    ("measure", "supernet"),
    ("surrogate",),
    ("benchmark", "campaign", "advise"),
    ("search",),
    ("leaderboard",),
    ("cli", "service"),
    ("__main__",),
)
GROUND = "errors"
FACES = {*FLOORS[-2], *FLOORS[-1]}
FLOOR = {GROUND: -1} | {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# The order inside a package: a module imports only those of earlier tiers. "*" is every module that
# no tier names. Packages that are not listed are only checked for cycles.
ORDER = {
    "cli": (
        ("architectures", "options", "output", "progress"),
        ("*",),
        ("app",),
        ("manual",),
        ("__init__",),
        ("__main__",),
    ),
}

# Modules that may import each other, being the two halves of one notion.
HALVES = ({"architectures.architecture", "architectures.space"},)

CONTRACT = {"space", "spaces", "count", "Architecture", "Benchmark"}
VAGUE = {"utils", "util", "common", "misc", "helpers", "helper"}
MAX_LINES = 500


def modules(package: Path) -> dict[str, Path]:
    """All modules of a package by dotted name relative to it; "" is the package itself."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: set[str], package: str = "hwbench") -> Iterator[str]:
    """The modules of the package that a module imports, by dotted name relative to it."""
    home = name.split(".") if path.stem == "__init__" and name else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").split(".") if node.module else []
            if node.level:
                base = [package, *home[: len(home) + 1 - node.level], *base]
            names = [".".join([*base, alias.name]) for alias in node.names]
        else:
            continue
        for full in names:
            top, *rest = full.split(".")
            if top != package:
                continue
            while rest and ".".join(rest) not in known:
                rest.pop()  # a name inside a module, or of the facade
            yield ".".join(rest)


def edges(package: Path) -> set[tuple[str, str]]:
    """All imports inside a package as (importer, imported)."""
    found = modules(package)
    return {
        (name, target)
        for name, path in found.items()
        for target in imports(name, path, set(found))
        if name != target
    }


def wrong_edges(package: Path) -> list[str]:
    """What is wrong with the imports of a package, one line an edge or a room without a floor."""
    rooms = {name.split(".")[0] for name in modules(package)} - {""}
    wrong = [f"{room} has no floor" for room in sorted(rooms - set(FLOOR))]
    inside: dict[str, set[tuple[str, str]]] = {}
    for name, target in sorted(edges(package)):
        room, into = name.split(".")[0], target.split(".")[0]
        if room not in FLOOR or into not in {"", *FLOOR}:
            continue
        if not into:
            if room not in FACES:
                wrong.append(f"{name} imports the facade")
        elif room != into:
            if FLOOR[into] >= FLOOR[room]:
                wrong.append(f"{name} (floor {FLOOR[room]}) imports {target} ({FLOOR[into]})")
        elif {name, target} not in HALVES:
            inside.setdefault(room, set()).add((name, target))
    for room, pairs in inside.items():
        wrong += out_of_order(room, pairs) if room in ORDER else cycles(pairs)
    return wrong


def out_of_order(room: str, pairs: set[tuple[str, str]]) -> list[str]:
    """The edges inside a package that do not lead to an earlier tier."""
    tiers = {module: i for i, tier in enumerate(ORDER[room]) for module in tier}

    def tier(name: str) -> int:
        module = name.removeprefix(room).lstrip(".") or "__init__"
        return tiers.get(module, tiers["*"])

    return [f"{a} imports {b} out of order" for a, b in sorted(pairs) if tier(b) >= tier(a)]


def cycles(pairs: set[tuple[str, str]]) -> list[str]:
    """The edges that lie on a cycle."""
    left = set(pairs)
    while True:
        targets = {b for _, b in left}
        importers = {a for a, _ in left}
        kept = {(a, b) for a, b in left if a in targets and b in importers}
        if kept == left:
            return [f"{a} imports {b} in a cycle" for a, b in sorted(left)]
        left = kept


def test_every_room_has_a_floor_and_imports_go_down() -> None:
    assert wrong_edges(PACKAGE) == []


def test_no_room_hides_a_name_of_the_contract() -> None:
    assert CONTRACT.isdisjoint(FLOOR)
    public = set(hwbench.__all__)
    assert public.isdisjoint(name.split(".")[0] for name in modules(PACKAGE))


def test_no_file_is_too_long() -> None:
    lengths = {n: len(p.read_text("utf-8").splitlines()) for n, p in modules(PACKAGE).items()}
    assert {name: n for name, n in lengths.items() if n > MAX_LINES} == {}


def test_every_module_says_what_it_is() -> None:
    assert not {part for name in modules(PACKAGE) for part in name.split(".")} & VAGUE


@pytest.mark.parametrize(
    "room, statement, wrong",
    [
        ("metrics", "from hwbench.errors import HwbenchError", False),
        ("metrics", "from hwbench.devices import device", True),
        ("metrics", "from hwbench import devices", True),
        ("errors", "import hwbench.metrics", True),
        ("encode", "from hwbench.architectures import Architecture", False),
        ("encode", "from hwbench.architectures.space import SearchSpace", False),
        ("encode", "from hwbench.records import read", True),
        ("encode", "def late():\n    import hwbench.benchmark", True),
        ("encode", "if TYPE_CHECKING:\n    from hwbench.benchmark import Answer", True),
        ("encode", "from hwbench import count", True),
        ("encode", "from . import surrogate", True),
        ("encode", "from .errors import HwbenchError", False),
        ("encode", "import numpy.metrics, hwbenchmark", False),
        ("service", "import hwbench", False),
        ("service", "from hwbench.cli.app import run", True),
        ("attic", "", True),
    ],
)
def test_the_walk_sees_an_edge(tmp_path: Path, room: str, statement: str, wrong: bool) -> None:
    for other in FLOOR:
        (tmp_path / f"{other}.py").touch()
    for other in ("architectures", "cli", "records"):
        (tmp_path / f"{other}.py").unlink()
        (tmp_path / other).mkdir()
        for module in ("__init__", "space", "app"):
            (tmp_path / other / f"{module}.py").touch()
    (tmp_path / "__init__.py").write_text("from hwbench.metrics import count\n")
    assert wrong_edges(tmp_path) == []
    (tmp_path / f"{room}.py").write_text(statement + "\n")
    assert bool(wrong_edges(tmp_path)) == wrong


@pytest.mark.parametrize(
    "module, statement, wrong",
    [
        ("surrogate/fit.py", "from hwbench.surrogate.base import Base", False),
        ("surrogate/base.py", "from hwbench.surrogate.fit import fit", True),
        ("surrogate/base.py", "from hwbench.surrogate import fit", True),
        ("surrogate/base.py", "from . import fit", True),
        ("cli/query.py", "from hwbench.cli.output import print_rows", False),
        ("cli/query.py", "from hwbench.cli import output", False),
        ("cli/query.py", "from hwbench.cli.listing import spaces", True),
        ("cli/output.py", "from hwbench.cli.listing import spaces", True),
        ("cli/listing.py", "from hwbench.cli import main", True),
        ("cli/__init__.py", "from hwbench.cli.app import run", False),
        ("cli/__main__.py", "from hwbench.cli import main", False),
    ],
)
def test_the_walk_sees_the_order_inside(
    tmp_path: Path, module: str, statement: str, wrong: bool
) -> None:
    for path in (
        *("__init__", "surrogate/__init__", "surrogate/base"),
        *("cli/__init__", "cli/app", "cli/listing", "cli/output", "cli/query"),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / f"{path}.py").touch()
    (tmp_path / "surrogate/__init__.py").write_text("from hwbench.surrogate.fit import fit\n")
    (tmp_path / "surrogate/fit.py").write_text("import hwbench.surrogate.base\n")
    assert wrong_edges(tmp_path) == []
    (tmp_path / module).write_text(statement + "\n")
    assert bool(wrong_edges(tmp_path)) == wrong
