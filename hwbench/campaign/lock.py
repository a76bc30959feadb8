"""One campaign a store at a time, by a lock that ends with the process that holds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hwbench.errors import InvalidStore
from hwbench.records import files
from hwbench.records.schema import CAMPAIGNS


@contextmanager
def only_campaign(store: Path) -> Iterator[None]:
    """Hold a store for one campaign.

    The lock is on the folder of campaigns, so that others may append to the store.

    Raises:
        InvalidStore: Another process runs a campaign on the store.
    """
    folder = store / CAMPAIGNS
    folder.mkdir(exist_ok=True)
    with ExitStack() as held:
        try:
            held.enter_context(files.locked(folder, wait=False))
        except BlockingIOError:
            raise InvalidStore(
                f"Another process measures into {store}; wait for it, or give another store."
            ) from None
        yield
