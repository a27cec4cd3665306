"""Reads several entries with one request. This requires that every bookie has all entries.

In BookKeeper: `client/BatchedReadOp.java`.
"""

import asyncio
import zlib

from labkit.system.client.context import ClientContext
from labkit.system.client.ensemble import end_of_segment
from labkit.system.client.striping import write_set
from labkit.system.model.batch_read import encode_batch_read, find_batch_entries
from labkit.system.model.entry import Entry, decode_entry, make_digest
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKDigestMatchException,
    BKException,
)
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.model.wire import MAX_FRAME_SIZE, BatchReadRequest, Opcode, Response


class BatchReads:
    """Sends batch reads. If the connection is lost during a batch read, no more are sent, because a
    bookie that does not support batch reads closes the connection.
    """

    def __init__(self, ledger_id: int, metadata: LedgerMetadata, context: ClientContext) -> None:
        self._ledger_id = ledger_id
        self._context = context
        self._digest = make_digest(metadata.digest_type, metadata.password)
        self.is_supported = metadata.ensemble_size == metadata.write_quorum
        """False for striped ledgers, in which no bookie has all entries."""

    async def read(
        self, metadata: LedgerMetadata, first: int, count: int, max_size: int
    ) -> list[Entry]:
        """Return up to `count` entries of one segment, starting with `first`. Return [] if no
        bookie returns a batch; the caller must then read the entries one by one.
        """
        end = end_of_segment(metadata, first)
        # The bookies of this ensemble may not have entries of the next segment.
        count = count if end is None else min(count, end - first)
        ensemble = metadata.ensemble_at(first)
        sizes = metadata.ensemble_size, metadata.write_quorum
        for index in write_set(first, *sizes):
            if not self.is_supported:
                break
            if entries := await self.ask(ensemble[index], first, count, max_size):
                return entries
        return []

    async def ask(self, bookie: str, first: int, count: int, max_size: int) -> list[Entry]:
        """Like `read`, but query only this bookie, and return [] if an error occurs."""
        future: asyncio.Future[Response | BKException] = asyncio.get_running_loop().create_future()

        def on_response(response: Response | BKException) -> None:
            if not future.done():
                future.set_result(response)

        size = min(max_size, MAX_FRAME_SIZE)
        # The entry id also serves as the request id.
        body = encode_batch_read(BatchReadRequest(self._ledger_id, first, first, count, size))
        record = self._context.recorder.record
        record("read.sent", self._ledger_id, first, peer=bookie)
        channel = self._context.bookie_client.get(bookie)
        channel.ask(Opcode.BATCH_READ, self._ledger_id, first, body, on_response)
        response = await future
        try:
            if isinstance(response, BKException):
                raise response
            bounds = find_batch_entries(response.entry)[:count]
        except BKException as error:
            if isinstance(error, BKBookieHandleNotAvailableException):
                self.is_supported = False
            record("read.failed", self._ledger_id, first, peer=bookie, error=type(error).__name__)
            return []
        return self._decode(bookie, first, response.entry, bounds)

    def _decode(
        self, bookie: str, first: int, data: bytes, bounds: list[tuple[int, int]]
    ) -> list[Entry]:
        """Decode the entries up to, but not including, the first one with a wrong digest."""
        recorder, digest, ledger_id = self._context.recorder, self._digest, self._ledger_id
        entries: list[Entry] = []
        for entry_id, (start, end) in enumerate(bounds, first):
            try:
                entry = decode_entry(data, digest, ledger_id, entry_id, start, end)
            except BKDigestMatchException as error:
                why = type(error).__name__
                recorder.record("read.failed", ledger_id, entry_id, peer=bookie, error=why)
                break
            if recorder.listening:
                checksum = f"{zlib.crc32(entry.payload):08x}"
                recorder.record("read.done", ledger_id, entry_id, peer=bookie, checksum=checksum)
            entries.append(entry)
        return entries
