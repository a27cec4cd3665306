"""Lesson 02: padding a journal, reading up to a torn tail, and deleting old journals."""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from unittest.mock import patch

from labkit.course.checking.cases import Arguments, Cases, in_any_order
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import storage as generated
from labkit.course.runs.trial import must_survive
from labkit.system.storage import journal, replay
from labkit.system.storage.config import MIB
from labkit.system.storage.journal import Journal, journal_ids
from labkit.system.storage.journal import padding as padding_of
from labkit.system.storage.journal_scan import BATCH_BYTES, JournalRecord, JournalScan
from labkit.system.storage.log_mark import LogMark
from labkit.worlds.sim.machine.disk import SimDisk
from labkit.worlds.sim.settings.bookie_script import (
    Add,
    Checkpoint,
    Commit,
    Fence,
    Restart,
    SetExplicitLac,
)

Padding = Callable[[int, int], bytes]
Records = Callable[[bytes, int], list[tuple[int, bytes]]]
Removable = Callable[[list[int], int, int], list[int]]

BLOCK = 512
EACH_STEP = (
    *(Add(5, 0, 300), Commit()),  # the padding contains 82 zeros
    *(Add(5, 1, 463), Commit()),  # 9 bytes are left, so the padding contains 1 zero
    *(Add(5, 2, 467), Commit()),  # 5 bytes are left, so the padding extends into the next block
    *(Add(5, 3, 472), Commit()),  # no bytes are left, so there is no padding
    *(Fence(6), SetExplicitLac(5, 2), Add(5, 4), Commit()),
)
"""A script with groups that end at every interesting position in a block, and with every kind of
record.
"""


_ALIGNED = "After the padding, the file must continue at a multiple of the alignment."
_SHORT = "Padding must be as short as possible, and empty if the offset is already aligned."
_STEP_OVER = "Replay must be able to skip the padding and find the next record."


def _padding_rule_of(case: Arguments, pad: bytes) -> str:
    offset, alignment = case
    if (offset + len(pad)) % alignment:
        return _ALIGNED
    return _SHORT if len(pad) > len(padding_of(*case)) else _STEP_OVER


@exercise(
    "journal.padding",
    hints=(
        "How many bytes are left before the next multiple of the alignment? -offset % alignment.",
        "A padding record starts with 8 bytes: the mask -0x100 and the number of zeros, both i32."
        " What if fewer than 8 bytes are left?",
        "The number of zeros is the number of bytes left minus 8. If that is negative, add the"
        " alignment, so that the padding extends to the end of the next block. If no bytes are"
        " left, there is no padding.",
    ),
    like=padding_of,
    cases=Cases(
        generated.offset_to_pad,
        padding_of,
        _padding_rule_of,
        explain=lambda case: f"{-case[0] % case[1]} bytes are left before the next block.",
        preferred_rules=(_ALIGNED, _SHORT, _STEP_OVER),
    ),
)
def padding(learner: Padding) -> str:
    """The file continues at a block boundary, and replay skips the padding."""

    def judged(offset: int, alignment: int) -> bytes:
        pad = learner(offset, alignment)
        if len(pad) >= alignment + 8:
            raise Refused(_padding_rule_of((offset, alignment), pad))
        return pad

    with patch.object(journal, "padding", judged):
        crashes = must_survive(_STEP_OVER, EACH_STEP)
    return (
        f"Replay skipped your padding after crashes at {len(crashes.points)} moments, each of"
        f" {len(crashes.variants)} kinds."
    )


def records_of(data: bytes, start: int) -> list[tuple[int, bytes]]:
    """Return the records of a journal file, starting at the offset `start`, as (offset, body)."""
    disk = SimDisk()
    disk.create("current/1.txn").write(0, data)
    return [(record.offset, record.body) for record in JournalScan(disk, 1).records(start)]


def _records_rule_of(case: Arguments, found: list[tuple[int, bytes]]) -> str:
    data, start = case
    expected = records_of(data, start)
    if start != BLOCK and found == records_of(data, BLOCK):
        return "Replay starts at the offset of LastLogMark, not before it."
    for number, (right, yours) in enumerate(zip_longest(expected, found)):
        if right != yours:
            return f"{_ALL_RECORDS} {_first_difference(number, right, yours)}"
    raise AssertionError("the two lists are equal")


_ALL_RECORDS = "Return every complete record, with all of its bytes, and nothing else."


def _first_difference(
    number: int, right: tuple[int, bytes] | None, yours: tuple[int, bytes] | None
) -> str:
    """Describe the first difference between two lists of records. None stands for the end of a
    list.
    """
    prefix = f"The first difference is in record {number}:"
    if right is None or yours is None or right[0] != yours[0]:
        expected = f"the record at offset {right[0]}" if right else "no further record"
        got = f"one at offset {yours[0]}" if yours else "no further record"
        return f"{prefix} expected {expected}, got {got}."
    whole, body = right[1], yours[1]
    if len(whole) != len(body):
        return (
            f"{prefix} the body at offset {right[0]}, which starts after the length word, has"
            f" {len(whole)} bytes; yours has {len(body)}."
        )
    at = next(n for n in range(len(whole)) if whole[n] != body[n])
    return (
        f"{prefix} byte {at} of the body at offset {right[0]} is {whole[at]:#04x}; yours is"
        f" {body[at]:#04x}."
    )


