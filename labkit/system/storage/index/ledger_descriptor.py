"""A ledger as one bookie holds it: what requests check and change, and the index of its entries.

    in the index's header    master key, fence, explicit LAC: durable by the journal at once, and by
                             the index file from the next flush on
    in the index             where each entry is in the entry logs
    in memory only           whether the key is in the journal, whether entries were added since
                             the last garbage collection, and the LastAddConfirmed at the last query

In BookKeeper: `bookie/LedgerDescriptorImpl.java`, `bookie/FileInfo.java`.
"""

from labkit.system.storage.index.ledger_index import LedgerIndex


class LedgerDescriptor:
    """One ledger on this bookie.

    Invariants: the master key never changes; a fence is never removed.
    """

    __slots__ = ("confirmed_by_entry", "got_entries", "index", "key_in_journal")

    def __init__(self, index: LedgerIndex) -> None:
        self.index = index
        self.key_in_journal = False
        """Whether this process has written the master key into the journal."""
        self.got_entries = False
        """Whether entries were added since the last garbage collection."""
        self.confirmed_by_entry = (-1, -1)
        """The last entry at the latest query, and the LastAddConfirmed that it carries."""

    @property
    def ledger_id(self) -> int:
        return self.index.ledger_id

    @property
    def master_key(self) -> bytes:
        return self.index.header.master_key

    @property
    def fenced(self) -> bool:
        return self.index.header.fenced

    @property
    def explicit_lac(self) -> bytes:
        return self.index.header.explicit_lac

    def fence(self) -> None:
        """Refuse all further adds except those of recovery."""
        self.index.header = self.index.header._replace(fenced=True)

    def set_explicit_lac(self, body: bytes) -> None:
        """Store the writer's latest explicit LAC."""
        self.index.header = self.index.header._replace(explicit_lac=body)
