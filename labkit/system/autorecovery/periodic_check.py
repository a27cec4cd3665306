"""A check that the auditor repeats, and when it is due.

In BookKeeper: `replication/Auditor.java` (`scheduleCheckAllLedgersTask` and its like).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf

from labkit.system.autorecovery.underreplication import NEVER_MS


@dataclass(slots=True)
class PeriodicCheck:
    """A row of the auditor's table; times are those of the event loop, in seconds.

    With an interval of 0 it is off; without `last_ms` it then runs once, when the auditor begins.
    """

    interval_s: int
    run: Callable[[], Awaitable[bool]]
    """Does the check; False if it was interrupted: then it starts over at the next opportunity."""
    last_ms: Callable[[], Awaitable[int]] | None = None
    """When any auditor made it last, in ms since 1970, or `NEVER_MS`; None if that is not noted."""
    due_at: float = inf

    async def begin(self, now: Callable[[], float], wall_clock_ms: Callable[[], int]) -> None:
        """Set when it is due, by when an earlier auditor made it last."""
        if self.last_ms is None:
            self.due_at = now()
            return
        last_ms = await self.last_ms()
        if self.interval_s:
            # The wall clocks of two machines may differ: an interval never becomes longer.
            ago_s = max(0.0, (wall_clock_ms() - last_ms) / 1000)
            self.due_at = now() + (0 if last_ms == NEVER_MS else max(0, self.interval_s - ago_s))

    def done(self, now: float) -> None:
        """It was made; the next one is due after the interval."""
        self.due_at = now + self.interval_s if self.interval_s else inf
