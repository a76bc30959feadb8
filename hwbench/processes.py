"""Processes of hwbench's own: how they start sooner, share work out, keep apart, end together."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Made = TypeVar("Made")

_own = False


def start_sooner() -> None:
    """Say that this process is hwbench's own, so that it may import xgboost alone."""
    global _own  # noqa: PLW0603 - it is a fact about the process
    _own = True


def import_xgboost_alone() -> None:
    """Import xgboost without scikit-learn; in a process that is not hwbench's own, do nothing.

    xgboost imports scikit-learn, if it is there, for its estimators alone. hwbench uses none of
    them, and the import takes longer than all else before a search begins. Anything may import
    scikit-learn afterwards; but elsewhere `xgboost.XGBRegressor` must work.
    """
    if not _own or "sklearn" in sys.modules:
        return
    sys.modules["sklearn"] = None  # type: ignore[assignment]  # to import, a module that is missing
    try:
        import_module("xgboost")
    finally:
        del sys.modules["sklearn"]


def shared_out(
    work: Callable[..., Made], arguments: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[Made]:
    """Call a function of a module for each tuple of arguments, in several processes.

    The processes start clean. They end with this one, however it ends, and with the first error;
    an interrupt from the keyboard reaches this one alone.

    Args:
        work: What to call; it and its arguments are pickled.
        arguments: One tuple a call.
        jobs: Processes, at least 1; with 1 the work is done in this one.

    Yields:
        The results as they come.

    Raises:
        KeyboardInterrupt: The work was interrupted.
        Exception: What a call raised.
    """
    if jobs == 1:
        for each in arguments:
            yield work(*each)
        return
    if not arguments:
        return
    # Every command starts by this module, and few share anything out.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    # Forked processes would inherit the locks of threads that numerical libraries have started.
    context = multiprocessing.get_context("spawn")
    watched, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(min(jobs, len(arguments)), context, _begin, (watched,))
    try:
        with _interrupts_wait():
            waiting = [pool.submit(work, *each) for each in arguments]
        for done in as_completed(waiting):
            yield done.result()
    except BaseException:
        held.close()  # ends the processes, whatever they are at
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    else:
        pool.shutdown()
    finally:
        held.close()
        watched.close()


def held_alone(file: IO[Any] | int, *, wait: bool = False) -> bool:
    """Whether this process now holds an open file for itself, until it closes it.

    The lock is the kernel's: a process that was killed holds nothing. On a system without `fcntl`
    nothing is locked.

    Args:
        file: The file, or the descriptor of one or of a folder.
        wait: Whether to wait for another process that holds it.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Keep SIGINT until later, and from processes that are started meanwhile altogether."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(watched: Connection) -> None:
    """What a process does before its first call."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    start_sooner()
    threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()


def _end_with_parent(watched: Connection) -> None:
    # Nothing is ever sent: the other end is closed, by the parent or with it.
    with suppress(EOFError, OSError):
        watched.recv_bytes()
    os._exit(1)
