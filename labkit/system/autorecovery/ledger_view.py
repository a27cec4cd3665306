"""Takes snapshots of ledgers that may need a repair, and tests which copies a bookie has.

In BookKeeper: `client/BookKeeperAdmin.openLedgerNoRecovery`, `proto/BookieClient.readEntry`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reads import BookieReads
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.entry import Entry
from labkit.system.model.errors import BKException
from labkit.system.model.ledger import LedgerMetadata, LedgerState

_ENTRIES_AT_ONCE = 100
"""The maximum number of concurrent reads from one bookie, which also has to serve clients."""


@dataclass(frozen=True, slots=True)
class LedgerView:
    ledger_id: int
    metadata: LedgerMetadata
    last_confirmed: int

    @property
    def is_closed(self) -> bool:
        return self.metadata.state is LedgerState.CLOSED


async def view_ledger(client: BookKeeper, ledger_id: int) -> LedgerView:
    """Read a ledger's metadata and last confirmed entry without fencing its writer."""
    metadata = await client.ledger_metadata(ledger_id)
    if metadata.state is LedgerState.CLOSED:
        return LedgerView(ledger_id, metadata, metadata.last_entry_id)
    reader = await client.open_ledger_no_recovery(ledger_id, password=metadata.password)
    return LedgerView(ledger_id, reader.metadata, reader.last_add_confirmed)


async def missing_copies(
    reads: BookieReads, bookie: str, entry_ids: Sequence[int]
) -> dict[int, BKException]:
    """Read these entries from one bookie; return the error for each missing copy.

    Raises `MetadataUnavailableError` if the bookie's address could not be looked up.
    """
    errors: dict[int, BKException] = {}
    for at in range(0, len(entry_ids), _ENTRIES_AT_ONCE):
        errors |= await _read_at_once(reads, bookie, entry_ids[at : at + _ENTRIES_AT_ONCE])
    for error in errors.values():
        if isinstance(error.__cause__, MetadataUnavailableError):
            raise error.__cause__
    return errors


async def _read_at_once(
    reads: BookieReads, bookie: str, entry_ids: Sequence[int]
) -> dict[int, BKException]:
    all_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    errors: dict[int, BKException] = {}
    left = len(entry_ids)

    def on_read(_: str, entry_id: int, copy: Entry | BKException) -> None:
        nonlocal left
        left -= 1
        if isinstance(copy, BKException):
            errors[entry_id] = copy
        if not left and not all_done.done():
            all_done.set_result(None)

    for entry_id in entry_ids:
        reads.ask(bookie, entry_id, on_read)
    await all_done
    return errors
