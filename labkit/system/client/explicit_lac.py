"""Sends a ledger's LastAddConfirmed to the bookies if no later entry contains it.

Without this, the newest entry of an idle writer would look unconfirmed to readers.

In BookKeeper: `client/ExplicitLacFlushPolicy.java`, `client/PendingWriteLacOp.java`.
"""

import asyncio
from functools import partial

from labkit.system.client.context import ClientContext
from labkit.system.client.striping import write_set
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import NO_ENTRY_ID, encode_explicit_lac, make_digest
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb


class ExplicitLacSender:
    """Checks a writer's LastAddConfirmed once per interval, and sends it until Qa bookies have
    stored it or a later entry contains it.
    """

    def __init__(self, writer: LedgerWriter, context: ClientContext) -> None:
        self._writer = writer
        self._bookie_client = context.bookie_client
        self._interval_s = context.config.explicit_lac_interval_ms / 1000
        metadata = writer.metadata
        self._digest = make_digest(metadata.digest_type, metadata.password)
        self._stored = NO_ENTRY_ID
        """The highest LastAddConfirmed that Qa bookies have stored."""

    def start(self) -> None:
        asyncio.get_running_loop().call_later(self._interval_s, self._send)

    def _send(self) -> None:
        writer = self._writer
        if writer.is_ended:
            return
        lac = writer.last_add_confirmed
        if lac > max(self._stored, writer.piggybacked_lac):
            metadata, ledger_id = writer.metadata, writer.ledger_id
            body = encode_explicit_lac(ledger_id, lac, self._digest)
            acks: list[int] = []
            for index in write_set(lac, metadata.ensemble_size, metadata.write_quorum):
                channel = self._bookie_client.get_v3(writer.ensemble[index])
                written = channel.write_lac(ledger_id, lac, body, writer.master_key)
                written.add_done_callback(partial(self._on_written, lac, index, acks))
        self.start()

    def _on_written(
        self, lac: int, index: int, acks: list[int], written: asyncio.Future[pb.Response]
    ) -> None:
        if written.exception() is None:
            acks.append(index)
            # Qa acknowledgements are enough: as with an entry, a reader that asks enough bookies
            # reaches at least one that has stored the value.
            if len(acks) == self._writer.metadata.ack_quorum:
                self._stored = max(self._stored, lac)
