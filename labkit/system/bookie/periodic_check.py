"""Polls at regular intervals for conditions that trigger no event.

In BookKeeper: tasks that a `ScheduledExecutorService` runs at a fixed rate.
"""

import asyncio
from collections.abc import Callable


class PeriodicCheck:
    """Lets a task wait until `holds` returns True or `end_wait` is called. `holds` is called at
    regular intervals. It must not have side effects, because a simulated event loop skips calls if
    nothing has changed.
    """

    def __init__(self, interval_s: float, holds: Callable[[], bool]) -> None:
        self.interval_s = interval_s
        self.holds = holds
        self._is_over = asyncio.Event()

    def end_wait(self) -> None:
        """End the current call of `wait`. If there is no such call, the next one returns
        immediately.
        """
        self._is_over.set()

    async def wait(self) -> None:
        self._begin_interval()
        try:
            await self._is_over.wait()
        finally:
            # The next interval starts only after the caller has done its work. If the wait was
            # cancelled, the timer would otherwise restart itself forever.
            self._timer.cancel()
        self._is_over.clear()

    def __call__(self) -> None:
        if self.holds():
            self._is_over.set()
        else:
            self._begin_interval()

    def _begin_interval(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.interval_s, self)
