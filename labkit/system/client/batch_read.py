"""Several entries in one request, where every bookie of the ensemble stores all of them.

In BookKeeper: `client/BatchedReadOp.java`.
"""

import asyncio
import zlib

from labkit.system.client.context import ClientContext
from labkit.system.client.striping import write_set
from labkit.system.model.batch_read import encode_batch_read, find_batch_entries
from labkit.system.model.entry import Entry, decode_entry, make_digest
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKDigestMatchException,
    BKException,
)
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.model.wire import MAX_FRAME_SIZE, Answer, BatchReadRequest, Opcode


class BatchReads:
    """Batch reads of one ledger.  Stops asking once a connection was lost over one: a bookie
    that does not know such requests closes the connection.
    """

    def __init__(self, ledger_id: int, metadata: LedgerMetadata, context: ClientContext) -> None:
        self._ledger_id = ledger_id
        self._context = context
        self._digest = make_digest(metadata.digest_type, metadata.password)
        self.can_ask = metadata.ensemble_size == metadata.write_quorum
        """Striped ledgers have no batches: no bookie has neighbouring entries."""

    async def read(
        self, metadata: LedgerMetadata, first: int, count: int, max_size: int
    ) -> list[Entry]:
        """Up to `count` entries from `first` on, none of them beyond its segment; an empty list if
        no bookie gives a batch: then read one by one.
        """
        later = (s.first_entry_id for s in metadata.segments if s.first_entry_id > first)
        # One request goes to one ensemble, so it ends where the next segment begins.
        count = min(count, next(later, first + count) - first)
        ensemble = metadata.ensemble_at(first)
        sizes = metadata.ensemble_size, metadata.write_quorum
        for place in write_set(first, *sizes):
            if not self.can_ask:
                break
            if entries := await self.ask(ensemble[place], first, count, max_size):
                return entries
        return []

    async def ask(self, bookie: str, first: int, count: int, max_size: int) -> list[Entry]:
        """The same of one bookie."""
        answered: asyncio.Future[Answer | BKException] = asyncio.get_running_loop().create_future()

        def on_answer(answer: Answer | BKException) -> None:
            if not answered.done():
                answered.set_result(answer)

        size = min(max_size, MAX_FRAME_SIZE)
        body = encode_batch_read(BatchReadRequest(self._ledger_id, first, first, count, size))
        record = self._context.recorder.record
        record("read.sent", self._ledger_id, first, peer=bookie)
        client = self._context.bookies.get(bookie)
        client.ask(Opcode.BATCH_READ, self._ledger_id, first, body, on_answer)
        answer = await answered
        try:
            if isinstance(answer, BKException):
                raise answer
            bounds = find_batch_entries(answer.entry)[:count]
        except BKException as error:
            self.can_ask = not isinstance(error, BKBookieHandleNotAvailableException)
            record("read.failed", self._ledger_id, first, peer=bookie, note=type(error).__name__)
            return []
        return self._decode(bookie, first, answer.entry, bounds)

    def _decode(
        self, bookie: str, first: int, data: bytes, bounds: list[tuple[int, int]]
    ) -> list[Entry]:
        """The entries up to the first whose digest is wrong."""
        recorder, digest, ledger_id = self._context.recorder, self._digest, self._ledger_id
        entries: list[Entry] = []
        for entry_id, (start, end) in enumerate(bounds, first):
            try:
                entry = decode_entry(data, digest, ledger_id, entry_id, start, end)
            except BKDigestMatchException as error:
                note = type(error).__name__
                recorder.record("read.failed", ledger_id, entry_id, peer=bookie, note=note)
                break
            if recorder.listening:
                note = f"{zlib.crc32(entry.payload):08x}"
                recorder.record("read.done", ledger_id, entry_id, peer=bookie, note=note)
            entries.append(entry)
        return entries
