"""Step 6: the checkpoint, and LastLogMark."""

import errno
import struct
from collections.abc import Sequence
from itertools import count
from typing import NoReturn

from labkit.course.checking.cases import Arguments, Cases, in_any_order
from labkit.course.checking.refused import Refused
from labkit.course.exercises.generated import storage as generated
from labkit.course.workshop.bookie.common_trials import LOSSES, crashes, orders, storms
from labkit.course.workshop.bookie.store import store_of
from labkit.course.workshop.bookie.trial_disks import crashes_during, failing_operation
from labkit.course.workshop.generated_cases import try_calls
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.tracks import ContractLine, Cost, FirstTest, Step
from labkit.system.storage.log_mark import read_last_mark
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.crash_map.crash_map import VARIANTS
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import Operation, lost
from labkit.worlds.sim.settings.bookie_script import CONFIG, MASTER_KEY, entry_bytes, new_machine

PATH = "current/lastMark"
_MARKS = ((10, 512), (10, 1024), (2**40, 2**31 + 512), (2**40 + 1, 0))
_LEDGERS, _ENTRIES = 4, 16


def _first_test(learner: Learner) -> None:
    disk = SimDisk()
    learner.call("write_last_mark", object, disk, 10, 512)
    if (found := learner.call("read_last_mark", tuple, disk)) != (10, 512):
        raise Refused(f"{_READ} The mark (10, 512) was written; yours returned {found}.")


def mark_is_old_or_new(learner: Learner) -> str:
    """Check that a crash at any disk operation leaves either the old mark or the new one."""
    old, tried = (0, 0), 0
    disk = SimDisk()
    disk.create(f"{PATH}.new").write(0, b"left by an earlier crash")
    for new in _MARKS:
        with crashes_during(disk) as left:
            learner.call("write_last_mark", object, disk, *new)
        for kind, operation, after in left:
            if operation.path == PATH and operation.kind in ("create", "write"):
                raise Refused(_WHOLE, f"yours did: {operation}")
            if (found := tuple(read_last_mark(after))) not in (old, new):
                raise Refused(
                    _WHOLE,
                    f"after a crash ({kind} before {operation}), the mark is {found}; expected"
                    f" {old} or {new}",
                )
        tried += len(left)
        for each in VARIANTS:
            if (found := tuple(read_last_mark(disk.after_crash(each.keep)))) != new:
                raise Refused(
                    _DURABLE, f"after a crash right after it ({each.name}), the mark is {found}"
                )
        if (found := learner.call("read_last_mark", tuple, disk)) != new:
            raise Refused(_READ, f"it must return {new}; yours returned {found}")
        old = new
    return f"The mark was complete after {tried} crashes while it was written."


def disk_errors_are_raised(learner: Learner) -> str:
    """Check that `write_last_mark` raises every disk error, and corrupts no mark."""
    old, new = _MARKS[:2]
    for number in count():
        disk, returned = SimDisk(), True
        learner.call("write_last_mark", object, disk, *old)
        with failing_operation(disk.controller, number) as failed:
            try:
                learner.call("write_last_mark", object, disk, *new)
            except OSError:
                returned = False
                if not failed:
                    raise
        if not failed:
            return "Every error of the disk is raised."
        found = tuple(read_last_mark(disk.after_crash(lost)))
        problem = f"the disk reports an error: {failed[0]}\nafter a power cut, the mark is {found}"
        if found not in (old, new):
            raise Refused(_WHOLE, f"{problem}; expected {old} or {new}")
        if returned and found != new:
            raise Refused(_DURABLE, f"{problem}, but yours did not raise the error")
    raise AssertionError("count() does not end")


def corrupt_marks_count_as_missing(learner: Learner) -> str:
    """Check that a corrupt mark is treated as missing, no matter whether a crash or a person
    corrupted it.
    """
    whole = struct.pack(">qq", 10, 512)
    cases = {
        "no file": None,
        "an empty file": b"",
        "15 bytes": whole[:15],
        "17 bytes": whole + b"\0",
        "a negative file id": struct.pack(">qq", -1, 512),
        "a negative offset": struct.pack(">qq", 10, -1),
    }
    for case, data in cases.items():
        disk = SimDisk()
        disk.create(f"{PATH}.new").write(0, whole)  # may be left over from a crash
        if data is not None:
            disk.create(PATH).write(0, data)
        if (found := learner.call("read_last_mark", tuple, disk)) != (0, 0):
            raise Refused(
                _INVALID,
                f"{case}: read_last_mark must return (0, 0); yours returned {found}",
            )
    return f"{len(cases)} invalid marks count as none."


