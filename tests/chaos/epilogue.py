"""The end of a run, which checks every ledger after all faults have been repaired."""

import asyncio

from labkit.system.autorecovery.fragments import fragments_of
from labkit.system.autorecovery.ledger_view import missing_copies
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reads import BookieReads
from labkit.system.model.errors import LabkitError
from tests.chaos.book import Book
from tests.chaos.load import Load
from tests.until import until_true

RECOVERY_S = 60.0
AGAIN_S = 0.5
AT_ONCE = 16


async def open_all(client: BookKeeper, book: Book, load: Load) -> None:
    """Open and read every ledger, and record where the ledger ends, so that missing entries are
    noticed.
    """

    async def is_open(ledger_id: int) -> bool:
        try:
            await load.open_and_read(client, ledger_id)
        except LabkitError as error:
            book.count(f"openings at the end that failed ({type(error).__name__})")
            await asyncio.sleep(AGAIN_S)
            return False
        return True

    async def opened(ledger_id: int) -> None:
        try:
            await until_true(lambda: is_open(ledger_id), RECOVERY_S)
        except TimeoutError:
            book.wrong(f"ledger {ledger_id} could not be opened in {RECOVERY_S:g} s")

    ids = book.kept
    for at in range(0, len(ids), AT_ONCE):
        await asyncio.gather(*map(opened, ids[at : at + AT_ONCE]))


async def until_repaired(client: BookKeeper, book: Book, deadline_s: float) -> float:
    """Wait until no copy that the metadata lists is missing; return how many seconds this took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for ledger_id in book.kept:

        async def is_repaired(ledger_id: int = ledger_id) -> bool:
            return not await missing(client, ledger_id)

        left_s = max(AGAIN_S, began + deadline_s - loop.time())
        try:
            await until_true(is_repaired, left_s)
        except TimeoutError:
            for word in await missing(client, ledger_id):
                book.wrong(f"ledger {ledger_id} is short of copies: {word}")
    return loop.time() - began


async def missing(client: BookKeeper, ledger_id: int) -> list[str]:
    """Return the copies that a bookie should store, but that it does not return when asked."""
    metadata = await client.ledger_metadata(ledger_id)
    reads = BookieReads(ledger_id, metadata, client.context)
    found: list[str] = []
    for fragment in fragments_of(metadata, metadata.last_entry_id):
        for place, bookie in enumerate(fragment.ensemble):
            entries = range(fragment.first, fragment.last + 1)
            mine = [entry_id for entry_id in entries if fragment.should_have(entry_id, place)]
            for entry_id, error in (await missing_copies(reads, bookie, mine)).items():
                found.append(f"entry {entry_id} on {bookie} ({type(error).__name__})")
    return found
