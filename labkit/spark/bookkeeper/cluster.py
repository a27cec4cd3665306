"""A client of the cluster for as long as a task takes: it reads, and never recovers a ledger.

So it never fences a writer.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from labkit.client.bookkeeper import BookKeeper
from labkit.client.placement import in_name_order
from labkit.live.clock import trace_clock_us
from labkit.live.new_client import new_client
from labkit.live.zookeeper_store import ZooKeeperStore
from labkit.metadata.place import MetadataPlace
from labkit.metadata.store import MetadataUnavailableError
from labkit.model.errors import BKIncorrectParameterException, LabkitError
from labkit.spark.bookkeeper.options import OptionError
from labkit.trace.recorder import Recorder

T = TypeVar("T")


@asynccontextmanager
async def connected(place: MetadataPlace) -> AsyncIterator[BookKeeper]:
    """A client of the cluster whose metadata is at `place`.  Raises `OptionError`."""
    try:
        store = ZooKeeperStore(place)
        await store.start()
    except (MetadataUnavailableError, BKIncorrectParameterException) as error:
        raise OptionError(f"option 'zookeeper': {error}") from None
    recorder = Recorder("spark", trace_clock_us)
    # The client creates no ledgers, so any placement policy will do.
    client = new_client(store, recorder, placement=in_name_order)
    try:
        yield client
    finally:
        client.close()
        await store.stop()


def without_traceback(work: Callable[[], T]) -> T:
    """Return what `work` returns.  Its errors are raised without a traceback, which Spark would
    print before the message: the message is all that a notebook's reader needs.
    """
    try:
        return work()
    except LabkitError as error:
        raise error.with_traceback(None) from None
