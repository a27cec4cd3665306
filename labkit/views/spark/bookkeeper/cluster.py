"""A client of the cluster for as long as a task takes: it reads, and never recovers a ledger.

So it never fences a writer.  As it only reads, it can repeat every request: it retries for a while
when ZooKeeper or bookies cannot be reached, because a query should survive their restart.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.placement.placement import in_name_order
from labkit.system.metadata.place import MetadataPlace
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
"""The errors of bookies that may be there again soon.  A bookie that is not registered is one of
them: all bookies lose their registration when ZooKeeper hangs for longer than their sessions.
"""

_PAUSE_S = 0.2
"""Between two attempts."""


class RetryingStore(ZooKeeperStore):
    """A session whose reads are repeated for up to `retry_s` while ZooKeeper cannot be reached."""

    def __init__(self, place: MetadataPlace, retry_s: float) -> None:
        super().__init__(place)
        self._retry_s = retry_s

    async def get(self, path: str, on_change: OnChange | None = None) -> tuple[bytes, int]:
        get = super().get
        return await self._retried(lambda: get(path, on_change))

    async def exists(self, path: str, on_change: OnChange | None = None) -> bool:
        exists = super().exists
        return await self._retried(lambda: exists(path, on_change))

    async def children(self, path: str, on_change: OnChange | None = None) -> list[str]:
        children = super().children
        return await self._retried(lambda: children(path, on_change))

    async def _retried(self, read: Callable[[], Awaitable[T]]) -> T:
        try:
            # It also ends an attempt: ZooKeeper may accept the request and never answer it.
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
                f"ZooKeeper at {self.place.servers} could not be reached for {self._retry_s:g} s;"
                " is it running? Option 'retrySeconds' sets how long a query waits for it"
            ) from None


async def retried(
    read: Callable[[], Awaitable[T]], errors: tuple[type[BKException], ...], retry_s: float
) -> T:
    """Return what `read` returns.  While it raises one of `errors`, call it again for up to
    `retry_s`, then raise the last error.
    """
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
    """A client of the cluster that the options name.  Raises `OptionError`."""
    try:
        store = RetryingStore(options.metadata, options.retry_s)
        await store.start(options.retry_s)
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


def without_traceback(work: Callable[P, T]) -> Callable[P, T]:
    """Raise labkit's errors without the frames below this one, which Spark would print before the
    message: the message is all that a user needs.
    """

    @wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except LabkitError as error:
            raise error.with_traceback(None) from None

    return call
