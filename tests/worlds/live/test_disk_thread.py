"""Tests the thread that does a bookie's disk work."""

import asyncio
import errno
import threading
from collections.abc import Callable
from functools import partial

import pytest

from labkit.worlds.live.disk_thread import DiskThread


async def test_calls_are_done_in_order_and_off_the_loop() -> None:
    thread, done = DiskThread("disk"), list[int]()
    await asyncio.gather(*(thread.run(partial(done.append, number)) for number in range(100)))
    assert done == list(range(100))
    assert await thread.run(threading.get_ident) != threading.get_ident()
    thread.join()


async def test_the_error_of_a_call_is_raised_to_its_caller_and_the_thread_goes_on() -> None:
    thread = DiskThread("disk")
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)
    assert await thread.run(lambda: 7) == 7
    thread.join()


async def cancelled(thread: DiskThread, work: Callable[[], object]) -> asyncio.Task[object]:
    """Return the task that requested the work and was cancelled while it was being done."""
    asked = asyncio.create_task(thread.run(work))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait([asked])
    return asked


async def test_join_waits_for_all_calls_even_cancelled_ones() -> None:
    thread, may_end, ended = DiskThread("disk"), threading.Event(), list[bool]()

    def work() -> None:
        may_end.wait()
        ended.append(True)

    asked = await cancelled(thread, work)
    may_end.set()
    thread.join()
    assert asked.cancelled()
    assert ended == [True]


async def test_join_raises_the_error_of_a_call_whose_caller_was_cancelled() -> None:
    thread, may_end = DiskThread("disk"), threading.Event()

    def fail() -> None:
        may_end.wait()
        raise OSError(errno.EIO, "the sync has failed")

    await cancelled(thread, fail)
    may_end.set()
    with pytest.raises(OSError, match="the sync has failed"):
        thread.join()
