"""The process that measures: one a campaign, replaced after a crash or when memory ran out.

It is started anew rather than forked, since CUDA does not survive a fork, and it ends with the
process that started it. An interrupt from the terminal goes to that process alone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from types import TracebackType
from typing import Any, Protocol

from hwbench.architectures import Architecture
from hwbench.errors import HwbenchError
from hwbench.measure.setup import Outcome, Setup, failed

_STOP_S = 5.0


class Bench(Protocol):
    """What measures inside the process."""

    def card(self) -> dict[str, Any]:
        """The environment card."""
        ...

    def measure(self, arch: Architecture) -> Outcome:
        """Measure one architecture."""
        ...


def open_instruments(setup: Setup) -> Bench:
    """The instruments of a setup's device, opened in the process that calls."""
    from hwbench.measure.instruments import Instruments

    return Instruments.open(setup)


class Worker:
    """Measures architectures in a process of its own.

    Attributes:
        setup: What is measured.
        starts: How many processes were started so far.
    """

    def __init__(self, setup: Setup, opener: Callable[[Setup], Bench] = open_instruments) -> None:
        """Start nothing yet.

        Args:
            setup: What is measured.
            opener: Makes the instruments inside the process; a function of a module.
        """
        self.setup = setup
        self.starts = 0
        self._opener = opener
        self._process: Any = None
        self._connection: Connection | None = None
        self._card: dict[str, Any] = {}

    def __enter__(self) -> Worker:
        """Use it as a context, which stops the process at its end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the process."""
        self.stop()

    def card(self) -> dict[str, Any]:
        """The environment card of the process, which is started if none runs.

        Raises:
            HwbenchError: The device is not there, or another mistake of the setup.
        """
        self._running()
        return self._card

    def measure(self, arch: Architecture) -> Outcome:
        """Measure one architecture; a process that dies over it is an outcome.

        Raises:
            HwbenchError: The device is not there, or another mistake of the setup.
        """
        connection = self._running()
        try:
            connection.send(arch)
            answer = connection.recv()
        except (EOFError, OSError):
            process = self._process
            process.join(_STOP_S)
            code = process.exitcode
            self.stop()
            return failed(_death(code), "none")
        if isinstance(answer, BaseException):
            self.stop()
            raise answer
        outcome: Outcome = answer
        if outcome.fatal or self.setup.peak_memory:
            self.stop()
        return outcome

    def stop(self) -> None:
        """End the process, if one runs."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if connection is not None:
            connection.close()
        if process is not None:
            process.terminate()
            process.join(_STOP_S)
            if process.is_alive():
                process.kill()
                process.join()

    def _running(self) -> Connection:
        if self._connection is not None:
            return self._connection
        context = multiprocessing.get_context("spawn")
        connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, self.setup, self._opener), daemon=True
        )
        self._process.start()
        theirs.close()
        self.starts += 1
        self._connection = connection
        try:
            answer = connection.recv()
        except (EOFError, OSError):
            self._process.join(_STOP_S)
            code = self._process.exitcode
            self.stop()
            raise HwbenchError(f"The measuring process could not start: {_death(code)}.") from None
        if isinstance(answer, BaseException):
            self.stop()
            raise answer
        self._card = answer
        return connection


def _serve(connection: Connection, setup: Setup, opener: Callable[[Setup], Bench]) -> None:
    """Answer requests until the other end goes away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    try:
        bench = _opened(opener, setup)
        connection.send(bench.card())
        while True:
            connection.send(_measured(bench, connection.recv()))
    except (EOFError, BrokenPipeError):
        return
    except HwbenchError as error:
        connection.send(error)


def _opened(opener: Callable[[Setup], Bench], setup: Setup) -> Bench:
    try:
        return opener(setup)
    except RuntimeError as error:  # torch's, whatever a driver says
        reason = f"The measuring process could not start: {_first_line(error)}."
        raise HwbenchError(reason) from None


def _measured(bench: Bench, arch: Architecture) -> Outcome:
    try:
        return bench.measure(arch)
    except RuntimeError as error:
        return failed(_first_line(error), "none")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:160].rstrip(" .")


def _end_with(sentinel: int) -> None:
    """End this process, whatever it is doing, once its parent has ended."""
    wait_for([sentinel])
    os._exit(1)


def _death(code: int | None) -> str:
    if code is None:
        return "the measuring process stopped answering"
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        hint = ", as the kernel does when memory runs out" if -code == signal.SIGKILL else ""
        return f"the measuring process was ended by {name}{hint}"
    return f"the measuring process ended with status {code}"
