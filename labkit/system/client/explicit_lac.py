"""Sends the bookies a ledger's LastAddConfirmed when no next entry carries it.

Readers learn that an entry is confirmed from the next one, so without this the newest entry of an
idle writer looks unconfirmed.

In BookKeeper: `client/ExplicitLacFlushPolicy.java`, `client/PendingWriteLacOp.java`.
"""

import asyncio
from functools import partial

from labkit.system.client.context import ClientContext
from labkit.system.client.striping import write_set
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import NO_ENTRY_ID, encode_explicit_lac, make_digest, make_master_key
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb


class ExplicitLac:
    """Sends a writer's LastAddConfirmed, if it has moved, once in each interval until Qa bookies
    have it.  A failure is not retried before the next interval: a reader loses only time.
    """

    def __init__(self, writer: LedgerWriter, context: ClientContext) -> None:
        self._writer = writer
        self._bookies = context.bookies
        self._interval_s = context.config.explicit_lac_interval_ms / 1000
        metadata = writer.metadata
        self._digest = make_digest(metadata.digest_type, metadata.password)
        self._master_key = make_master_key(metadata.password)
        self._sent = NO_ENTRY_ID

    def start(self) -> None:
        """Begin; it ends with the writer."""
        asyncio.get_running_loop().call_later(self._interval_s, self._send)

    def _send(self) -> None:
        if self._writer.is_ended:
            return
        last = self._writer.last_add_confirmed
        if last > self._sent:
            metadata, ledger_id = self._writer.metadata, self._writer.ledger_id
            body = encode_explicit_lac(ledger_id, last, self._digest)
            acks: list[int] = []
            for place in write_set(last, metadata.ensemble_size, metadata.write_quorum):
                bookie = self._bookies.get_v3(metadata.segments[-1].ensemble[place])
                written = bookie.write_lac(ledger_id, last, body, self._master_key)
                written.add_done_callback(partial(self._was_written, last, place, acks))
        self.start()

    def _was_written(
        self, last: int, place: int, acks: list[int], written: asyncio.Future[pb.Response]
    ) -> None:
        if written.exception() is None:
            acks.append(place)
            # As many as an entry needs: a reader that asks enough bookies asks one of these.
            if len(acks) == self._writer.metadata.ack_quorum:
                self._sent = max(self._sent, last)
