"""A bookie's storage on two in-memory disks, which survives kills and restarts."""

import errno
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from labkit.system.storage.config import StorageConfig
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.machine.disk import DiskController, SimDisk, SimDiskError
from labkit.worlds.sim.machine.disk_operation import Keep, Operation, lost
from tests.system.storage.support import SMALL, store_over


class Machine:
    """The two in-memory disks of a store."""

    def __init__(self) -> None:
        self.journal, self.ledgers = SimDisk(), SimDisk()

    def open(self, config: StorageConfig = SMALL) -> LedgerStore:
        """Open a store. Opening another store without calling `close` simulates a kill of the
        process.
        """
        return store_over(self.journal, self.ledgers, config)

    def cut_power(self) -> None:
        """Discard everything that has not been synced."""
        self.crash(lost)

    def crash(self, keep: Keep) -> DiskController:
        """Cut the power, and return the controller of both disks."""
        controller = DiskController()
        self.journal = self.journal.after_crash(keep, controller)
        self.ledgers = self.ledgers.after_crash(keep, controller)
        return controller

    @contextmanager
    def syncs_that_fail(self, after: int) -> Iterator[None]:
        """Let syncs of files in the ledger directory fail after the first `after` ones."""
        left = after

        def watch(operation: Operation) -> None:
            nonlocal left
            if operation.kind == "sync":
                left -= 1
                if left < 0:
                    raise SimDiskError(errno.EIO, f"{operation} failed")

        self.ledgers.controller.watch = watch
        yield
        self.ledgers.controller.watch = None

    def journal_records(self) -> list[tuple[int, int]]:
        return [
            (record.ledger_id, record.entry_id)
            for file_id in journal_ids(self.journal)
            for record in JournalScan(self.journal, file_id).records()
        ]

    def write_journal(self, file_id: int, *records: bytes) -> None:
        header = struct.pack(">4si504x", b"BKLG", 6)
        framed = b"".join(struct.pack(">i", len(record)) + record for record in records)
        self.journal.create(f"current/{file_id:x}.txn").write(0, header + framed)
