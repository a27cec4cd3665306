"""One bookie's storage on a simulated disk, with a trace: what the storage lessons work with.

It does at once, and in the order of `labkit.system.bookie`, what a bookie does with its clients'
requests: the memtable, the journal, one sync for a group, flushes, a crash and the start after it.
"""

from itertools import count

from labkit.system.model.byte_region import Piece
from labkit.system.model.entry import NO_ENTRY_ID, encode_explicit_lac
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.entry_locations import entry_places
from labkit.system.storage.log_mark import LogMark
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.log import TraceLog
from labkit.system.trace.recorder import Recorder, Row
from labkit.worlds.sim.machine.disk import Fuse
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
"""How long each event takes on the bookie's clock."""


class OneBookie:
    """A bookie that only you use; `trace` holds all that it did."""

    def __init__(self, config: StorageConfig = CONFIG, name: str = "bookie-1") -> None:
        self.trace = TraceLog()
        self.machine = new_machine(Fuse())
        self._config = config
        ticks = count(TICK_US, TICK_US)
        self._recorder = Recorder(name, lambda: next(ticks))
        self._recorder.listen(self._take)
        self._waiting: list[tuple[int, int, str, int]] = []
        self._start()

    def add(self, *entries: tuple[int, int], payload_size: int = 20) -> None:
        """Take entries, given as (ledger id, entry id).  They are safe after `commit`."""
        for ledger_id, entry_id in entries:
            data = entry_bytes(ledger_id, entry_id, payload_size)
            mark = self.store.add_entry(ledger_id, entry_id, data, MASTER_KEY)
            self._recorder.record("memtable.put", ledger_id, entry_id)
            place = _place(ledger_id, mark, entry_id)
            self._record_place("journal.appended", place)
            self._waiting.append(place)

    def fence(self, ledger_id: int) -> None:
        """Fence a ledger.  It is safe after `commit`."""
        self._waiting.append(_place(ledger_id, self.store.fence(ledger_id, MASTER_KEY)))
        self._recorder.record("ledger.fenced", ledger_id)

    def set_explicit_lac(self, ledger_id: int, last_add_confirmed: int) -> None:
        """Keep what a ledger's writer has confirmed.  It is safe after `commit`."""
        body = encode_explicit_lac(ledger_id, last_add_confirmed, DIGEST)
        mark = self.store.set_explicit_lac(ledger_id, body, MASTER_KEY)
        self._waiting.append(_place(ledger_id, mark))

    def commit(self) -> None:
        """Sync the journal: one write and one sync for all that was added since the last one."""
        self.store.commit()
        group, self._waiting = self._waiting, []
        for place in group:
            self._record_place("journal.synced", place, len(group))

    def flush(self) -> None:
        """Bring the memtable to entry log and index, then move LastLogMark."""
        self.store.checkpoint()

    def read(self, ledger_id: int, entry_id: int) -> bytes:
        """The entry's bytes.  Raises what `LedgerStore.read_entry` raises."""
        in_memory = self.store.is_in_memory(ledger_id, entry_id)
        data = self.store.read_entry(ledger_id, entry_id)
        note = "in the memtable" if in_memory else "in the entry log"
        self._recorder.record("read.served", ledger_id, entry_id, note=note)
        return data

    def crash(self, keep: Keep = lost) -> None:
        """Cut the power; `keep` says what becomes of what was not synced."""
        self._waiting = []
        self._recorder.record("node.killed")
        self.machine = self.machine.after_crash(keep)

    def restart(self) -> None:
        """Start again on the disks."""
        self._start()

    def places(self, ledger_id: int, entry_id: int, payload_size: int = 20) -> tuple[Piece, ...]:
        """Where the entry's bytes lie now, for the byte X-ray."""
        after = self.machine.after_crash(lost)
        return entry_places(
            self.machine.journals[0],
            self.machine.ledgers[0],
            entry_bytes(ledger_id, entry_id, payload_size),
            after_power_cut=(after.journals[0], after.ledgers[0]),
        )

    def _start(self) -> None:
        disks = self.machine.journals, self.machine.ledgers
        self.store = LedgerStore(*disks, self._config, self._recorder, FIRST_JOURNAL_ID)
        self._recorder.record("node.started")

    def _record_place(self, kind: str, place: tuple[int, int, str, int], size: int = -1) -> None:
        ledger_id, entry_id, file, offset = place
        self._recorder.record(kind, ledger_id, entry_id, file=file, offset=offset, size=size)

    def _take(self, rows: list[Row]) -> None:
        self.trace.add(rows)
        self.trace.settle()


def _place(ledger_id: int, mark: LogMark, entry_id: int = NO_ENTRY_ID) -> tuple[int, int, str, int]:
    return ledger_id, entry_id, mark.file_name, mark.offset
