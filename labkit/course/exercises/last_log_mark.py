"""Lesson 04: where replay starts, and the order of a checkpoint's steps."""

from collections.abc import Callable, Sequence

from labkit.course.checking.cases import Cases
from labkit.course.checking.exercise import Refused, exercise, require_permutation
from labkit.course.exercises.generated import storage as generated
from labkit.system.storage.disk import Disk
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.log_mark import START, LogMark
from labkit.system.storage.memtable import Memtable
from labkit.system.storage.store import Checkpoint as Flush
from labkit.system.storage.store import LedgerStore
from labkit.views.widgets.crash_map import CrashMapView
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.settings.bookie_script import (
    Add,
    Checkpoint,
    Commit,
    Restart,
    ScriptStep,
    StoreFactory,
)

MustReplay = Callable[[LogMark, LogMark], bool]

TWO_JOURNALS: tuple[ScriptStep, ...] = (
    *(Add(5, 0), Add(5, 1), Commit(), Checkpoint(), Add(5, 2), Commit()),
    *(Restart(), Add(5, 3), Commit()),
)


def must_replay(mark: LogMark, record: LogMark) -> bool:
    """Return whether replay from `mark` must apply the record at the position `record`."""
    return record >= mark


@exercise(
    "last_log_mark.replay",
    hints=(
        "The mark and the record's position are both LogMarks: a file id, and an offset in that"
        " file. Offsets start over in each journal file.",
        "Every entry before the mark is in the entry log and the index. The record that starts"
        " exactly at the mark is the first one that may not be.",
        "LogMarks are tuples, so Python compares the file ids first, and the offsets only if the"
        " file ids are equal. One comparison is enough.",
    ),
    like=must_replay,
    cases=Cases(generated.marks, must_replay, lambda _, said: _TOO_EARLY if said else _LEFT_OUT),
)
def replay(learner: MustReplay) -> str:
    """Replay applies every record from the mark on, and no record before it."""
    crashes = crash_map(TWO_JOURNALS, store_factory=_replaying(learner))
    if not crashes.is_safe:
        raise Refused(_LEFT_OUT, CrashMapView(crashes))
    return f"Nothing was lost in {len(crashes.points) * len(crashes.variants)} crashes."


_LEFT_OUT = (
    "Replay must apply every record from the mark on: the records have been acknowledged, and only"
    " the journal has them."
)
_TOO_EARLY = (
    "Replay must skip everything before the mark: it is already on disk, its ledger may have been"
    " deleted since, and its journal file may be gone."
)


def _replaying(decide: MustReplay) -> StoreFactory:
    class Replaying(LedgerStore):
        def replay(self, disk: Disk, mark: LogMark) -> LogMark:
            end, record_count = mark, 0
            for file_id in journal_ids(disk):
                scan = JournalScan(disk, file_id)
                for record in scan.records():
                    if decide(mark, LogMark(file_id, record.offset)):
                        self.replay_records([record], scan.name)
                        record_count += 1
                end = max(end, LogMark(file_id, scan.end_offset))
            if record_count:
                self.recorder.record("journal.replayed", file=end.file_name, size=record_count)
            return end

    return Replaying


TAKE, ASIDE, LOG, INDEX, PERSIST, REMOVE = STEPS = (
    "take the mark",
    "set the memtable aside",
    "write and sync the entry log",
    "write and sync the index",
    "persist the mark",
    "remove old journals",
)

# A rule is broken unless its first step precedes its second step. Only the first broken rule is
# reported.
_RULES = (
    (TAKE, PERSIST, "The mark must be taken before it can be persisted."),
    (
        INDEX,
        PERSIST,
        "LastLogMark must not advance past an entry that is not yet in the entry log and the"
        " index.",
    ),
    (LOG, INDEX, "An entry must be in the entry log before the index can point to it."),
    (ASIDE, LOG, "The memtable must be set aside before it can be written to the entry log."),
    (PERSIST, REMOVE, "A journal can be deleted only after the persisted mark has moved past it."),
    (
        TAKE,
        ASIDE,
        "The mark must be taken before the memtable is set aside: an add that arrives in between is"
        " before the mark, but in the memtable that is not written.",
    ),
)

