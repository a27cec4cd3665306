"""A thread that does a bookie's disk work, so that its event loop never waits for the disk.

A pool of one thread would do the same, but would take as long to pass work there and back as a good
disk takes for a sync.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


class DiskThread:
    """Runs calls one after the other, in order.  It does not keep its process alive."""

    def __init__(self, name: str) -> None:
        self._calls = SimpleQueue[Callable[[], None] | None]()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[], T], /) -> T:
        """Returns and raises what the call does.  A cancelled call still runs to its end."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._calls.put(partial(_do, call, loop, done))
        return await done

    def join(self) -> None:
        """Wait for all calls made so far; the thread takes no more."""
        self._calls.put(None)
        self._thread.join()

    def _work(self) -> None:
        while work := self._calls.get():
            work()


def _do(call: Callable[[], T], loop: asyncio.AbstractEventLoop, done: "asyncio.Future[T]") -> None:
    try:
        finish = partial(done.set_result, call())
    except BaseException as error:  # noqa: BLE001 - raised to the caller, whatever it is
        finish = partial(done.set_exception, error)
    with suppress(RuntimeError):  # The loop is closed, so no caller waits.
        loop.call_soon_threadsafe(_finish, done, finish)


def _finish(done: "asyncio.Future[T]", finish: Callable[[], None]) -> None:
    if not done.cancelled():
        finish()
