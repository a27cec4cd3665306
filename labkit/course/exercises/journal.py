"""Lesson 02: the padding rule, reading up to the torn tail, and which journals may go."""

from collections.abc import Callable, Iterator
from unittest.mock import patch

from labkit.course.checking.cases import Arguments, Cases, in_any_order
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import storage as drawn
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
    *(Add(5, 0, 300), Commit()),  # the padding has 82 zeros
    *(Add(5, 1, 463), Commit()),  # 9 bytes are left: 1 zero
    *(Add(5, 2, 467), Commit()),  # 5 bytes are left: it spills into the next block
    *(Add(5, 3, 472), Commit()),  # nothing is left: no padding
    *(Fence(6), SetExplicitLac(5, 2), Add(5, 4), Commit()),
)
"""Groups that end everywhere that matters in a block, and every kind of record."""


_ALIGNED = "After the padding the file must go on at a multiple of the alignment."
_SHORT = "Padding is as short as it can be, and none where the file is aligned already."
_STEP_OVER = "Replay must step over the padding to the next record."


def _padding_rule_of(case: Arguments, pad: bytes) -> str:
    offset, alignment = case
    if (offset + len(pad)) % alignment:
        return _ALIGNED
    return _SHORT if len(pad) > len(padding_of(*case)) else _STEP_OVER


@exercise(
    "journal.padding",
    hints=(
        "How many bytes are left up to the next multiple of the alignment? -offset % alignment.",
        "A padding record begins with 8 bytes: the mask -0x100 and the count of zeros, both i32."
        " What if fewer than 8 bytes are left?",
        "The zeros are what is left less 8; if that is negative, go on to the end of the next"
        " block: add the alignment once. Nothing left: no padding at all.",
    ),
    like=padding_of,
    cases=Cases(
        drawn.place_to_pad,
        padding_of,
        _padding_rule_of,
        why=lambda case: f"{-case[0] % case[1]} bytes are left before the next block.",
        of_runs=(_ALIGNED, _SHORT, _STEP_OVER),
    ),
)
def padding(learner: Padding) -> str:
    """The file goes on at a block, and replay steps over what is between."""

    def judged(offset: int, alignment: int) -> bytes:
        pad = learner(offset, alignment)
        if len(pad) >= alignment + 8:
            raise Refused(_padding_rule_of((offset, alignment), pad))
        return pad

    with patch.object(journal, "padding", judged):
        crashes = must_survive(_STEP_OVER, EACH_STEP)
    return (
        f"Replay stepped over your padding in {len(crashes.points)} crashes, each in"
        f" {len(crashes.variants)} ways."
    )


def records_of(data: bytes, start: int) -> list[tuple[int, bytes]]:
    """The records of a journal file from the offset `start` on, as (offset, body)."""
    disk = SimDisk()
    disk.create("current/1.txn").write(0, data)
    return [(record.offset, record.body) for record in JournalScan(disk, 1).records(start)]


def _records_rule_of(case: Arguments, found: list[tuple[int, bytes]]) -> str:
    data, start = case
    expected = records_of(data, start)
    if _offsets(found) == _offsets(expected):
        at, whole, yours = next(
            (at, len(e), len(f)) for (at, e), (_, f) in zip(expected, found, strict=True) if f != e
        )
        return (
            f"The body of a record begins behind its length word: at {at} it has {whole} bytes;"
            f" yours has {yours}."
        )
    if start != BLOCK and found == records_of(data, BLOCK):
        return "Replay begins where LastLogMark says, not before it."
    return "Every whole record counts, once and with all its bytes, and nothing else does."


def _whole_records(case: Arguments) -> str:
    offsets = ", ".join(map(str, _offsets(records_of(*case))))
    return f"Whole records are at {offsets or 'no offset'}."


def _offsets(found: list[tuple[int, bytes]]) -> list[int]:
    return [offset for offset, _ in found]


RECORD_CASES = Cases(drawn.journal, records_of, _records_rule_of, why=_whole_records, first=True)


