"""Connects to the cluster for the duration of a task, as a client that only reads.

The client never recovers a ledger, so it never fences a writer. Because it only reads, it can retry
every request while ZooKeeper or bookies are unreachable, so a query survives their restarts.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.placement.placement import in_name_order
from labkit.system.metadata.location import MetadataLocation
from labkit.system.metadata.store import MetadataUnavailableError, OnChange
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKException,
    BKIncorrectParameterException,
    BKTimeoutException,
    LabkitError,
)
from labkit.system.trace.recorder import Recorder
from labkit.views.spark.bookkeeper.options import OptionError, Options
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.new_client import new_client
from labkit.worlds.live.zookeeper.store import SecretNeededError, ZooKeeperStore

P = ParamSpec("P")
T = TypeVar("T")

UNREACHABLE = (BKBookieHandleNotAvailableException, BKTimeoutException)
"""Errors for bookies that may soon be reachable again. This includes unregistered bookies, because
all registrations are lost if ZooKeeper hangs for longer than the session timeout.
"""

_PAUSE_S = 0.2
"""Pause between two attempts."""


class RetryingStore(ZooKeeperStore):
    """A ZooKeeper session that retries reads for up to `retry_s` while ZooKeeper is unreachable."""

    def __init__(self, location: MetadataLocation, retry_s: float) -> None:
        super().__init__(location)
        self._retry_s = retry_s

    async def get(self, path: str, on_change: OnChange | None = None) -> tuple[bytes, int]:
        get = super().get
        return await self._retry(lambda: get(path, on_change))

    async def exists(self, path: str, on_change: OnChange | None = None) -> bool:
        exists = super().exists
        return await self._retry(lambda: exists(path, on_change))

    async def children(self, path: str, on_change: OnChange | None = None) -> list[str]:
        children = super().children
        return await self._retry(lambda: children(path, on_change))

    async def _retry(self, read: Callable[[], Awaitable[T]]) -> T:
        try:
            # The timeout also covers a single attempt, because ZooKeeper may accept a request and
            # never respond.
            async with asyncio.timeout(self._retry_s):
                while True:
                    try:
                        return await read()
                    except SecretNeededError:
                        raise
                    except MetadataUnavailableError:
                        await asyncio.sleep(_PAUSE_S)
        except TimeoutError:
            raise MetadataUnavailableError(
                f"ZooKeeper at {self.location.servers} was unreachable for {self._retry_s:g} s; is"
                " it running? Option 'retrySeconds' sets how long a query waits"
            ) from None


async def retry_read(
    read: Callable[[], Awaitable[T]], errors: tuple[type[BKException], ...], retry_s: float
) -> T:
    """Return the result of `read`, retrying for up to `retry_s` while it raises one of `errors`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + retry_s
    while True:
        try:
            return await read()
        except errors:
            if loop.time() + _PAUSE_S >= deadline:
                raise
        await asyncio.sleep(_PAUSE_S)


@asynccontextmanager
async def connected(options: Options) -> AsyncIterator[BookKeeper]:
    """Connect a client to the cluster given in the options. Raises `OptionError` if that fails."""
    try:
        store = RetryingStore(options.metadata, options.retry_s)
        await store.start(options.retry_s)
    except (MetadataUnavailableError, BKIncorrectParameterException) as error:
        raise OptionError(f"option 'zookeeper': {error}") from None
    recorder = Recorder("spark", trace_clock_us)
    # The client creates no ledgers, so the placement policy does not matter.
    client = new_client(store, recorder, placement=in_name_order)
    try:
        yield client
    finally:
        client.close()
        await store.stop()


def without_traceback(work: Callable[P, T]) -> Callable[P, T]:
    """Strip the traceback from labkit's errors: Spark would print it before the message."""

    @wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except LabkitError as error:
            raise error.with_traceback(None) from None

    return call
