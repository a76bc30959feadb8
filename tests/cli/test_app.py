"""What every command line has in common: exit status, one line a mistake, help with an example."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Protocol

import pytest
import typer

from hwbench import __version__
from hwbench.cli import app as cli
from hwbench.cli import main
from hwbench.cli.manual import command_names, help_text
from hwbench.errors import HwbenchError, UnknownName


class Fails(Protocol):
    """Runs a command line that must fail; gives its one line without the "Error: "."""

    def __call__(self, *args: str, error: BaseException | None = None) -> str: ...


class Command:
    """A stand-in for a module with commands: one that fails as it is told to."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error

    def register(self, app: typer.Typer) -> None:
        app.command()(self.work)
        group = typer.Typer(help="Records.")
        group.command("import")(self.work)
        group.command("validate")(self.work)
        app.add_typer(group, name="data")

    def work(self, n: Annotated[int, typer.Option(min=0)] = 1) -> None:
        """Work."""
        if self.error is not None:
            raise self.error


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fails:
    def run(*args: str, error: BaseException | None = None) -> str:
        monkeypatch.setattr(cli, "COMMANDS", (Command(error),))
        assert cli.run(args) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("Error: ")
        assert err.count("\n") == 1
        return err.removeprefix("Error: ").removesuffix("\n")

    return run


def hwbench(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hwbench.cli", *args]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | env
    )


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"hwbench {__version__}\n"


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 0
    bare = capsys.readouterr().out
    assert cli.run(["--help"]) == 0
    assert capsys.readouterr().out == bare
    assert "Usage: hwbench" in bare


@pytest.mark.parametrize(
    "args, words",
    [
        (
            "wrk",
            ["command 'wrk'", "Did you mean 'work'?", "Known: work, data.", "'hwbench --help'"],
        ),
        ("data", ["Missing command", "Known: import, validate.", "'hwbench data --help'"]),
        ("data imprt", ["command 'imprt'", "Did you mean 'import'?", "Known: import, validate."]),
        ("work --m 1", ["No such option", "--m", "--n", "'hwbench work --help'"]),
        ("work --n", ["'--n' requires an argument"]),
        ("work --n two", ["Invalid value for '--n'", "'two'", "'hwbench work --help'"]),
        ("work --n -1", ["Invalid value for '--n'", "-1", "0"]),
        ("work more", ["unexpected extra argument", "more", "'hwbench work --help'"]),
        ("--colour", ["No such option", "--colour"]),
    ],
)
def test_a_wrong_command_line_is_one_line(fails: Fails, args: str, words: list[str]) -> None:
    """The wording is the parser's and changes with its version; what it must say does not."""
    line = fails(*args.split())
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize(
    "error, line",
    [
        (HwbenchError("a\n  b"), "a b"),
        (UnknownName("Unknown space 'q'. Known: s, m."), "Unknown space 'q'. Known: s, m."),
        (PermissionError(13, "Permission denied", "/x/y"), "Permission denied: '/x/y'."),
        (OSError(28, "No space left on device"), "No space left on device."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_user_s_mistake_is_one_line(fails: Fails, error: Exception, line: str) -> None:
    assert fails("work", error=error) == line


@pytest.mark.parametrize("error", [ZeroDivisionError("ours"), OSError("no errno: a library's own")])
def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(cli, "COMMANDS", (Command(error),))
    with pytest.raises(type(error)) as caught:
        cli.run(["work"])
    assert caught.value is error


def test_an_interrupt_is_one_line_and_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "COMMANDS", (Command(KeyboardInterrupt()),))
    monkeypatch.setattr(sys, "argv", ["hwbench", "work"])
    assert main() == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "hwbench.cli", "spaces", "--json"]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stdout:
        done = subprocess.run(
            command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (141, "")


def test_the_program_passes_the_status_on() -> None:
    done = hwbench("spacs")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize("name", command_names())
def test_every_command_has_a_summary_and_an_example(name: str) -> None:
    text = help_text(name)
    assert text.startswith(f"Usage: {name} ")
    assert text.split("\n\n")[1].strip(), "no summary"
    examples = text.split("\n  Example:\n")[1].splitlines()
    assert examples
    assert all(line.strip().startswith(name) for line in examples)


def test_help_is_plain_and_fits_its_width() -> None:
    assert all(len(line) <= 100 for name in command_names() for line in help_text(name).split("\n"))
    assert "\x1b" not in hwbench("--help", FORCE_COLOR="1", COLUMNS="100").stdout


def test_help_of_an_unknown_command_is_refused() -> None:
    with pytest.raises(UnknownName, match="Unknown command 'hwbench spacs'"):
        help_text("hwbench spacs")


def test_the_command_line_starts_light() -> None:
    code = (
        "import sys, hwbench.cli.app;"
        "heavy = {'torch', 'transformers', 'matplotlib', 'xgboost', 'sklearn', 'pandas', 'rich'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.replace("'", '"')) == []


def test_a_path_without_rights_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def read() -> None:
        """Read."""
        (tmp_path / "file" / "inside").read_text()

    (tmp_path / "file").touch()

    class Reading:
        @staticmethod
        def register(app: typer.Typer) -> None:
            app.command()(read)

    monkeypatch.setattr(cli, "COMMANDS", (Reading,))
    assert cli.run(["read"]) == 2
    assert str(tmp_path / "file" / "inside") in capsys.readouterr().err
