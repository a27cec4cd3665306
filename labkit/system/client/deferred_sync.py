"""A writer whose entries are acknowledged before they are synced, which saves syncs.

A bookie acknowledges an entry as soon as it is written, so a power failure may lose the entry.
LastAddConfirmed is the last entry that readers may read, and `close` makes it the last entry of the
ledger. So LastAddConfirmed advances only after `force` has made every bookie of the ensemble sync.

A failed bookie cannot be replaced: it may have lost entries that it acknowledged but never synced,
and the writer no longer has them. So the writer ends if a bookie fails. It also ends if it lost the
connection to a bookie between an add and the force, because the bookie may have restarted and lost
entries. (BookKeeper does not check this.)

In BookKeeper: `client/api/WriteFlag.java` (DEFERRED_SYNC), `client/ForceLedgerOp.java`.
"""

import asyncio
from functools import partial

from labkit.system.client.context import ClientContext
from labkit.system.client.ensemble_change import EnsembleChange
from labkit.system.client.pending_add import PendingAdd
from labkit.system.client.protocol.per_channel_bookie_client import PerChannelBookieClient
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import NO_ENTRY_ID
from labkit.system.model.errors import BKException, BKWriteException
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb


class _NoEnsembleChange(EnsembleChange):
    def start(self, *, at_once: bool = False) -> None:
        names = ", ".join(self.failed.values())
        self.writer.end(
            BKWriteException(
                f"ledger {self.writer.ledger_id}: {names} failed ({self.last_failure}), and with"
                " deferred sync a bookie cannot be replaced; create a new ledger"
            )
        )


class DeferredSyncWriter(LedgerWriter):
    """A `LedgerWriter` whose adds complete when they have Qa acknowledgements. The entries are
    confirmed by the next `force`.

    Invariant: every bookie of the ensemble has synced all entries up to LastAddConfirmed.
    """

    ensemble_change_class = _NoEnsembleChange

    def __init__(
        self, ledger_id: int, metadata: LedgerMetadata, version: int, context: ClientContext
    ) -> None:
        super().__init__(ledger_id, metadata, version, context)
        self.last_add_acknowledged = NO_ENTRY_ID
        """This entry and all earlier ones have Qa acknowledgements."""
        self._length_acknowledged = 0
        self._v3_channels = [context.bookie_client.get_v3(name) for name in self.ensemble]
        self._connections: dict[int, int] = {}
        """The number of the connection on which the first acknowledgement since the last `force`
        arrived, keyed by ensemble index.
        """
        # Only one `force` may run at a time. A second one would not check the connections that the
        # first one has already removed from `_connections`.
        self._force_lock = asyncio.Lock()

    async def force(self) -> None:
        """Make all acknowledged entries durable, and advance LastAddConfirmed to the last one.

        If this writer has ended, raises the error that ended it. If a bookie cannot sync, raises a
        `BKException`; the caller may then call `force` again.
        """
        async with self._force_lock:
            self._check_open()
            last, length = self.last_add_acknowledged, self._length_acknowledged
            if last == self.last_add_confirmed:
                return
            # If further adds are acknowledged during this call, the next call handles them.
            unsynced, self._connections = self._connections, {}
            try:
                await asyncio.gather(
                    *(channel.force_ledger(self.ledger_id) for channel in self._v3_channels)
                )
            except (BKException, asyncio.CancelledError):
                # Keep the older connection of a bookie that has reconnected, because the entries
                # acknowledged on it have not been synced yet.
                self._connections |= unsynced
                raise
            self._end_if_reconnected(unsynced)
            self._check_open()
            lac_before = self.last_add_confirmed
            self.last_add_confirmed, self.length_confirmed = last, length
            for entry_id in range(lac_before + 1, last + 1):
                self.recorder.record("lac.advanced", self.ledger_id, entry_id)

    def _end_if_reconnected(self, connections: dict[int, int]) -> None:
        """End this writer if a bookie may have restarted since it acknowledged entries."""
        for index, connection in connections.items():
            channel = self._v3_channels[index]
            if channel.connection_count != connection:
                self.end(
                    BKWriteException(
                        f"ledger {self.ledger_id}: the connection to {channel.bookie_id} was lost"
                        " between add and force, so entries that it had acknowledged may be lost;"
                        " create a new ledger"
                    )
                )

    def _check_open(self) -> None:
        if self.ended_by is not None:
            raise self.ended_by

    def request_of(self, entry: bytes) -> bytes:
        # Return only the entry. `send` creates the request, because each connection numbers its
        # requests.
        return entry

    def acking_channel(self, index: int) -> PerChannelBookieClient:
        return self._v3_channels[index]

    def send(self, pending: PendingAdd, index: int) -> None:
        channel, entry_id = self._v3_channels[index], pending.entry_id
        if channel.connection is None:
            self.fence_check.check_when_connected(channel)
        if self.recorder.listening:
            self.recorder.record("add.sent", self.ledger_id, entry_id, peer=channel.bookie_id)
        added = channel.add(self.ledger_id, entry_id, pending.request, self.master_key)
        added.add_done_callback(partial(self._added, pending, index))

    def _added(self, pending: PendingAdd, index: int, added: asyncio.Future[pb.Response]) -> None:
        error = added.exception()
        if error is None:
            self._connections.setdefault(index, self._v3_channels[index].connection_count)
        assert error is None or isinstance(error, BKException)
        # Version 2 channels send no adds here; `on_responses` uses them to identify bookies. This
        # is safe because bookies are never replaced here.
        self.on_responses(index, self.channels[index], [pending], error)

    def complete_adds(self) -> None:
        """Complete acknowledged adds in order. They are confirmed only by `force`."""
        while self.pending and self.has_enough_acks(self.pending[0]):
            pending = self.pending.popleft()
            self.last_add_acknowledged = pending.entry_id
            self._length_acknowledged = pending.length
            if not pending.future.done():
                pending.future.set_result(pending.entry_id)
