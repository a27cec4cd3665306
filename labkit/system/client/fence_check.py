"""Counts an acknowledgement only if the bookie cannot have forgotten that the ledger was fenced.

A bookie forgets a fence if its disks are emptied or restored from a backup, or if it does not
journal fences. It then accepts adds from the old writer, although a recovery may already have
closed the ledger without these entries. No reader would ever receive them.

But a bookie forgets nothing while its process is running, and a connection belongs to one process.
Recovery stores IN_RECOVERY before it fences the bookies. So if the metadata was still OPEN after
a connection was made, the bookie was not fenced before that. If it is fenced later, it either
honours the fence or stops responding on this connection. The rule:

    an acknowledgement counts if the metadata was OPEN after its connection was made

An acknowledgement also counts if its connection was made up to 5 ms after the metadata was OPEN.
Recovering the ledger and restarting a fenced bookie takes longer than that. This exception saves a
read of the metadata for the first connections of a new ledger.

The metadata is read once for each new connection. The check calls `sync` first, because a ZooKeeper
server that lags behind the others could still return OPEN. A watch would not be enough, because it
may fire after the acknowledgement has arrived. The bookie's cookie would not be enough either,
because it changes only if the disks are emptied. Creating the ledger, and every ensemble change,
also proves that it is OPEN.

BookKeeper has no such check: its writer counts every acknowledgement (BookKeeper issue 4812).
"""

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf

from labkit.system.client.protocol.per_channel_bookie_client import PerChannelBookieClient
from labkit.system.client.writer_interface import WriterInterface
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import BKLedgerFencedException, LabkitError
from labkit.system.model.ledger import LedgerState

_TOO_SHORT_FOR_A_RESTART_S = 0.005
"""Recovering a ledger and then restarting one of the fenced bookies takes longer than this."""
_RETRY_S = 1.0


class FenceCheck:
    """Holds back a writer's acknowledgements until the metadata has been read and is still OPEN."""

    def __init__(self, writer: WriterInterface, manager: LedgerManager) -> None:
        self._writer = writer
        self._manager = manager
        self._loop = asyncio.get_running_loop()
        self._open_at = -inf
        """The metadata was OPEN at some moment after this time."""
        self._expected: dict[PerChannelBookieClient, None] = {}
        """Channels that are connecting (an ordered set)."""
        self._held: list[tuple[float, Callable[[], None]]] = []
        """For each held response: the time at which its connection was made, and a function that
        counts the response.
        """
        self._task: asyncio.Task[None] | None = None

    def passed(self, channel: PerChannelBookieClient) -> bool:
        """Return whether acknowledgements that arrive on this channel's connection count."""
        return channel.connected_at <= self._open_at + _TOO_SHORT_FOR_A_RESTART_S

    def check_when_connected(self, channel: PerChannelBookieClient) -> None:
        """Read the metadata as soon as this channel is connected."""
        if channel not in self._expected:
            self._expected[channel] = None
            channel.after_connecting(partial(self._connected, channel))

    def hold(self, channel: PerChannelBookieClient, count: Callable[[], None]) -> None:
        """Call `count` as soon as this connection has passed the check."""
        self._held.append((channel.connected_at, count))
        self._start()

    def saw_open(self, requested_at: float) -> None:
        """Record that the metadata was OPEN at some moment after `requested_at`. Count the held
        acknowledgements that arrived on connections made before `requested_at`.
        """
        self._open_at = max(self._open_at, requested_at)
        held, self._held = self._held, []
        for connected_at, count in held:
            if connected_at <= requested_at:
                count()
            else:
                self._held.append((connected_at, count))

    def _connected(self, channel: PerChannelBookieClient) -> None:
        del self._expected[channel]
        if channel.connection is not None and not self.passed(channel):
            self._start()

    def _start(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        has_read = False
        while (self._held or not has_read) and not self._writer.is_ended:
            requested_at = self._loop.time()
            try:
                # Send both requests without waiting: the metadata store handles a session's
                # requests in order.
                _, (metadata, _) = await asyncio.gather(
                    self._manager.store.sync(), self._manager.read(self._writer.ledger_id)
                )
                has_read = True
                if metadata.state is not LedgerState.OPEN:
                    raise BKLedgerFencedException(
                        f"ledger {self._writer.ledger_id} was recovered or closed by another"
                        " client, or another client is recovering it"
                    )
            except MetadataUnavailableError:
                await asyncio.sleep(_RETRY_S)
            except LabkitError as error:
                self._writer.end(error)
            else:
                self.saw_open(requested_at)
        self._task = None


class NoFenceCheck(FenceCheck):
    """Counts every acknowledgement. Recovery uses this class, because bookies accept recovery adds
    despite the fence.
    """

    def passed(self, channel: PerChannelBookieClient) -> bool:
        return True
