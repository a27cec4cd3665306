"""A check that the auditor runs periodically, and when it is due next.

In BookKeeper: `replication/Auditor.java` (`scheduleCheckAllLedgersTask` and similar methods).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf

from labkit.system.autorecovery.underreplication import NEVER_MS


@dataclass(slots=True)
class PeriodicCheck:
    """A check with an interval of 0 is disabled, but if `last_ms` is not set, it runs once, when
    the auditor starts.
    """

    interval_s: int
    run: Callable[[], Awaitable[bool]]
    """Returns False if the check was interrupted and must be repeated as soon as possible."""
    last_ms: Callable[[], Awaitable[int]] | None = None
    """Returns when an auditor last completed the check (ms since 1970, or `NEVER_MS`)."""
    due_at: float = inf
    """When the check is due next, in event loop time."""

    async def begin(self, now: Callable[[], float], wall_clock_ms: Callable[[], int]) -> None:
        """Schedule the first run for the time at which an earlier auditor would have run it."""
        if self.last_ms is None:
            self.due_at = now()
            return
        last_ms = await self.last_ms()
        if self.interval_s:
            # The clocks of two machines may differ, but this must not prolong the interval.
            ago_s = max(0.0, (wall_clock_ms() - last_ms) / 1000)
            self.due_at = now() + (0 if last_ms == NEVER_MS else max(0, self.interval_s - ago_s))

    def reschedule(self, now: float) -> None:
        self.due_at = now + self.interval_s if self.interval_s else inf