class _OrderJudge:
    """A bookie that checks each call that a checkpoint makes.

    The bookie has these entries in its memtable, and a fence that no index on disk contains yet.
    Before each call made by `flush`, the bookie acknowledges another add, which advances the
    journal. The call with the number `fails_at` among the calls made by `flush` raises `OSError`.
    """

    START = (10, 1024)

    def __init__(self, entries: Sequence[tuple[int, int, bytes]], fails_at: int = -1) -> None:
        self.entries = entries
        self.calls: list[str] = []
        self.failed = ""
        self.refused: Refused | None = None
        self.is_flushing = False
        self._fails_at, self._numbers = fails_at, count()
        self._journal = self.START
        self._at_swap: tuple[int, int] | None = None
        self._appended: dict[int, tuple[int, bytes]] = {}
        self._in_log: set[int] = set()
        self._set: dict[tuple[int, int], int] = {}
        self._indexed: set[tuple[int, int]] = set()
        self._has_flushed = False
        self.mark = (0, 0)
        self.removed = 0

    def _call(self, call: str, *, changes: bool = True) -> None:
        self.calls.append(f"bookie.{call}")
        if changes and not self.is_flushing:
            self.refuse(_FAST, "the calls above are made in __init__, while no add is processed")
        if self.is_flushing:
            # Pretend that later adds have filled this journal file and started the next one.
            self._journal = self._journal[0] + 1, 1024
            if next(self._numbers) == self._fails_at:
                self.failed = call
                self.calls[-1] += "  # raises OSError"
                raise OSError(errno.EIO, "the disk reports an error")

    def refuse(self, line: str, problem: str) -> NoReturn:
        # The learner's code may catch the exception, so remember the first one.
        self.refused = self.refused or Refused(line, "\n".join((*self.calls, problem)))
        raise self.refused

    def synced(self) -> tuple[int, int]:
        self._call("synced()", changes=False)
        return self._journal

    def set_memtable_aside(self) -> list[tuple[int, int, bytes]]:
        self._call("set_memtable_aside()", changes=False)
        if self.is_flushing:
            self.refuse(_FAST, "flush must not set the memtable aside")
        self._at_swap = self._journal
        return list(self.entries)

    def append(self, ledger_id: int, entry: bytes) -> int:
        self._call(f"append({ledger_id}, {entry!r})")
        location = 1028 + 100 * len(self._appended)
        self._appended[location] = ledger_id, entry
        return location

    def sync_entry_log(self) -> None:
        self._call("sync_entry_log()")
        self._in_log = set(self._appended)

    def set_location(self, ledger_id: int, entry_id: int, location: int) -> None:
        self._call(f"set_location({ledger_id}, {entry_id}, {location})")
        if (ledger_id, entry_id, self._appended.get(location, (0, b""))[1]) not in self.entries:
            self.refuse(_PASSES, "this is not the location that append returned for the entry")
        self._set[ledger_id, entry_id] = location

    def flush_indexes(self) -> None:
        self._call("flush_indexes()")
        for (ledger_id, entry_id), location in self._set.items():
            if location not in self._in_log:
                self.refuse(
                    _POINTS,
                    f"the location of entry {entry_id} of ledger {ledger_id} is flushed, but the"
                    " entry log has not been synced since the entry was appended",
                )
            if self._appended[location][0] != ledger_id:
                self.refuse(
                    _PASSES,
                    f"entry {entry_id} of ledger {ledger_id} was appended as an entry of ledger"
                    f" {self._appended[location][0]}",
                )
        self._indexed = set(self._set)
        self._has_flushed = True

    def move_mark(self, file_id: int, offset: int) -> None:
        self._call(f"move_mark({file_id}, {offset})")
        mark = file_id, offset
        if self._at_swap is None or mark > self._at_swap:
            self.refuse(
                _MEANWHILE,
                "the memtable was set aside when the journal was durable up to"
                f" {self._at_swap}; the"
                " records between there and the mark are in no other file",
            )
        for ledger_id, entry_id, _ in self.entries:
            if (ledger_id, entry_id) not in self._indexed:
                self.refuse(
                    _PASSES,
                    f"entry {entry_id} of ledger {ledger_id} is in the journal before the mark, but"
                    " not in a flushed index",
                )
        if not self._has_flushed:
            self.refuse(
                _PASSES,
                "the indexes have not been flushed, so the fence is not on disk",
            )
        self.mark = mark

    def remove_journals(self, file_id: int) -> None:
        self._call(f"remove_journals({file_id})")
        if file_id > self.mark[0]:
            self.refuse(_LATER, f"LastLogMark on disk is {self.mark}")
        self.removed = file_id