@exercise(
    "journal.records",
    hints=(
        "Read a length word (i32) and decide: zero ends the file, -0x100 is padding, anything else"
        " is the length of a record.",
        "Padding takes 8 bytes and as many zeros as its second word says. It is not a record, and"
        " the file continues after it.",
        "Before you take a record, see whether all of it is there: offset + 4 + length <="
        " len(data). If not, the tail is torn: return what you have. The same for a length word of"
        " which fewer than 4 bytes are there.",
    ),
    like=records_of,
    cases=RECORD_CASES,
)
def records(learner: Records) -> str:
    """Replay gets every whole record, and a torn tail ends the file without an error."""
    with patch.object(replay, "JournalScan", _scan_with(learner)):
        crashes = must_survive(
            "What was acknowledged must be found by replay.",
            (*EACH_STEP, Restart(), Add(5, 5, MIB), Commit(), Checkpoint(), Add(5, 6), Commit()),
        )
    return (
        f"As the replay of a bookie it lost nothing in {len(crashes.points)} crashes, each in"
        f" {len(crashes.variants)} ways."
    )


def _scan_with(learner: Records) -> type[JournalScan]:
    class LearnersScan(JournalScan):
        """Replay reads with the learner's function."""

        def batches(
            self, start_offset: int = 0, size_bytes: int = BATCH_BYTES
        ) -> Iterator[list[JournalRecord]]:
            data = self.file.read(0, self.file.size())
            for offset, body in learner(data, start_offset or self.end_offset):
                if not 0 <= offset <= len(data) - len(body) - 4:
                    raise Refused(f"The journal has {len(data)} bytes; yours reads at {offset}.")
                ledger_id, entry_id = journal.RECORD_HEADER.struct.unpack_from(data, offset)[1:]
                yield [JournalRecord(offset, ledger_id, entry_id, body)]
                self.end_offset = offset + 4 + len(body)

    return LearnersScan


def removable_journals(file_ids: list[int], mark_file_id: int, max_backups: int) -> list[int]:
    """The journals that may go, oldest first.

    file_ids: the journals that there are, oldest first; mark_file_id: the one that LastLogMark
    points into; max_backups: the number of journals to keep that replay does not need.
    """
    old = [file_id for file_id in file_ids if file_id < mark_file_id]
    return old[: max(0, len(old) - max_backups)]


_NEEDED = "A journal may only go when LastLogMark is in a later one."


def _removable_rule_of(case: Arguments, removed: list[int]) -> str:
    expected = removable_journals(*case)
    if any(file_id >= case[1] for file_id in removed):
        return _NEEDED
    if set(expected) - set(removed) and len(removed) >= len(expected):
        return "The oldest journals go first."
    if len(removed) < len(expected):
        return "A journal that is neither needed nor kept as a backup must go."
    return "journalMaxBackups journals stay although replay does not need them."


@exercise(
    "journal.removable",
    hints=(
        "Replay starts in the journal that LastLogMark points into and reads all later ones.",
        "Of the journals before that one keep the newest max_backups; the rest goes.",
        "old = those with an id below the mark's; old[:len(old) - max_backups] if that is positive."
        " Mind old[:-0].",
    ),
    like=removable_journals,
    cases=Cases(drawn.journals, removable_journals, _removable_rule_of, counts=in_any_order),
)
def removable(learner: Removable) -> str:
    """A journal goes only when replay never needs it again, and no sooner than configured."""
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
        f"Nothing is lost in {len(crashes.points)} crashes, each in {len(crashes.variants)} ways."
    )


def _trim_with(learner: Removable) -> Callable[[Journal, LogMark], None]:
    def trim(self: Journal, mark: LogMark) -> None:
        there = journal_ids(self._disk)
        for file_id in set(learner(there, mark.file_id, self._max_backups)):
            if file_id not in there:
                raise Refused(f"There is no journal {file_id}: choose from {there}.")
            self._disk.remove(f"current/{LogMark(file_id, 0).file_name}")

    return trim
