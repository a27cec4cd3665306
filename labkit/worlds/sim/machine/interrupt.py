"""Delivers an interrupt to the thread that runs a world.

A signal interrupts only the main thread. In a notebook, the main thread waits while the world runs
in another thread. The main thread therefore asks the other thread to stop, and every event loop in
that thread checks for this request.
"""

import threading
from concurrent import futures
from typing import TypeVar

T = TypeVar("T")

_CHECK_INTERVAL_S = 0.1
_thread_local = threading.local()


class Interrupt:
    """A request to stop the calls that are running in a thread."""

    __slots__ = ("was_asked",)

    def __init__(self) -> None:
        self.was_asked = False

    def apply_to_this_thread(self) -> None:
        _thread_local.interrupt = self


class OneThreadExecutor(futures.ThreadPoolExecutor):
    """An executor with a single thread. `shutdown` stops the simulated worlds that run in it."""

    def __init__(self) -> None:
        self._interrupt = Interrupt()
        super().__init__(1, initializer=self._interrupt.apply_to_this_thread)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:

        self._interrupt.was_asked = True
        super().shutdown(wait, cancel_futures=cancel_futures)


def awaited(result: "futures.Future[T]") -> T:
    """Return the result of a call in another thread or process, or raise its exception.

    An interrupt during the wait is also raised here. A signal does not interrupt the wait if it
    arrives just before the wait starts, or if the operating system delivers it to another thread.
    This function therefore waits in short intervals and checks for signals in between.
    """
    while not result.done():
        futures.wait((result,), timeout=_CHECK_INTERVAL_S)
    return result.result()


_NEVER = Interrupt()


def interrupt_of_this_thread() -> Interrupt:
    """Return this thread's interrupt.

    In the main thread, this interrupt is never set, because the main thread receives signals
    itself.
    """
    found: Interrupt = getattr(_thread_local, "interrupt", _NEVER)
    return found
