"""Looking at a condition again and again, where nothing tells when it begins to hold.

In BookKeeper: tasks of a `ScheduledExecutorService` at a fixed rate.
"""

import asyncio
from collections.abc import Callable


class Poll:
    """Calls `act` once `holds`, which is asked at intervals and has no effect, is found true.

    An event loop may skip what does nothing: a simulated one knows that nothing has changed since
    it asked last.
    """

    def __init__(
        self, interval_s: float, holds: Callable[[], bool], act: Callable[[], None]
    ) -> None:
        self.interval_s = interval_s
        self.holds = holds
        self._act = act

    def begin(self) -> None:
        """Ask when the interval has passed for the first time."""
        self._timer = asyncio.get_running_loop().call_later(self.interval_s, self)

    def end(self) -> None:
        """Ask no more."""
        self._timer.cancel()

    def __call__(self) -> None:
        """The interval has passed."""
        if self.holds():
            self._act()
        else:
            self.begin()
