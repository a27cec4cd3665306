"""Polls a condition that does not trigger an event when it becomes true.

In BookKeeper: tasks that a `ScheduledExecutorService` runs at a fixed rate.
"""

import asyncio
from collections.abc import Callable


class PeriodicCheck:
    """Calls `holds` at intervals until it returns True, and then calls `act`.

    `holds` must not have side effects, because a simulated event loop skips calls if nothing has
    changed.
    """

    def __init__(
        self, interval_s: float, holds: Callable[[], bool], act: Callable[[], None]
    ) -> None:
        self.interval_s = interval_s
        self.holds = holds
        self._act = act

    def begin(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.interval_s, self)

    def end(self) -> None:
        self._timer.cancel()

    def __call__(self) -> None:
        if self.holds():
            self._act()
        else:
            self.begin()
