"""Counts an acknowledgement only if the bookie cannot have forgotten that the ledger was fenced.

A fence stops an old writer only as long as the fenced bookies remember it.  One that was emptied
and came back under its id, was restored from a backup, or keeps no journal of its fences has
forgotten it, and stores the old writer's adds.  Recovery has closed the ledger by then, so no
reader ever gets them.

But a bookie forgets nothing while it runs, and a connection leads to one run of it.  Recovery
stores IN_RECOVERY before it fences.  So if the metadata say OPEN at a moment when a connection was
already there, every fence comes later than that moment, and the bookie at its other end either
honours the fence or answers no more.  Therefore:

    an acknowledgement counts once the metadata, read after its connection was made, said OPEN

The check calls `sync` before it reads them: a ZooKeeper server that lags behind the others could
still return OPEN after the state has changed.  A watch would not do: its notification may arrive
after the acknowledgement.  Nor would the bookie's cookie: only emptied disks need a new one.

A read is needed once for each new connection, and never for an add: creating the ledger and each
ensemble change also show that it is OPEN, so the connections that exist by then are known.

BookKeeper has no such check: its writer counts every acknowledgement (BookKeeper issue 4812).
"""

import asyncio
from collections.abc import Callable
from functools import partial

from labkit.system.client.protocol.per_channel_bookie_client import PerChannelBookieClient
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import BKLedgerFencedException, LabkitError
from labkit.system.model.ledger import LedgerState

_FASTEST_RETURN_S = 0.005
"""The shortest time in which a client can recover a ledger and a fenced bookie can then start
again. A new ledger's first connections are made sooner after its creation, so they need no read.
"""
_RETRY_S = 1.0


class FenceCheck:
    """Holds back acknowledgements of one writer until the metadata have said OPEN.

    `end` ends the writer; `is_ended` says whether it has ended.
    """

    def __init__(
        self,
        ledger_id: int,
        manager: LedgerManager,
        end: Callable[[LabkitError], None],
        is_ended: Callable[[], bool],
    ) -> None:
        self._ledger_id = ledger_id
        self._manager = manager
        self._end = end
        self._is_ended = is_ended
        self._loop = asyncio.get_running_loop()
        self._open_at = self._loop.time()
        """When the metadata are known to have said OPEN."""
        self._expected: dict[PerChannelBookieClient, None] = {}
        """Bookies whose next connection will need a read of the metadata."""
        self._held: list[tuple[float, Callable[[], None]]] = []
        """When the connection of some acknowledgements was made, and what counts them."""
        self._task: asyncio.Task[None] | None = None

    def passed(self, connection: PerChannelBookieClient) -> bool:
        """Whether the metadata said OPEN after this connection was made."""
        return connection.connected_at <= self._open_at + _FASTEST_RETURN_S

    def expect(self, connection: PerChannelBookieClient) -> None:
        """An add waits for this connection: read the metadata when it is made, so that the answer
        is there before the acknowledgement.
        """
        if connection not in self._expected:
            self._expected[connection] = None
            connection.after_connecting(partial(self._connected, connection))

    def hold(self, connection: PerChannelBookieClient, count: Callable[[], None]) -> None:
        """Call `count` when the connection has passed; if the ledger is no longer OPEN, end the
        writer instead.
        """
        self._held.append((connection.connected_at, count))
        self._start()

    def found_open(self, asked_at: float) -> None:
        """The answer to a request sent at `asked_at` shows that the ledger was OPEN."""
        self._open_at = asked_at
        held, self._held = self._held, []
        for connected_at, count in held:
            if connected_at <= asked_at:
                count()
            else:
                self._held.append((connected_at, count))

    def _connected(self, connection: PerChannelBookieClient) -> None:
        del self._expected[connection]
        if connection.connection is not None and not self.passed(connection):
            self._start()

    def _start(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        is_answered = False
        while (self._held or not is_answered) and not self._is_ended():
            asked_at = self._loop.time()
            try:
                # At once, one behind the other: the store answers a session in order.
                _, (metadata, _) = await asyncio.gather(
                    self._manager.store.sync(), self._manager.read(self._ledger_id)
                )
                is_answered = True
                if metadata.state is not LedgerState.OPEN:
                    raise BKLedgerFencedException(
                        f"ledger {self._ledger_id}: another client recovers it, or has closed it"
                    )
            except MetadataUnavailableError:
                await asyncio.sleep(_RETRY_S)
            except LabkitError as error:
                self._end(error)
            else:
                self.found_open(asked_at)
        self._task = None


class NoFenceCheck(FenceCheck):
    """Counts every acknowledgement: for recovery, whose adds pass the fence."""

    def passed(self, connection: PerChannelBookieClient) -> bool:
        return True
