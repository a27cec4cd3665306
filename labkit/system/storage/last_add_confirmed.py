"""How far a ledger is confirmed, as far as one bookie knows.

A writer reports it in two ways: each entry carries the LastAddConfirmed of the moment it was
packed, and an explicit LAC comes without an entry.  A bookie knows the higher of the two.

In BookKeeper: `bookie/FileInfo.java` (lac), `bookie/InterleavedLedgerStorage.java`
(getLastAddConfirmed).
"""

from labkit.system.model.entry import ENTRY_HEADER, LAC_HEADER, NO_ENTRY_ID
from labkit.system.model.errors import NoLedgerException, StorageDamagedException
from labkit.system.storage.store import LedgerStore


def last_add_confirmed(store: LedgerStore, ledger_id: int) -> int:
    """The ledger's LastAddConfirmed that this bookie knows; -1 if it knows none.

    The last entry is read only when it is another one than the last time.  Raises
    `NoLedgerException`, and `StorageDamagedException` or `OSError` when the entry cannot be read.
    """
    ledger = store.ledger(ledger_id)
    if ledger is None:
        raise NoLedgerException(f"this bookie stores nothing of ledger {ledger_id}")
    last_entry_id = store.last_entry_id(ledger_id)
    read_at, confirmed = ledger.confirmed_by_entry
    if last_entry_id > read_at:
        entry = store.read_entry(ledger_id, last_entry_id)
        confirmed = max(confirmed, _confirmed_in(entry, ledger_id, last_entry_id))
        ledger.confirmed_by_entry = last_entry_id, confirmed
    return max(confirmed, _confirmed_in_explicit(ledger.explicit_lac))


def _confirmed_in(entry: bytes, ledger_id: int, entry_id: int) -> int:
    if len(entry) < ENTRY_HEADER.size:
        raise StorageDamagedException(
            f"entry {entry_id} of ledger {ledger_id} has {len(entry)} bytes; its header alone has"
            f" {ENTRY_HEADER.size}"
        )
    confirmed: int = ENTRY_HEADER.struct.unpack_from(entry)[2]
    return confirmed


def _confirmed_in_explicit(body: bytes) -> int:
    if len(body) < LAC_HEADER.size:
        # There is none, or the power failed while its record was written: no client knows of it.
        return NO_ENTRY_ID
    confirmed: int = LAC_HEADER.struct.unpack_from(body)[1]
    return confirmed
