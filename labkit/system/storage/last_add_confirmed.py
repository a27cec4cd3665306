"""Determines a ledger's LastAddConfirmed according to a single bookie.

Each entry contains the LastAddConfirmed (LAC) that was current when the entry was packed. Writers
also send explicit LACs without an entry. The bookie's LastAddConfirmed is the highest of all these
values.

In BookKeeper: `bookie/FileInfo.java` (lac), `bookie/InterleavedLedgerStorage.java`
(getLastAddConfirmed).
"""

from labkit.system.model.entry import ENTRY_HEADER, LAC_HEADER
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.store import LedgerStore


def last_add_confirmed(store: LedgerStore, ledger_id: int) -> int:
    """Return the highest LastAddConfirmed that this bookie has, or -1.

    Raises `NoLedgerException` if this bookie does not have the ledger, and
    `StorageDamagedException` or `OSError` if the last entry cannot be read.
    """
    ledger = store.ledger_for_reads(ledger_id)
    last_entry_id = store.last_entry_id(ledger_id)
    last_read_id, confirmed = ledger.confirmed_by_entry
    if last_entry_id > last_read_id:
        entry = store.read_entry(ledger_id, last_entry_id)
        if len(entry) < ENTRY_HEADER.size:
            raise StorageDamagedException(
                f"entry {last_entry_id} of ledger {ledger_id} is too short: expected at least"
                f" {ENTRY_HEADER.size} bytes, got {len(entry)}"
            )
        confirmed = max(confirmed, ENTRY_HEADER.struct.unpack_from(entry)[2])
        ledger.confirmed_by_entry = last_entry_id, confirmed
    # A shorter body means that there is no explicit LAC, or that a power failure tore the record
    # before it was acknowledged.
    if len(ledger.explicit_lac) >= LAC_HEADER.size:
        confirmed = max(confirmed, LAC_HEADER.struct.unpack_from(ledger.explicit_lac)[1])
    return confirmed