INSIDE: tuple[ScriptStep, ...] = (
    *(Add(5, 0), Commit(), Restart(), Add(5, 1), Commit()),
    Checkpoint(during=(Add(5, 2), Commit())),
)


@exercise(
    "last_log_mark.checkpoint",
    hints=(
        "Clients continue to add entries while a checkpoint runs. For each two consecutive steps,"
        " ask what happens if an add is acknowledged between them.",
        "Taking the mark and persisting it are two steps that are far apart. The first one decides"
        " which entries this checkpoint covers, the second one makes the next start rely on it.",
        "First take the mark, while everything that it covers is in the memtable. Then write the"
        " memtable to disk, the log before the index. The steps on which the next start relies come"
        " last.",
    ),
)
def checkpoint(learner: Sequence[str]) -> str:
    """LastLogMark never advances past an entry that is not on disk, no matter when an add arrives
    or when the power fails.
    """
    order = require_permutation(STEPS, learner)
    broken = next((rule for a, b, rule in _RULES if _is_reversed(order, a, b)), None)
    cell_count = 0
    for gap in range(len(STEPS) + 1):
        crashes = crash_map(INSIDE, store_factory=_in_order(order, gap))
        cell_count += len(crashes.points) * len(crashes.variants)
        if broken and not crashes.is_safe:
            raise Refused(broken, CrashMapView(crashes))
    if broken:
        raise Refused(broken)
    return (
        f"Nothing was lost in {cell_count} crashes, with an add before, between and after the"
        " steps."
    )


def _is_reversed(order: Sequence[str], first: str, second: str) -> bool:
    """Return whether the second step precedes the first, provided that both concern this
    checkpoint.

    If journals are deleted before the mark is taken, the deletion concerns the previous checkpoint,
    because it deletes only the journals that the previous checkpoint made unnecessary.
    """
    is_about_the_last = second == REMOVE and order.index(REMOVE) < order.index(TAKE)
    return order.index(second) < order.index(first) and not is_about_the_last


class ReorderedCheckpoint(LedgerStore):
    """Runs the steps of a checkpoint in a given order. Adds arrive just before step number
    `gap`.
    """

    order: Sequence[str] = STEPS
    gap = 0

    def begin_checkpoint(self) -> Flush:
        self._taken = (START,) * len(self.journals)
        self._locations: list[tuple[int, int, int]] = []
        self._do(self.order[: self.gap])
        return Flush(self._taken, Memtable())

    def flush(self, checkpoint: Flush) -> None:
        self._do(self.order[self.gap :])

    def _do(self, steps: Sequence[str]) -> None:
        actions = {
            TAKE: self._take_mark,
            ASIDE: self._set_aside,
            LOG: self._write_log,
            INDEX: self._write_index,
            PERSIST: lambda: self.persist_marks(self._taken),
            REMOVE: self._remove_journals,
        }
        for step in steps:
            actions[step]()

    def _take_mark(self) -> None:
        self._taken = tuple(journal.synced for journal in self.journals)

    def _set_aside(self) -> None:
        self.flushing_memtable, self.memtable = self.memtable, Memtable()

    def _write_log(self) -> None:
        for ledger_id, entry_id, data in self.flushing_memtable or ():
            [location] = self.entry_logger.append(ledger_id, [data])
            self._locations.append((ledger_id, entry_id, location))
        self.entry_logger.sync()

    def _write_index(self) -> None:
        for ledger_id, entry_id, location in self._locations:
            ledger = self.ledgers.get(ledger_id)
            if ledger is not None:
                ledger.index.set_locations([entry_id], [location])
        self.ledgers.flush()

    def _remove_journals(self) -> None:
        for journal, mark in zip(self.journals, self._taken, strict=True):
            journal.trim(mark)


def _in_order(steps: Sequence[str], add_before: int) -> StoreFactory:
    class Ordered(ReorderedCheckpoint):
        order, gap = steps, add_before

    return Ordered
