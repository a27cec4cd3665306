"""An interrupt reaches the thread that runs a world.

A signal interrupts the main thread alone.  In a notebook that thread waits while the world runs in
another one, so it asks the other one to stop: every event loop of that thread looks here.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_here = threading.local()


class Interrupt:
    """Whether the calls that run in a thread should stop."""

    __slots__ = ("was_asked",)

    def __init__(self) -> None:
        self.was_asked = False

    def reaches(self, call: Callable[[], T]) -> T:
        """Make the call, in whose thread this is the interrupt from now on."""
        _here.interrupt = self
        return call()


_NEVER = Interrupt()


def interrupt_of_this_thread() -> Interrupt:
    """The interrupt that reaches this thread; in the main thread a signal does."""
    found: Interrupt = getattr(_here, "interrupt", _NEVER)
    return found
