"""Step 1: the journal with group commit."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from labkit.course.checking.exercise import Refused
from labkit.course.checking.generated_cases import Draw
from labkit.course.workshop.bookie.common_trials import crashes, orders, storms
from labkit.course.workshop.bookie.store import LearnersJournal, bound
from labkit.course.workshop.generated_cases import Problem, try_generated
from labkit.course.workshop.learner import Learner, LearnersObject
from labkit.course.workshop.step import ContractLine, Cost, FirstTest, Step
from labkit.system.storage.journal import Journal, padding
from labkit.system.storage.journal_scan import JournalScan
from labkit.worlds.sim.machine.disk import SimDisk
from labkit.worlds.sim.machine.disk_operation import Operation, lost
from labkit.worlds.sim.settings.bookie_script import CONFIG, entry_bytes

FILE_ID = 10
PATH = f"current/{FILE_ID:x}.txn"
BLOCK = 512
HEADER = (b"BKLG" + struct.pack(">i", 6)).ljust(BLOCK, b"\0")
_SIZES = (0, 20, 100, 395, 396, 423, 424, 425, 431, 432, 900)
"""Payload sizes that make groups end at every interesting offset in a block."""
_CASES = 300
_ADDS, _GROUP = 64, 8

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class GroupsCase:
    """Groups of records, given by their payload sizes, and the problem found."""

    groups: Groups
    problem: str

    def __str__(self) -> str:
        lines = ["journal = Journal(disk, 10)"]
        for number, group in enumerate(self.groups):
            lines += [f"journal.append(...)  # payload of {size} bytes" for size in group]
            lines.append(f"group_{number} = journal.seal()")
            if number:
                lines.append(f"journal.write(*group_{number - 1})")
        lines.append(f"journal.write(*group_{len(self.groups) - 1})")
        return "\n".join((*lines, self.problem))


def _first_test(learner: Learner) -> None:
    disk = SimDisk()
    yours = learner.make("Journal", disk, FILE_ID)
    offset = yours.call("append", int, b"hello")
    if offset != BLOCK:
        raise Refused(
            f"{_OFFSETS} The first one is stored after the header, at offset {BLOCK}; yours"
            " returned"
            f" {offset}."
        )
    yours.call("seal", tuple | None)


def _groups(draw: Draw) -> Groups:
    return tuple(
        tuple(draw.one_of(_SIZES) for _ in range(draw.number(1, 3)))
        for _ in range(draw.number(1, 4))
    )


def file_matches_the_format(learner: Learner) -> str:
    """Check that the file matches BookKeeper's format, and is durable when `write` returns."""
    try_generated(_groups, _CASES, partial(_problem, learner), GroupsCase)
    return f"Right for {_CASES} drawn sequences of groups, byte by byte."


_DURABLE_NAME = "The file's header and its name are durable before the first record is."
_OFFSETS = "`append` returns the offset of the record, right after the previous one."
_BYTES = "A group consists of its records, each preceded by its length, and then the padding."
_ONE_SYNC = "`write` puts the group at its offset in one write, and makes it durable with one sync."
_DURABLE = (
    "When `write` returns, a power cut takes nothing of the group or of any group before it, so the"
    " adds can be acknowledged."
)
_MEMORY = "`append` and `seal` do not access the disk."


def _problem(learner: Learner, groups: Groups) -> Problem | None:
    disk = SimDisk()
    yours = learner.make("Journal", disk, FILE_ID)
    after = disk.after_crash(lost)
    if not after.exists(PATH) or after.open(PATH).read(0, BLOCK) != HEADER:
        return (
            _DURABLE_NAME,
            f"after a power cut right after Journal(disk, 10), {PATH} is missing or incomplete",
        )
    written, waiting, at, entry_id = list[bytes](), list[tuple[int, bytes]](), BLOCK, 0
    for group in groups:
        bodies = [entry_bytes(5, entry_id + n, size) for n, size in enumerate(group)]
        entry_id += len(group)
        expected = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
        expected += padding(at + len(expected), BLOCK)
        before = len(disk.controller.operations)
        wrong = _check_append(yours, bodies, at) or _check_seal(yours, at, expected)
        if wrong:
            return wrong
        if len(disk.controller.operations) > before:
            return _MEMORY, f"yours did: {disk.controller.operations[before]}"
        waiting.append((at, expected))
        written += bodies
        at += len(expected)
        # The next group's records are appended before this group is written.
        if len(waiting) == 2:
            wrong = _check_write(yours, disk, *waiting.pop(0), written[: -len(bodies)])
            if wrong:
                return wrong
    return _check_write(yours, disk, *waiting.pop(), written)


