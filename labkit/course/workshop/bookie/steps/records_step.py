"""Step 2: reading the journal."""

from collections.abc import Iterator
from itertools import zip_longest
from unittest.mock import patch

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.refused import Refused
from labkit.course.exercises.generated import storage as generated
from labkit.course.runs.trial import must_survive
from labkit.course.workshop.generated_cases import try_calls
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.tracks import ContractLine, FirstTest, Step
from labkit.system.storage import journal, replay
from labkit.system.storage.config import MIB
from labkit.system.storage.journal_scan import CHUNK_BYTES, JournalRecord, JournalScan
from labkit.worlds.sim.machine.disk import SimDisk
from labkit.worlds.sim.settings.bookie_script import (
    Add,
    Checkpoint,
    Commit,
    Fence,
    Restart,
    SetExplicitLac,
)

Records = list[tuple[int, bytes]]

_HEADER_SIZE = 512
_SCRIPT = (
    *(Add(5, 0, 300), Commit()),  # the padding contains 82 zeros
    *(Add(5, 1, 463), Commit()),  # 9 bytes are left, so the padding contains 1 zero
    *(Add(5, 2, 467), Commit()),  # 5 bytes are left, so the padding extends into the next block
    *(Add(5, 3, 472), Commit()),  # no bytes are left, so there is no padding
    *(Fence(6), SetExplicitLac(5, 2), Add(5, 4), Commit()),
    *(Restart(), Add(5, 5, MIB), Commit(), Checkpoint(), Add(5, 6), Commit()),
)
"""A script with groups that end at every interesting position in a block, with every kind of
record, and with several journal files.
"""

_ALL = (
    "`records` returns every complete record, including those after padding, with its offset and"
    " all bytes of its body."
)
_ENDS = "A torn tail, or a length of 0, ends the file without an error."
_START = "Reading starts exactly at the given offset: the bytes before it do not matter."


def _first_test(learner: Learner) -> None:
    data = bytes(512) + b"\0\0\0\5hello" + bytes(8)
    found = learner.call("records", Records, data, _HEADER_SIZE)
    if found != (expected := [(_HEADER_SIZE, b"hello")]):
        raise Refused(
            _rule_broken_by(expected, found),
            f"The data contains one record at offset 512, then zeros; yours returned {found}.",
        )


def records_of(data: bytes, start: int) -> Records:
    """Return the records of a journal file, starting at the offset `start`, as (offset, body)."""
    disk = SimDisk()
    disk.create("current/1.txn").write(0, data)
    return [(record.offset, record.body) for record in JournalScan(disk, 1).records(start)]


def _rule_broken_by(expected: Records, found: Records) -> str:
    if found[: len(expected)] == expected:
        at = found[len(expected)][0]
        return f"{_ENDS} The record at offset {at} is not complete, but yours returned it."
    return f"{_ALL} {_first_difference(expected, found)}"


def _start_rule_of(case: Arguments, found: Records) -> str:
    return f"{_START} {_first_difference(records_of(*case), found)}"


def _first_difference(expected: Records, found: Records) -> str:
    """Describe the first difference between two different lists of records."""
    pairs = enumerate(zip_longest(expected, found))
    number, (right, yours) = next((n, pair) for n, pair in pairs if pair[0] != pair[1])
    prefix = f"The first difference is in record {number}:"
    if right is None or yours is None or right[0] != yours[0]:
        wanted = f"the record at offset {right[0]}" if right else "no further record"
        got = f"one at offset {yours[0]}" if yours else "no further record"
        return f"{prefix} expected {wanted}, got {got}."
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


_CASES = Cases(
    generated.journal,
    records_of,
    lambda case, found: _rule_broken_by(records_of(*case), found),
    explain=_complete_records,
)
_STARTS = Cases(generated.journal_and_start, records_of, _start_rule_of, explain=_complete_records)


def every_complete_record_is_found(learner: Learner) -> str:
    """Check that `records` finds every complete record, and stops at zeros or a torn record."""
    try_calls(learner, "records", Records, _CASES)
    return f"Right for {_CASES.count} generated journals, many of them torn."


def reading_starts_at_the_offset(learner: Learner) -> str:
    """Check that the result does not depend on the bytes before the start offset."""
    try_calls(learner, "records", Records, _STARTS)
    return f"Right for {_STARTS.count} start offsets in generated journals."


def replay_finds_everything(learner: Learner) -> str:
    """Check that a bookie that replays its journal with `records` loses nothing in a crash."""

    class LearnersScan(JournalScan):
        def chunks(
            self, start_offset: int = 0, size_bytes: int = CHUNK_BYTES
        ) -> Iterator[list[JournalRecord]]:
            data = self.file.read(0, self.file.size())
            start = start_offset or self.end_offset
            for offset, body in learner.call("records", Records, data, start):
                ledger_id, entry_id = journal.RECORD_HEADER.struct.unpack_from(data, offset)[1:]
                yield [JournalRecord(offset, ledger_id, entry_id, body)]
                self.end_offset = offset + 4 + len(body)

    with patch.object(replay, "JournalScan", LearnersScan):
        crashes = must_survive(_ALL, _SCRIPT)
    return (
        f"A bookie that uses it for replay lost nothing in crashes at {len(crashes.points)}"
        f" moments, each of {len(crashes.variants)} kinds."
    )


STEP = Step(
    number=2,
    name="reading the journal",
    parts=("records",),
    contract=(
        ContractLine(_ALL, broken_by=("lost", "refused")),
        ContractLine(_ENDS),
        ContractLine(_START),
    ),
    write="the function records in about 12 lines.",
    hints=(
        "`records` is one loop over an offset. Each turn reads a length word, an i32: zero ends the"
        " file, -0x100 marks padding, and any other value is the length of a record.",
        "Padding consists of 8 bytes and as many zeros as its second word says. It is not a record,"
        " and the file continues after it.",
        "Before you read a record, check that all of it exists: offset + 4 + length <= len(data)."
        " If not, the tail is torn: return the records that you have. Do the same if fewer than 4"
        " bytes are left for a length word.",
    ),
    first_test=FirstTest(
        '    data = bytes(512) + b"\\0\\0\\0\\5hello" + bytes(8)\n'
        '    assert records(data, 512) == [(512, b"hello")]\n',
        _first_test,
    ),
    trials=(every_complete_record_is_found, reading_starts_at_the_offset),
    slow_trials=(replay_finds_everything,),
    costs=(),
    challenges=(
        "A journal file may have 2 GiB. Read it in pieces.",
        "A record that no writer produces (for example, with a length of 3) is corrupt. Fail the"
        " start, report file and offset, and do not confuse such a record with a torn tail.",
    ),
    stand_ins=("records",),
    has_storms=False,
)
