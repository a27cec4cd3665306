"""A ledger as a repair sees it, and single copies of its entries, asked for at single bookies.

In BookKeeper: `client/BookKeeperAdmin.openLedgerNoRecovery`, `proto/BookieClient.readEntry`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reads import BookieReads
from labkit.system.model.entry import Entry
from labkit.system.model.errors import BKException
from labkit.system.model.ledger import LedgerMetadata, LedgerState


@dataclass(frozen=True, slots=True)
class LedgerView:
    """What was known of a ledger at one moment."""

    ledger_id: int
    metadata: LedgerMetadata
    last_confirmed: int

    @property
    def is_closed(self) -> bool:
        """Whether no client can add to it."""
        return self.metadata.state is LedgerState.CLOSED


async def view_ledger(client: BookKeeper, ledger_id: int) -> LedgerView:
    """Look at a ledger without disturbing its writer; the password is in the metadata.

    Raises `BKNoSuchLedgerExistsOnMetadataServerException`, and `BKReadException` when too few
    bookies report LastAddConfirmed of an open ledger.
    """
    metadata = await client.ledger_metadata(ledger_id)
    if metadata.state is LedgerState.CLOSED:
        return LedgerView(ledger_id, metadata, metadata.last_entry_id)
    reader = await client.open_ledger_no_recovery(ledger_id, password=metadata.password)
    return LedgerView(ledger_id, reader.metadata, reader.last_add_confirmed)


async def missing_copies(
    reads: BookieReads, bookie: str, entry_ids: Sequence[int]
) -> dict[int, BKException]:
    """Ask a bookie for its copies, all at once; returns those that it did not give, and why."""
    all_came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed: dict[int, BKException] = {}
    left = len(entry_ids)

    def came(_: str, entry_id: int, copy: Entry | BKException) -> None:
        nonlocal left
        left -= 1
        if isinstance(copy, BKException):
            failed[entry_id] = copy
        if not left and not all_came.done():
            all_came.set_result(None)

    for entry_id in entry_ids:
        reads.ask(bookie, entry_id, came)
    if entry_ids:
        await all_came
    return failed
