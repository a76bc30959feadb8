"""Work shared out over processes that start clean, in any order of completion."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

Made = TypeVar("Made")


def shared_out(
    work: Callable[..., Made], arguments: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[Made]:
    """Call a function of a module for each tuple of arguments, in several processes.

    Args:
        work: What to call; it and its arguments are pickled.
        arguments: One tuple a call.
        jobs: Processes; with 1 the work is done in this one.

    Yields:
        The results as they come.

    Raises:
        KeyboardInterrupt: After the calls that have begun were waited for no longer.
    """
    if jobs == 1:
        for each in arguments:
            yield work(*each)
        return
    if not arguments:
        return
    # Forked processes would inherit the locks of threads that numerical libraries have started.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(arguments)), mp_context=context)
    try:
        waiting = [pool.submit(work, *each) for each in arguments]
        for done in as_completed(waiting):
            yield done.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
