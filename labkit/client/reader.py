"""A reader of a ledger: any number of them, none disturbs the writer.

In BookKeeper: `client/ReadOnlyLedgerHandle.java`, `client/PendingReadOp.java`,
`client/ReadLastConfirmedOp.java`.
"""

import asyncio
from collections.abc import AsyncIterator

from labkit.client.bookie_client import BookieClients
from labkit.client.quorum import is_covered
from labkit.client.striping import write_set
from labkit.model.entry import NO_ENTRY_ID, Entry, decode_entry, make_digest
from labkit.model.errors import (
    BKException,
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKReadException,
)
from labkit.model.ledger import LedgerMetadata, LedgerState
from labkit.model.wire import Answer, Opcode, encode_read
from labkit.trace.recorder import Recorder

_AT_ONCE = 256
_SAYS_NO = (BKNoSuchEntryException, BKNoSuchLedgerExistsException)


class LedgerReader:
    """Reads entries up to LastAddConfirmed.

    Invariant: what is read was confirmed, and its digest is right; so it is there for every reader,
    for ever.
    """

    def __init__(
        self, ledger_id: int, metadata: LedgerMetadata, bookies: BookieClients, recorder: Recorder
    ) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        self.last_add_confirmed = metadata.last_entry_id
        self._bookies = bookies
        self._recorder = recorder
        self._digest = make_digest(metadata.digest_type, metadata.password)

    async def read_last_add_confirmed(self) -> int:
        """Ask the bookies how far the writer has confirmed; of a closed ledger it is known.

        An entry carries the LastAddConfirmed of the moment it was packed, so the newest entry of an
        open ledger shows as confirmed only after the next one.  Raises `BKReadException` when too
        few bookies answer.
        """
        if self.metadata.state is LedgerState.CLOSED:
            return self.last_add_confirmed
        metadata, ensemble = self.metadata, self.metadata.segments[-1].ensemble
        answers = await asyncio.gather(
            *(self._ask(bookie, NO_ENTRY_ID) for bookie in ensemble), return_exceptions=True
        )
        known = {
            place for place, answer in enumerate(answers) if isinstance(answer, (Entry, *_SAYS_NO))
        }
        sizes = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
        if not is_covered(known, *sizes):
            silent = [bookie for place, bookie in enumerate(ensemble) if place not in known]
            raise BKReadException(
                f"LastAddConfirmed of ledger {self.ledger_id}: no answer from {', '.join(silent)},"
                " and any of the others might not know"
            )
        confirmed = [answer.last_add_confirmed for answer in answers if isinstance(answer, Entry)]
        self.last_add_confirmed = max((self.last_add_confirmed, *confirmed))
        return self.last_add_confirmed

    async def read(self, first: int = 0, last: int | None = None) -> AsyncIterator[Entry]:
        """Entries `first` to `last` (default: LastAddConfirmed), one after the other.

        Raises what `read_entry` raises.
        """
        last = self.last_add_confirmed if last is None else last
        for start in range(first, last + 1, _AT_ONCE):
            for entry in await self.read_entries(start, min(last, start + _AT_ONCE - 1)):
                yield entry

    async def read_entries(self, first: int, last: int) -> list[Entry]:
        """Entries `first` to `last`, all asked for at once.  Raises what `read_entry` raises."""
        entry_ids = range(first, last + 1)
        return await asyncio.gather(*(self.read_entry(entry_id) for entry_id in entry_ids))

    async def read_entry(self, entry_id: int) -> Entry:
        """One entry, from the first bookie of its write set that has it.

        Raises `BKReadException` for an id beyond LastAddConfirmed, else the most telling error of
        the bookies asked: one that proves nothing counts more than "no such entry".
        """
        if not 0 <= entry_id <= self.last_add_confirmed:
            raise BKReadException(
                f"entry {entry_id} of ledger {self.ledger_id}: readable are 0 to"
                f" {self.last_add_confirmed} (LastAddConfirmed)"
            )
        metadata = self.metadata
        ensemble = metadata.ensemble_at(entry_id)
        errors: list[BKException] = []
        for place in write_set(entry_id, metadata.ensemble_size, metadata.write_quorum):
            try:
                return await self._ask(ensemble[place], entry_id)
            except BKException as error:
                errors.append(error)
        raise next((e for e in errors if not isinstance(e, _SAYS_NO)), errors[0])

    async def _ask(self, bookie: str, entry_id: int) -> Entry:
        """Ask one bookie.  Raises `BKException`, `BKDigestMatchException` included."""
        answered: asyncio.Future[Answer | BKException] = asyncio.get_running_loop().create_future()

        def on_answer(answer: Answer | BKException) -> None:
            if not answered.done():
                answered.set_result(answer)

        body = encode_read(self.ledger_id, entry_id)
        self._recorder.record("read.sent", self.ledger_id, entry_id, peer=bookie)
        self._bookies.get(bookie).ask(Opcode.READ, self.ledger_id, entry_id, body, on_answer)
        answer = await answered
        try:
            if isinstance(answer, BKException):
                raise answer
            entry = decode_entry(answer.entry, self._digest, self.ledger_id, entry_id)
        except BKException as error:
            self._recorder.record(
                "read.failed", self.ledger_id, entry_id, peer=bookie, note=type(error).__name__
            )
            raise
        self._recorder.record("read.done", self.ledger_id, entry_id, peer=bookie)
        return entry
