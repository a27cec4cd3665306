"""A writer whose entries are durable only after a force: fewer syncs, and a promise that waits.

A bookie acknowledges an entry once it is written, before the sync.  So an acknowledged entry may be
lost with the power, and LastAddConfirmed, up to which readers read and which closes the ledger,
stays where it is until `force` has synced every bookie of the ensemble.

A bookie that fails cannot be replaced: entries that it acknowledged and never synced are not kept,
so they cannot be sent again.  Then the writer ends.  It also ends when a bookie was lost between
add and force, even if it is back: what it forces now may not be what it had acknowledged.
(BookKeeper trusts it.)

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
    """The writer ends: what was never synced cannot be sent again."""

    def start(self, *, at_once: bool = False) -> None:
        names = ", ".join(self.failed.values())
        self.ledger.end(
            BKWriteException(
                f"ledger {self.ledger.ledger_id}: {names} failed ({self.last_failure}), and with"
                " deferred sync no other bookie can take its place; create a new ledger"
            )
        )


class DeferredSyncWriter(LedgerWriter):
    """A `LedgerWriter` whose `add` promises less: that Qa bookies have the entry, not that they
    have it durable.

    Invariant: LastAddConfirmed <= the last entry that every bookie of the ensemble has synced.
    """

    ensemble_change_class = _NoEnsembleChange

    def __init__(
        self, ledger_id: int, metadata: LedgerMetadata, version: int, context: ClientContext
    ) -> None:
        super().__init__(ledger_id, metadata, version, context)
        self.last_add_acknowledged = NO_ENTRY_ID
        """The last entry that Qa bookies have, with all before it."""
        self._length_acknowledged = 0
        self._v3 = [context.bookies.get_v3(name) for name in self.ensemble]
        self._connections: dict[int, int] = {}
        """The connection, by place, on which the first add came back since the last force."""
        # A second force would not see the connections that the first has set aside.
        self._one_at_a_time = asyncio.Lock()

    async def force(self) -> None:
        """Make durable what is acknowledged by now; LastAddConfirmed moves there.

        Raises the error that ended this writer, or the `BKException` of a bookie that could not:
        then nothing moves, and the next force may succeed.
        """
        async with self._one_at_a_time:
            self._check_open()
            last, length = self.last_add_acknowledged, self._length_acknowledged
            if last == self.last_add_confirmed:
                return
            # Set aside first: an add that comes back during the force belongs to the next one.
            unsynced, self._connections = self._connections, {}
            try:
                await asyncio.gather(*(bookie.force_ledger(self.ledger_id) for bookie in self._v3))
            except BKException:
                # The older connection wins: what came back on it is still not synced.
                self._connections |= unsynced
                raise
            self._check_same(unsynced)
            self._check_open()
            confirmed_before = self.last_add_confirmed
            # Only as far as was acknowledged when the force began: the bookies may have synced no
            # more.
            self.last_add_confirmed, self.length_confirmed = last, length
            for entry_id in range(confirmed_before + 1, last + 1):
                self.recorder.record("lac.advanced", self.ledger_id, entry_id)

    def _check_same(self, connections: dict[int, int]) -> None:
        """End if a bookie may have restarted since it acknowledged what it has just forced."""
        for place, connection in connections.items():
            bookie = self._v3[place]
            if bookie.connection_count != connection:
                self.end(
                    BKWriteException(
                        f"ledger {self.ledger_id}: {bookie.bookie} was lost between add and force,"
                        " and what it had acknowledged may be, too; create a new ledger"
                    )
                )

    def _check_open(self) -> None:
        if self.ended_by is not None:
            raise self.ended_by

    def request_of(self, entry: bytes) -> bytes:
        """The entry alone: a frame of version 3 has a number of the connection that it goes by."""
        return entry

    def connection_at(self, place: int) -> PerChannelBookieClient:
        """The one of version 3."""
        return self._v3[place]

    def send(self, pending: PendingAdd, place: int) -> None:
        """By version 3, which has a flag for it."""
        bookie, entry_id = self._v3[place], pending.entry_id
        if bookie.connection is None:
            self.fence_check.expect(bookie)
        if self.recorder.listening:
            self.recorder.record("add.sent", self.ledger_id, entry_id, peer=bookie.bookie)
        added = bookie.add(self.ledger_id, entry_id, pending.request, self.master_key)
        added.add_done_callback(partial(self._added, pending, place))

    def _added(self, pending: PendingAdd, place: int, added: asyncio.Future[pb.Response]) -> None:
        error = added.exception()
        if error is None:
            self._connections.setdefault(place, self._v3[place].connection_count)
        assert error is None or isinstance(error, BKException)
        self.answered(place, self.bookies[place], [pending], error)

    def confirm(self) -> None:
        """Acknowledge from the head of the queue as far as Qa answers go without a gap."""
        while self.pending and self.has_enough_acks(self.pending[0]):
            pending = self.pending.popleft()
            self.last_add_acknowledged = pending.entry_id
            self._length_acknowledged = pending.length
            if not pending.confirmed.done():
                pending.confirmed.set_result(pending.entry_id)
