"""An interrupt reaches the thread that runs a world.

A signal interrupts the main thread alone.  In a notebook that thread waits while the world runs in
another one, so it asks the other one to stop: every event loop of that thread looks here.
"""

import threading
from concurrent import futures
from typing import TypeVar

T = TypeVar("T")

_LOOK_INTERVAL_S = 0.1
_here = threading.local()


class Interrupt:
    """Whether the calls that run in a thread should stop."""

    __slots__ = ("was_asked",)

    def __init__(self) -> None:
        self.was_asked = False

    def reach_this_thread(self) -> None:
        """Be the interrupt of the calling thread from now on."""
        _here.interrupt = self


class OneThreadExecutor(futures.ThreadPoolExecutor):
    """Makes calls in one thread; a shutdown ends what runs there in simulated worlds."""

    def __init__(self) -> None:
        self._interrupt = Interrupt()
        super().__init__(1, initializer=self._interrupt.reach_this_thread)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the thread, and wait for its end."""
        self._interrupt.was_asked = True
        super().shutdown(wait, cancel_futures=cancel_futures)


def awaited(result: "futures.Future[T]") -> T:
    """The result of another thread's or process's call, or its error; an interrupt is raised here.

    A signal that comes just before a wait begins, or that the system gives to another thread, does
    not end the wait, so this looks for signals between short waits.
    """
    while not result.done():
        futures.wait((result,), timeout=_LOOK_INTERVAL_S)
    return result.result()


_NEVER = Interrupt()


def interrupt_of_this_thread() -> Interrupt:
    """The interrupt that reaches this thread; in the main thread a signal does."""
    found: Interrupt = getattr(_here, "interrupt", _NEVER)
    return found
