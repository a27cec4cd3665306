"""Lesson 02: the padding rule, reading up to the torn tail, and which journals may go."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from unittest.mock import patch

from labkit.course.checking.cases import Cases, in_any_order
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import storage as drawn
from labkit.course.runs.trial import must_survive
from labkit.system.storage import journal, replay
from labkit.system.storage.config import MIB
from labkit.system.storage.journal import Journal, journal_ids
from labkit.system.storage.journal_scan import BATCH_BYTES, JournalRecord, JournalScan
from labkit.system.storage.log_mark import LogMark
from labkit.worlds.sim.machine.disk import SimDisk
from labkit.worlds.sim.settings.bookie_script import (
    CONFIG,
    MASTER_KEY,
    Add,
    Checkpoint,
    Commit,
    Fence,
    Restart,
    SetExplicitLac,
    entry_bytes,
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


@dataclass(frozen=True, slots=True)
class PaddingCase:
    """One padding: written at `offset` of a journal."""

    offset: int
    written: bytes

    def __str__(self) -> str:
        left = -self.offset % BLOCK
        return (
            f"padding({self.offset}, {BLOCK}), {left} bytes before the next block:\n"
            f"  {len(self.written)} bytes: {self.written[:8].hex(' ')}"
            + (" ..." if len(self.written) > 8 else "")
        )


@exercise(
    "journal.padding",
    hints=(
        "How many bytes are left up to the next multiple of the alignment? -offset % alignment.",
        "A padding record begins with 8 bytes: the mask -0x100 and the count of zeros, both i32."
        " What if fewer than 8 bytes are left?",
        "The zeros are what is left less 8; if that is negative, go on to the end of the next"
        " block: add the alignment once. Nothing left: no padding at all.",
    ),
    like=journal.padding,
    cases=Cases(
        drawn.place_to_pad,
        journal.padding,
        "After the padding the file must go on at the next multiple of the alignment, with 8 bytes"
        " and zeros up to there.",
    ),
)
def padding(learner: Padding) -> str:
    """The file goes on at a block, and replay steps over what is between."""
    for offset in range(BLOCK, 2 * BLOCK + 1):
        pad = learner(offset, BLOCK)
        if (offset + len(pad)) % BLOCK:
            raise Refused(
                "After the padding the file must go on at a multiple of the alignment.",
                PaddingCase(offset, pad),
            )
        if len(pad) >= BLOCK + 8 or (pad and offset % BLOCK == 0):
            raise Refused(
                "Padding is as short as it can be, and none where the file is aligned already.",
                PaddingCase(offset, pad),
            )
    with patch.object(journal, "padding", learner):
        crashes = must_survive("Replay must step over the padding to the next record.", EACH_STEP)
        _read_groups_of_every_length(learner)
    return (
        f"Held from every offset of a block, and in {len(crashes.points)} crashes, each in"
        f" {len(crashes.variants)} ways."
    )


def _read_groups_of_every_length(learner: Padding) -> None:
    """Write groups that end at every offset of a block, then read the file as replay does."""
    disk = SimDisk()
    file, ends, written = Journal(disk, CONFIG, 1), [BLOCK], []
    for size in range(BLOCK):
        written.append(entry_bytes(5, size, BLOCK - 40 + size))
        file.append(written[-1])
        file.commit()
        ends.append(file.synced.offset)
    read = [record.body for record in JournalScan(disk, 1).records()]
    for data, found, (start, _) in zip(written, [*read, None], pairwise(ends), strict=False):
        if data != found:
            offset = start - BLOCK + len(data)
            raise Refused(
                "Replay must step over the padding to the next record.",
                PaddingCase(offset, learner(offset, BLOCK)),
            )


def records_of(data: bytes, start: int) -> list[tuple[int, bytes]]:
    """The records of a journal file from the offset `start` on, as (offset, body)."""
    disk = SimDisk()
    disk.create("current/1.txn").write(0, data)
    return [(record.offset, record.body) for record in JournalScan(disk, 1).records(start)]


@dataclass(frozen=True, slots=True)
class TailCase:
    """A journal that ends after `size` bytes, read from `start`: the records that are in it, and
    those found.
    """

    size: int
    start: int
    expected: tuple[int, ...]
    found: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"a journal of {self.size} bytes, from offset {self.start} on:\n"
            f"  whole records at {', '.join(map(str, self.expected)) or 'no offset'}\n"
            f"  yours found them at {', '.join(map(str, self.found)) or 'no offset'}"
        )


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
    cases=Cases(
        drawn.journal,
        records_of,
        "Every whole record counts, once and with all its bytes, and nothing else does.",
    ),
)
def records(learner: Records) -> str:
    """Replay gets every whole record, and a torn tail ends the file without an error."""
    data = _journal_bytes()
    for size in range(BLOCK, len(data) + 1):
        _compare_records(
            learner,
            data[:size],
            BLOCK,
            "Every whole record counts, once and with all its bytes, and nothing else does.",
        )
    for start, _ in records_of(data, BLOCK):
        _compare_records(
            learner, data, start, "Replay begins where LastLogMark says, not before it."
        )
    with patch.object(replay, "JournalScan", _scan_with(learner)):
        crashes = must_survive(
            "What was acknowledged must be found by replay.",
            (*EACH_STEP, Restart(), Add(5, 5, MIB), Commit(), Checkpoint(), Add(5, 6), Commit()),
        )
    return (
        f"Right for all {len(data) + 1 - BLOCK} places at which the file can end, and as the replay"
        f" of a bookie in {len(crashes.points)} crashes, each in {len(crashes.variants)} ways."
    )


def _compare_records(learner: Records, data: bytes, start: int, rule: str) -> None:
    found, expected = learner(data, start), records_of(data, start)
    if found == expected:
        return
    if _offsets(found) == _offsets(expected):
        (offset, body), whole = next(
            (f, len(e[1])) for f, e in zip(found, expected, strict=True) if f != e
        )
        raise Refused(
            f"The body of a record begins behind its length word: at {offset} it has {whole} bytes;"
            f" yours has {len(body)}."
        )
    raise Refused(rule, TailCase(len(data), start, _offsets(expected), _offsets(found)))


def _journal_bytes() -> bytes:
    """A real journal up to some of its preallocated zeros."""
    disk = SimDisk()
    file = Journal(disk, CONFIG, 1)
    file.append(journal.ledger_key_record(5, MASTER_KEY))
    for entry_id, size in enumerate((40, 327, 20)):
        file.append(entry_bytes(5, entry_id, size))
    file.commit()
    file.append(entry_bytes(5, 3, 467))
    file.commit()
    file.append(journal.fence_record(5))
    file.commit()
    return disk.open("current/1.txn").read(0, file.synced.offset + 8)


def _offsets(found: list[tuple[int, bytes]]) -> tuple[int, ...]:
    return tuple(offset for offset, _ in found)


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


@dataclass(frozen=True, slots=True)
class TrimCase:
    """Journals, a mark and what went."""

    file_ids: tuple[int, ...]
    mark_file_id: int
    max_backups: int
    removed: tuple[int, ...]
    expected: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"journals {list(self.file_ids)}, LastLogMark in {self.mark_file_id},"
            f" journalMaxBackups {self.max_backups}:\n"
            f"  yours removes {list(self.removed)}; it must be {list(self.expected)}"
        )


@exercise(
    "journal.removable",
    hints=(
        "Replay starts in the journal that LastLogMark points into and reads all later ones.",
        "Of the journals before that one keep the newest max_backups; the rest goes.",
        "old = those with an id below the mark's; old[:len(old) - max_backups] if that is positive."
        " Mind old[:-0].",
    ),
    like=removable_journals,
    cases=Cases(
        drawn.journals,
        removable_journals,
        "Of the journals before the mark the oldest go, all but journalMaxBackups.",
        counts=in_any_order,
    ),
)
def removable(learner: Removable) -> str:
    """A journal goes only when replay never needs it again, and no sooner than configured."""
    with patch.object(Journal, "trim", _trim_with(learner)):
        crashes = must_survive(
            "A journal may only go when LastLogMark is in a later one.",
            (
                *(Add(5, 0), Commit(), Restart()),
                *(Add(5, 1), Commit(), Restart()),
                *(Add(5, 2), Commit(), Checkpoint(), Add(5, 3), Commit()),
            ),
        )
    cases = 0
    for count in range(6):
        for mark in range(1, count + 2):
            for max_backups in range(count + 1):
                _compare_removed(learner, list(range(1, count + 1)), mark, max_backups)
                cases += 1
    return (
        f"Right in {cases} cases, and nothing is lost in {len(crashes.points)} crashes, each in"
        f" {len(crashes.variants)} ways."
    )


def _compare_removed(learner: Removable, ids: list[int], mark: int, max_backups: int) -> None:
    expected = removable_journals(ids, mark, max_backups)
    removed = sorted(learner(list(ids), mark, max_backups))
    if removed == expected:
        return
    case = TrimCase(tuple(ids), mark, max_backups, tuple(removed), tuple(expected))
    if any(file_id >= mark for file_id in removed):
        raise Refused("A journal may only go when LastLogMark is in a later one.", case)
    if set(expected) - set(removed) and len(removed) >= len(expected):
        raise Refused("The oldest journals go first.", case)
    if len(removed) < len(expected):
        raise Refused("A journal that is neither needed nor kept as a backup must go.", case)
    raise Refused("journalMaxBackups journals stay although replay does not need them.", case)


def _trim_with(learner: Removable) -> Callable[[Journal, LogMark], None]:
    def trim(self: Journal, mark: LogMark) -> None:
        there = journal_ids(self._disk)
        for file_id in learner(there, mark.file_id, self._max_backups):
            if file_id not in there:
                raise Refused(f"There is no journal {file_id}: choose from {there}.")
            self._disk.remove(f"current/{LogMark(file_id, 0).file_name}")

    return trim