def _complete_records(case: Arguments) -> str:
    offsets = ", ".join(str(offset) for offset, _ in records_of(*case))
    return f"Offsets of complete records: {offsets or 'none'}."


RECORD_CASES = Cases(
    generated.journal, records_of, _records_rule_of, explain=_complete_records, run_first=True
)


@exercise(
    "journal.records",
    hints=(
        "Read a length word (i32): zero marks the end, -0x100 marks padding, and any other value is"
        " the length of a record.",
        "Padding consists of 8 bytes and as many zeros as its second word says. It is not a record,"
        " and the file continues after it.",
        "Before you read a record, check that all of it exists: offset + 4 + length <= len(data)."
        " If not, the tail is torn: return the records that you have. Do the same if fewer than 4"
        " bytes are left for a length word.",
    ),
    like=records_of,
    cases=RECORD_CASES,
)
def records(learner: Records) -> str:
    """Replay receives every complete record and stops at a torn tail without an error."""
    with patch.object(replay, "JournalScan", _scan_with(learner)):
        crashes = must_survive(
            "Replay must find everything that was acknowledged.",
            (*EACH_STEP, Restart(), Add(5, 5, MIB), Commit(), Checkpoint(), Add(5, 6), Commit()),
        )
    return (
        f"A bookie that uses it for replay lost nothing in crashes at {len(crashes.points)}"
        f" moments, each of {len(crashes.variants)} kinds."
    )


def _scan_with(learner: Records) -> type[JournalScan]:
    class LearnersScan(JournalScan):
        def batches(
            self, start_offset: int = 0, size_bytes: int = BATCH_BYTES
        ) -> Iterator[list[JournalRecord]]:
            data = self.file.read(0, self.file.size())
            for offset, body in learner(data, start_offset or self.end_offset):
                if not 0 <= offset <= len(data) - len(body) - 4:
                    raise Refused(
                        f"The journal has {len(data)} bytes, but your function returned a record"
                        f" of {len(body)} bytes at offset {offset}."
                    )
                ledger_id, entry_id = journal.RECORD_HEADER.struct.unpack_from(data, offset)[1:]
                yield [JournalRecord(offset, ledger_id, entry_id, body)]
                self.end_offset = offset + 4 + len(body)

    return LearnersScan


def removable_journals(file_ids: list[int], mark_file_id: int, max_backups: int) -> list[int]:
    """Return the journals that can be deleted, oldest first.

    file_ids: the existing journals, oldest first. mark_file_id: the journal to which LastLogMark
    points. max_backups: how many journals to keep even though replay does not need them.
    """
    old = [file_id for file_id in file_ids if file_id < mark_file_id]
    return old[: max(0, len(old) - max_backups)]


_NEEDED = "A journal can be deleted only if LastLogMark points into a later one."


def _removable_rule_of(case: Arguments, removed: list[int]) -> str:
    expected = removable_journals(*case)
    if any(file_id >= case[1] for file_id in removed):
        return _NEEDED
    if set(expected) - set(removed) and len(removed) >= len(expected):
        return "The oldest journals must be deleted first."
    if len(removed) < len(expected):
        return "A journal that is neither needed nor kept as a backup must be deleted."
    return "journalMaxBackups journals must be kept as backups although replay does not need them."


@exercise(
    "journal.removable",
    hints=(
        "Replay starts in the journal that LastLogMark points into and reads all later ones.",
        "Of the journals before that one, keep the newest max_backups and delete the rest.",
        "Let old be the journals with ids below the mark's. Return old[:len(old) - max_backups] if"
        " that number is positive. Beware of old[:-0].",
    ),
    like=removable_journals,
    cases=Cases(
        generated.journals, removable_journals, _removable_rule_of, comparable=in_any_order
    ),
)
def removable(learner: Removable) -> str:
    """A journal is deleted only if replay no longer needs it and enough backups remain."""
    with patch.object(Journal, "trim", _trim_with(learner)):
        crashes = must_survive(
            _NEEDED,
            (
                *(Add(5, 0), Commit(), Restart()),
                *(Add(5, 1), Commit(), Restart()),
                *(Add(5, 2), Commit(), Checkpoint(), Add(5, 3), Commit()),
            ),
        )
    return (
        f"Nothing was lost in crashes at {len(crashes.points)} moments, each of"
        f" {len(crashes.variants)} kinds."
    )


def _trim_with(learner: Removable) -> Callable[[Journal, LogMark], None]:
    def trim(self: Journal, mark: LogMark) -> None:
        existing = journal_ids(self._disk)
        for file_id in set(learner(existing, mark.file_id, self._max_backups)):
            if file_id not in existing:
                raise Refused(f"Journal {file_id} does not exist; the journals are {existing}.")
            self._disk.remove(f"current/{LogMark(file_id, 0).file_name}")

    return trim
