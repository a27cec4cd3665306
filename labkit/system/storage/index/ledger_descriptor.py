"""A ledger on one bookie: the state that requests check and change, and the index of its entries.

    in the index header   master key, fence, explicit LAC; durable in the journal until the next
                          flush writes them to the index file
    in the index          the location of each entry in the entry logs
    in memory only        whether the key is in the journal, whether entries were added since
                          `LedgerCache.take_settled`, and the last entry's LastAddConfirmed

In BookKeeper: `bookie/LedgerDescriptorImpl.java`, `bookie/FileInfo.java`.
"""

from labkit.system.storage.index.ledger_index import LedgerIndex


class LedgerDescriptor:
    """A ledger on this bookie. Its master key never changes, and its fence is never removed."""

    __slots__ = ("confirmed_by_entry", "has_new_entries", "index", "key_in_journal")

    def __init__(self, index: LedgerIndex) -> None:
        self.index = index
        self.key_in_journal = False
        """Whether this process has written the master key to the journal."""
        self.has_new_entries = False
        """Whether entries have been added since the last call of `LedgerCache.take_settled`."""
        self.confirmed_by_entry = (-1, -1)
        """The last entry read by `last_add_confirmed`, and the highest LAC read so far."""

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
        self.index.header = self.index.header._replace(fenced=True)

    def set_explicit_lac(self, body: bytes) -> None:
        self.index.header = self.index.header._replace(explicit_lac=body)
