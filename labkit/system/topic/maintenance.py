"""Runs maintenance work when triggered, and at intervals in case a trigger was missed.

In Pulsar: the timers of `broker/service/BrokerService.java`, the executor of
`managed-ledger/.../ManagedLedgerImpl.java`.
"""

import asyncio
from collections.abc import Awaitable, Callable


class MaintenanceTask:
    """Runs `work` repeatedly between `begin` and `stop`, but only one run at a time."""

    def __init__(self, work: Callable[[], Awaitable[None]], interval_ms: int) -> None:
        self._work = work
        self._interval_s = interval_ms / 1000
        self._runs = False
        self._is_wanted = False
        self._task: asyncio.Task[None] | None = None
        self._next: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._runs = True
        self._later()
        if self._is_wanted:
            self.trigger()

    def trigger(self) -> None:
        """Schedule the work to run after `begin` and after any run in progress."""
        self._is_wanted = True
        if self._task is None and self._runs:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Do not start any more runs. A run in progress continues."""
        self._runs = False
        if self._next is not None:
            self._next.cancel()

    async def _run(self) -> None:
        try:
            # Run again if triggered during a run, which may have started before the work arrived.
            while self._is_wanted:
                self._is_wanted = False
                await self._work()
        finally:
            self._task = None

    def _later(self) -> None:
        if self._runs:
            self._next = asyncio.get_running_loop().call_later(self._interval_s, self._due)

    def _due(self) -> None:
        self.trigger()
        self._later()
