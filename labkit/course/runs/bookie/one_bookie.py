"""A bookie's storage on a simulated disk, which records a trace, for the storage lessons.

The methods perform the same steps as `labkit.system.bookie` in the same order, but synchronously:
memtable, journal, one sync per group, flush, crash and restart.
"""

from dataclasses import replace
from itertools import count
from typing import Any

from labkit.system.model.entry import NO_ENTRY_ID, decode_entry, encode_explicit_lac
from labkit.system.storage.log_mark import LogMark
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.events import Event
from labkit.system.trace.log import TraceLog
from labkit.system.trace.recorder import Recorder
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.entry_locations import locate_entry
from labkit.worlds.sim.machine.disk import DiskController
from labkit.worlds.sim.machine.disk_operation import Keep, lost
from labkit.worlds.sim.settings.bookie_script import (
    CONFIG,
    DIGEST,
    FIRST_JOURNAL_ID,
    MASTER_KEY,
    entry_bytes,
    new_machine,
)

TICK_US = 1000
"""Duration of each event on the bookie's clock."""


class OneBookie:
    """A bookie whose storage has these settings (fields of `StorageConfig`)."""

    def __init__(self, **settings: Any) -> None:
        self.trace = TraceLog()
        self.machine = new_machine(DiskController())
        self._config = replace(CONFIG, **settings)
        ticks = count(TICK_US, TICK_US)
        self._recorder = Recorder("b0", lambda: next(ticks))
        self._recorder.listen(self._take)
        self._waiting: list[dict[str, Any]] = []
        self._start()

    def add(self, *entries: tuple[int, int], payload_size: int = 20) -> None:
        """Add entries, given as (ledger id, entry id). The entries become durable with the next
        `commit`.
        """
        for ledger_id, entry_id in entries:
            data = entry_bytes(ledger_id, entry_id, payload_size)
            mark = self.store.add_entry(ledger_id, entry_id, data, MASTER_KEY)
            self._recorder.record("memtable.put", ledger_id, entry_id)
            record = _journal_record(ledger_id, mark, entry_id)
            self._recorder.record("journal.appended", **record)
            self._waiting.append(record)

    def fence(self, ledger_id: int) -> None:
        """Fence a ledger. The fence becomes durable with the next `commit`."""
        mark = self.store.fence(ledger_id, MASTER_KEY)
        self._waiting.append(_journal_record(ledger_id, mark))
        self._recorder.record("ledger.fenced", ledger_id)

    def set_explicit_lac(self, ledger_id: int, last_add_confirmed: int) -> None:
        """Store a LastAddConfirmed that the ledger's writer has sent. The value becomes durable
        with the next `commit`.
        """
        body = encode_explicit_lac(ledger_id, last_add_confirmed, DIGEST)
        mark = self.store.set_explicit_lac(ledger_id, body, MASTER_KEY)
        self._waiting.append(_journal_record(ledger_id, mark))

    def commit(self) -> None:
        """Write all records that were added since the last commit to the journal, and sync the
        journal once.
        """
        self.store.commit()
        group, self._waiting = self._waiting, []
        for record in group:
            self._recorder.record("journal.synced", **record, size=len(group))

    def flush(self) -> None:
        """Write the memtable to the entry log and the index, then advance LastLogMark."""
        self.store.checkpoint()

    def read(self, ledger_id: int, entry_id: int) -> bytes:
        """Return the entry's bytes. Raises the same errors as `LedgerStore.read_entry`."""
        in_memory = self.store.is_in_memory(ledger_id, entry_id)
        data = self.store.read_entry(ledger_id, entry_id)
        source = "memtable" if in_memory else "entry log"
        self._recorder.record("read.served", ledger_id, entry_id, detail=source)
        return data

    def payload(self, ledger_id: int, entry_id: int) -> bytes:
        """Return the entry's payload, as a client would read it.

        Raises the same errors as `read`, and `BKDigestMatchException` if the digest is wrong.
        """
        return decode_entry(self.read(ledger_id, entry_id), DIGEST, ledger_id, entry_id).payload

    def crash(self, keep: Keep = lost) -> None:
        """Cut the power; `keep` decides which unsynced writes survive."""
        self._waiting = []
        self._recorder.record("node.killed")
        self.machine = self.machine.after_crash(keep)

    def crash_before_sync(self, keep: Keep = lost) -> None:
        """Write the journal, and cut the power just before the journal is synced."""
        crashed = []
        self.machine.journals[0].controller.watch = lambda operation: crashed.append(
            self.machine.after_crash(keep)
        )
        self.commit()
        self.machine = crashed[-1]

    def restart(self) -> None:
        self._start()

    def places(self, ledger_id: int, entry_id: int) -> tuple[Piece, ...]:
        """Return where the entry's bytes are currently stored, for the byte X-ray."""
        after = self.machine.after_crash(lost)
        return locate_entry(
            self.machine.journals[0],
            self.machine.ledgers[0],
            entry_bytes(ledger_id, entry_id, 20),
            after_power_cut=(after.journals[0], after.ledgers[0]),
        )

    def _start(self) -> None:
        disks = self.machine.journals, self.machine.ledgers
        self.store = LedgerStore(*disks, self._config, self._recorder, FIRST_JOURNAL_ID)
        self._recorder.record("node.started")

    def _take(self, rows: list[Event]) -> None:
        self.trace.add(rows)
        self.trace.settle()


def _journal_record(ledger_id: int, mark: LogMark, entry_id: int = NO_ENTRY_ID) -> dict[str, Any]:
    """Return the columns that the events about a journal record have in common."""
    return {"ledger": ledger_id, "entry": entry_id, "file": mark.file_name, "offset": mark.offset}
