"""Work that is done when there is need, and at intervals in case the need was missed.

In Pulsar: the timers of `broker/service/BrokerService.java`, the executor of
`managed-ledger/.../ManagedLedgerImpl.java`.
"""

import asyncio
from collections.abc import Awaitable, Callable


class Upkeep:
    """Runs `work`, never twice at once, between `begin` and `stop`."""

    def __init__(self, work: Callable[[], Awaitable[None]], interval_ms: int) -> None:
        self._work = work
        self._interval_s = interval_ms / 1000
        self._runs = False
        self._is_wanted = False
        self._task: asyncio.Task[None] | None = None
        self._next: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """From now on."""
        self._runs = True
        self._later()

    def want(self) -> None:
        """There may be need: soon, or once more behind what is being done."""
        self._is_wanted = True
        if self._task is None and self._runs:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Begin nothing more."""
        self._runs = False
        if self._next is not None:
            self._next.cancel()

    async def _run(self) -> None:
        # What is wanted during the work may concern what the work has passed already.
        while self._is_wanted:
            self._is_wanted = False
            await self._work()
        self._task = None

    def _later(self) -> None:
        if self._runs:
            self._next = asyncio.get_running_loop().call_later(self._interval_s, self._due)

    def _due(self) -> None:
        self.want()
        self._later()
