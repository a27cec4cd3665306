"""Helpers for the tests of recovery, in which E = Qw = 3 and Qa = 2, and each entry has 10 bytes of
payload.
"""

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reader import LedgerReader
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from tests.system.client.scripted_bookies import LEDGER, Script


def serving(ensemble_size: int = 3, spares: int = 0) -> Script:
    script = Script(ensemble_size, 3, 2, spares=spares)
    for bookie in script.bookies:
        bookie.serves = True
    return script


def end(metadata: LedgerMetadata) -> tuple[LedgerState, int, int]:
    return metadata.state, metadata.last_entry_id, metadata.length


async def recovered(script: Script, client: BookKeeper | None = None) -> LedgerReader:
    """Recover the ledger, check that the stored metadata matches, and return its reader."""
    reader = await (client or script.client).open_ledger(LEDGER)
    assert reader.metadata == await script.stored_metadata()
    return reader


async def payloads(reader: LedgerReader) -> list[bytes]:
    return [entry.payload async for entry in reader.read()]


def numbered(count: int) -> list[bytes]:
    return [b"entry %04d" % number for number in range(count)]