_ENTRIES_OF_TWO = ((5, 0, b"5:0"), (5, 1, b"5:1"), (6, 0, b"6:0"))


def each_call_is_in_order(learner: Learner) -> str:
    """Check that a checkpoint makes each call only after the calls on which it depends."""
    call_count = 0
    for entries in (_ENTRIES_OF_TWO, ()):
        bookie = _OrderJudge(entries)
        _make_checkpoint(learner, bookie)
        if bookie.mark != bookie.START:
            bookie.refuse(_ENDS, f"LastLogMark is {bookie.mark}, expected {bookie.START}")
        if bookie.removed != bookie.START[0]:
            bookie.refuse(_ENDS, f"the journal files before {bookie.START[0]} were not removed")
        call_count += len(bookie.calls)
    return f"{call_count} calls of two checkpoints were made in a safe order."


def failed_checkpoints_raise(learner: Learner) -> str:
    """Check that a checkpoint raises the error of a failed call, and makes no call that depends on
    the failed call.
    """
    for number in count():
        bookie = _OrderJudge(_ENTRIES_OF_TWO, number)
        try:
            _make_checkpoint(learner, bookie)
        except OSError:
            if not bookie.failed:
                raise
            continue
        # Journal files that could not be removed will be removed after the next checkpoint.
        if not bookie.failed or bookie.failed.startswith("remove_journals"):
            return f"{number} errors ended the checkpoint."
        bookie.refuse(_ENDS, "flush returned, although the checkpoint has failed")
    raise AssertionError("count() does not end")


def _make_checkpoint(learner: Learner, bookie: _OrderJudge) -> None:
    try:
        yours = learner.make("Checkpoint", bookie)
        bookie.is_flushing = True
        yours.call("flush", object, bookie)
    finally:
        if bookie.refused is not None:
            raise bookie.refused


_WHOLE = "The file always contains either the complete old mark or the complete new one."
_DURABLE = "When `write_last_mark` returns, the new mark is durable."
_READ = "`read_last_mark` returns the mark that was written last."
_INVALID = "An invalid mark counts as no mark, because replaying too much does no harm."
_FAST = (
    "The start of a checkpoint sets the memtable aside, while no add is processed, and writes"
    " nothing."
)
_POINTS = (
    "Indexes are flushed only after the entry log is synced, so no index on disk points to bytes"
    " that a crash can take away."
)
_PASSES = (
    "LastLogMark never passes a record whose entry is not in the entry log and the index, both"
    " synced."
)
_MEANWHILE = (
    "LastLogMark never passes a record that arrives after the memtable is set aside, so an add that"
    " is acknowledged while a checkpoint runs is as safe as any other."
)
_LATER = "A journal file is removed only after LastLogMark, on disk, points to a later one."
_ENDS = "A checkpoint ends with the mark where the journal was durable when the checkpoint started."


_REMOVABLE = (
    "`removable_journals` returns the files before the one that LastLogMark points into, except the"
    " newest `max_backups` of these, which are kept as backups."
)


