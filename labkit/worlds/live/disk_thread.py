"""A thread for a bookie's disk work, so that the event loop never waits for the disk.

A `ThreadPoolExecutor` with one worker would do the same, but submitting a call and getting the
result back takes as long as a sync on a fast disk.
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
    """Runs calls one at a time, in order, in a daemon thread."""

    def __init__(self, name: str) -> None:
        self._calls = SimpleQueue[Callable[[], None] | None]()
        self._unreported: list[BaseException] = []
        """Exceptions of calls that have not been raised to their callers."""
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[], T], /) -> T:
        """Run the call in the thread and return its result or raise its exception.

        If this coroutine is cancelled, the call still runs to completion, and `join` raises its
        exception.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._calls.put(partial(self._do, call, loop, done))
        try:
            return await done
        except Exception as error:
            self._unreported.remove(error)
            raise

    def join(self) -> None:
        """Wait until all queued calls have run, then end the thread.

        If a call failed after its caller had been cancelled, raises its exception: the disk has
        failed, so nothing more may be written to it.
        """
        self._calls.put(None)
        self._thread.join()
        for error in self._unreported:
            raise error

    def _work(self) -> None:
        while work := self._calls.get():
            work()

    def _do(
        self, call: Callable[[], T], loop: asyncio.AbstractEventLoop, done: "asyncio.Future[T]"
    ) -> None:
        try:
            finish = partial(done.set_result, call())
        except BaseException as error:  # noqa: BLE001 - raised to the caller, whatever it is
            self._unreported.append(error)
            finish = partial(done.set_exception, error)
        with suppress(RuntimeError):  # The loop is closed, so no caller is waiting.
            loop.call_soon_threadsafe(_finish, done, finish)


def _finish(done: "asyncio.Future[T]", finish: Callable[[], None]) -> None:
    if not done.cancelled():
        finish()