def _check_append(yours: LearnersObject, bodies: Sequence[bytes], at: int) -> Problem | None:
    for body in bodies:
        offset = yours.call("append", int, body)
        if offset != at:
            return _OFFSETS, f"append must return {at}; yours returned {offset}"
        at += 4 + len(body)
    return None


def _check_seal(yours: LearnersObject, at: int, expected: bytes) -> Problem | None:
    sealed = yours.call("seal", tuple | None)
    if sealed != (at, expected):
        returned = "None" if sealed is None else f"({sealed[0]}, {len(sealed[1])} bytes)"
        if sealed is not None and sealed[0] == at and len(sealed[1]) == len(expected):
            pairs = enumerate(zip(sealed[1], expected, strict=True))
            first = next(i for i, (a, b) in pairs if a != b)
            returned = f"other bytes, from byte {first} of the group on"
        return _BYTES, f"seal must return ({at}, {len(expected)} bytes); yours returned {returned}"
    again = yours.call("seal", tuple | None)
    if again is not None:
        return _BYTES, "a second seal must return None, because no record was appended in between"
    return None


def _check_write(
    yours: LearnersObject, disk: SimDisk, at: int, data: bytes, so_far: Sequence[bytes]
) -> Problem | None:
    before = len(disk.controller.operations)
    yours.call("write", object, at, data)
    done = disk.controller.operations[before:]
    if [(o.kind, o.offset, o.size) for o in done] != [("write", at, len(data)), ("sync", 0, 0)]:
        return _ONE_SYNC, "yours did: " + ("; ".join(map(str, done)) or "nothing")
    found = [record.body for record in JournalScan(disk.after_crash(lost), FILE_ID).records()]
    if found != list(so_far):
        return _DURABLE, f"after a power cut, {len(found)} of {len(so_far)} records are left"
    return None


def _operations(learner: Learner | None) -> float:
    return len(_written_by(learner)) / _ADDS


def _bytes(learner: Learner | None) -> float:
    return sum(operation.size for operation in _written_by(learner)) / _ADDS


def _written_by(learner: Learner | None) -> list[Operation]:
    kind = Journal if learner is None else bound(LearnersJournal, learner)
    disk = SimDisk()
    journal = kind(disk, CONFIG, FILE_ID)
    for entry_id in range(_ADDS):
        journal.append(entry_bytes(5, entry_id, 100))
        if entry_id % _GROUP == _GROUP - 1:
            journal.commit()
    return disk.controller.operations


STEP = Step(
    number=1,
    name="the journal",
    parts=("Journal",),
    contract=(
        ContractLine(_DURABLE_NAME),
        ContractLine(_OFFSETS),
        ContractLine(_MEMORY),
        ContractLine(_BYTES),
        ContractLine(_ONE_SYNC),
        ContractLine(_DURABLE, broken_by=("lost", "invented", "refused", "AckFollowsSync")),
    ),
    write=(
        "the class Journal in about 30 lines: the header, the records and their padding, and one"
        " sync for each group."
    ),
    hints=(
        "Keep the open group in a bytearray, and remember at which offset of the file it starts."
        " `append` then needs no disk: the record's offset is the start plus the bytes so far.",
        "Padding takes 8 bytes and some zeros. If fewer than 8 bytes are left in the block, the"
        " zeros continue to the end of the next block, so the group grows by 512 bytes more.",
        "`seal` returns the offset and a copy of the group, then adds the group's size, including"
        " the padding, to the offset, and starts an empty group. `write` is `file.write`, then"
        " `file.sync`.",
    ),
    first_test=FirstTest(
        "    journal = Journal(disk, 10)\n"
        '    assert journal.append(b"hello") == 512   # right after the header\n',
        _first_test,
    ),
    trials=(file_matches_the_format,),
    slow_trials=(crashes, orders, storms),
    costs=(
        Cost(f"disk operations per add, with groups of {_GROUP}", 1.0, _operations),
        Cost(f"bytes written per add, with groups of {_GROUP}", 1.1, _bytes),
    ),
    challenges=(
        "Preallocate: labkit writes zeros ahead, so that a sync need not update the file's length.",
        "Start a new file when this one is full (journalMaxSizeMB), so that old files can be"
        " deleted.",
        "A record has no checksum. Which bytes could a reader mistake for a record?",
    ),
)
