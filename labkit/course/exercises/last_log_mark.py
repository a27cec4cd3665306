"""Lesson 04: from where replay reads, and in which order a checkpoint goes."""

from collections.abc import Callable, Sequence

from labkit.course.checking.cases import Cases
from labkit.course.checking.exercise import Refused, exercise, in_order
from labkit.course.exercises.generated import storage as drawn
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
    """Whether replay, started at `mark`, applies the record that begins at `record`."""
    return record >= mark


@exercise(
    "last_log_mark.replay",
    hints=(
        "A mark and a record's place are both LogMarks: a file id, and an offset in that file. A"
        " later journal begins again at a small offset.",
        "Everything before the mark is in entry log and index. The record that begins exactly at"
        " the mark is the first that is not.",
        "LogMarks are tuples: Python compares the file ids, and only if they are equal the offsets."
        " One comparison is enough.",
    ),
    like=must_replay,
    cases=Cases(drawn.marks, must_replay, lambda _, said: _TOO_EARLY if said else _LEFT_OUT),
)
def replay(learner: MustReplay) -> str:
    """Replay applies every record from the mark on, and none before it."""
    crashes = crash_map(TWO_JOURNALS, store_factory=_replaying(learner))
    if not crashes.is_safe:
        raise Refused(_LEFT_OUT, CrashMapView(crashes))
    return f"Nothing lost in {len(crashes.points) * len(crashes.variants)} crashes."


_LEFT_OUT = (
    "Replay must apply every record from the mark on: one that it leaves out was acknowledged, and"
    " only the journal has it."
)
_TOO_EARLY = (
    "Replay must leave out what lies before the mark: it is on disk already, its ledger may have"
    " been deleted since, and its journal may be gone."
)


def _replaying(decide: MustReplay) -> StoreFactory:
    class Replaying(LedgerStore):
        """Asks for every record of every journal whether it must be applied."""

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

# What breaks when the first step does not come before the second; the first match is reported.
_RULES = (
    (TAKE, PERSIST, "A mark must be taken before it can be persisted."),
    (INDEX, PERSIST, "LastLogMark must not pass an entry that is not in entry log and index yet."),
    (LOG, INDEX, "The index can only point to where the entry log has put an entry."),
    (ASIDE, LOG, "Only the memtable that was set aside is written."),
    (PERSIST, REMOVE, "A journal may go only when the persisted mark needs it no more."),
    (
        TAKE,
        ASIDE,
        "The mark must be taken before the memtable is set aside: an add that lands in between is"
        " before the mark, and in the memtable that is not written.",
    ),
)

INSIDE: tuple[ScriptStep, ...] = (
    *(Add(5, 0), Commit(), Restart(), Add(5, 1), Commit()),
    Checkpoint(during=(Add(5, 2), Commit())),
)


@exercise(
    "last_log_mark.checkpoint",
    hints=(
        "While a checkpoint runs, clients go on adding. Ask of every two neighbours: what if an add"
        " is acknowledged just between them?",
        "Taking the mark and persisting it are two steps, far apart: one is a promise about the"
        " past, the other passes that promise on to the next start.",
        "First take the mark, while everything that it covers is in the memtable. Then write the"
        " memtable to disk, log before index. What the next start relies on comes last.",
    ),
)
def checkpoint(learner: Sequence[str]) -> str:
    """LastLogMark never passes what is not on disk, whenever an add lands and the power fails."""
    order = in_order(STEPS, learner)
    broken = next((rule for a, b, rule in _RULES if _is_reversed(order, a, b)), None)
    cell_count = 0
    for gap in range(len(STEPS) + 1):
        crashes = crash_map(INSIDE, store_factory=_in_order(order, gap))
        cell_count += len(crashes.points) * len(crashes.variants)
        if broken and not crashes.is_safe:
            raise Refused(broken, CrashMapView(crashes))
    if broken:
        raise Refused(broken)
    return f"Nothing lost in {cell_count} crashes, with an add before, between and after the steps."


def _is_reversed(order: Sequence[str], first: str, second: str) -> bool:
    """Whether the second step comes first, and about this checkpoint: before the mark is taken,
    what goes are journals that the last checkpoint's mark made superfluous.
    """
    is_about_the_last = second == REMOVE and order.index(REMOVE) < order.index(TAKE)
    return order.index(second) < order.index(first) and not is_about_the_last


class ReorderedCheckpoint(LedgerStore):
    """Does a checkpoint's steps in another order; adds land before the step of number `gap`."""

    order: Sequence[str] = STEPS
    gap = 0

    def begin_checkpoint(self) -> Flush:
        self._taken = (START,) * len(self.journals)
        self._places: list[tuple[int, int, int]] = []
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
        self.flushing, self.memtable = self.memtable, Memtable()

    def _write_log(self) -> None:
        for ledger_id, entry_id, data in self.flushing or ():
            [location] = self.entry_logger.append(ledger_id, [data])
            self._places.append((ledger_id, entry_id, location))
        self.entry_logger.sync()

    def _write_index(self) -> None:
        for ledger_id, entry_id, location in self._places:
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
