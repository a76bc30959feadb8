"""One campaign a store at a time, by a lock that ends with the process that holds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hwbench.errors import InvalidStore
from hwbench.records.schema import CAMPAIGNS


@contextmanager
def only_campaign(store: Path) -> Iterator[None]:
    """Hold a store for one campaign.

    The lock is the kernel's, on the folder of campaigns: a process that was killed holds nothing.
    On a system without `fcntl` nothing is locked.

    Raises:
        InvalidStore: Another process runs a campaign on the store.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    import os

    folder = store / CAMPAIGNS
    folder.mkdir(exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidStore(
                f"Another process measures into {store}; wait for it, or give another store."
            ) from None
        yield
    finally:
        os.close(handle)