def removable_journals(file_ids: list[int], mark_file_id: int, max_backups: int) -> list[int]:
    old = [file_id for file_id in file_ids if file_id < mark_file_id]
    return old[: max(0, len(old) - max_backups)]


def _removable_rule_of(case: Arguments, removed: list[int]) -> str:
    expected = removable_journals(*case)
    if any(file_id >= case[1] for file_id in removed):
        return f"{_REMOVABLE} Replay needs the file that LastLogMark points into and later ones."
    if set(expected) - set(removed) and len(removed) >= len(expected):
        return f"{_REMOVABLE} The oldest journals must be deleted first."
    if len(removed) < len(expected):
        return f"{_REMOVABLE} A journal that is neither needed nor a backup must be deleted."
    return f"{_REMOVABLE} Yours keeps too few backups."


_REMOVALS = Cases(
    generated.journals, removable_journals, _removable_rule_of, comparable=in_any_order
)


def journals_that_replay_needs_are_kept(learner: Learner) -> str:
    """Check that `removable_journals` returns neither journals that replay needs nor those that are
    kept as backups.
    """
    try_calls(learner, "removable_journals", list[int], _REMOVALS)
    return f"Right for {_REMOVALS.count} generated lists of journal files."


def _operations(learner: Learner | None) -> float:
    return len(_written_by(learner)) / (_LEDGERS * _ENTRIES)


def _bytes(learner: Learner | None) -> float:
    return sum(operation.size for operation in _written_by(learner)) / (_LEDGERS * _ENTRIES)


def _written_by(learner: Learner | None) -> list[Operation]:
    """Return the disk operations of one checkpoint of a few ledgers."""
    machine = new_machine(DiskController())
    store = machine.open(LedgerStore if learner is None else store_of(learner), CONFIG)
    for entry_id in range(_ENTRIES):
        for ledger_id in range(_LEDGERS):
            data = entry_bytes(ledger_id, entry_id, 10)
            store.add_entry(ledger_id, entry_id, data, MASTER_KEY)
    store.commit()
    controller = machine.ledgers[0].controller
    before = len(controller.operations)
    store.checkpoint()
    return controller.operations[before:]


STEP = Step(
    number=6,
    name="the checkpoint and LastLogMark",
    parts=("Checkpoint", "write_last_mark", "read_last_mark", "removable_journals"),
    contract=(
        ContractLine(_WHOLE),
        ContractLine(_DURABLE),
        ContractLine(_READ),
        ContractLine(_INVALID),
        ContractLine(_FAST),
        ContractLine(_POINTS),
        ContractLine(_PASSES, broken_by=(*LOSSES, "invented", "refused")),
        ContractLine(_MEANWHILE),
        ContractLine(_LATER),
        ContractLine(_ENDS),
        ContractLine(_REMOVABLE),
    ),
    write=(
        "write_last_mark, read_last_mark, removable_journals and the class Checkpoint in about 40"
        " lines."
    ),
    hints=(
        "A new file that is synced and then renamed over the old one is never half written. The new"
        " name is durable only after `sync_folder`.",
        "`__init__` asks how far the journal is durable, and sets the memtable aside. If `flush`"
        " asked, the mark would pass adds that went to the new memtable in the meantime.",
        "`flush` does five things in this order: append all entries, sync the entry log, set the"
        " locations and flush the indexes, move the mark, remove old journals.",
    ),
    first_test=FirstTest(
        "    write_last_mark(disk, 10, 512)\n    assert read_last_mark(disk) == (10, 512)\n",
        _first_test,
    ),
    trials=(
        *(mark_is_old_or_new, disk_errors_are_raised, corrupt_marks_count_as_missing),
        *(each_call_is_in_order, failed_checkpoints_raise),
        journals_that_replay_needs_are_kept,
    ),
    slow_trials=(crashes, orders, storms),
    costs=(
        Cost("disk operations of a checkpoint per entry", 1.5, _operations),
        Cost("bytes written by a checkpoint per entry", 1.5, _bytes),
    ),
    challenges=(
        "A checkpoint that runs out of disk space is started again later. What does your code do"
        " twice then, and is that safe?",
        "Write the entries in slices of 4 MiB, each with its own sync, and release their memory.",
    ),
)
