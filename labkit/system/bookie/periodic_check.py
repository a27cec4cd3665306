"""Checks at intervals whether there is work, for conditions that trigger no event.

In BookKeeper: tasks that a `ScheduledExecutorService` runs at a fixed rate.
"""

import asyncio
from collections.abc import Callable


class PeriodicCheck:
    """Lets a task wait until `holds` returns True, which is called at intervals, or until
    `end_wait` is called.

    `holds` must not have side effects, because a simulated event loop skips calls if nothing has
    changed.
    """

    def __init__(self, interval_s: float, holds: Callable[[], bool]) -> None:
        self.interval_s = interval_s
        self.holds = holds
        self._is_over = asyncio.Event()

    def end_wait(self) -> None:
        """End the current call of `wait` or, if there is none, the next one immediately."""
        self._is_over.set()

    async def wait(self) -> None:
        self._begin_interval()
        await self._is_over.wait()
        # The next interval starts after the work that this wait was for.
        self._timer.cancel()
        self._is_over.clear()

    def __call__(self) -> None:
        if self.holds():
            self._is_over.set()
        else:
            self._begin_interval()

    def _begin_interval(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.interval_s, self)
