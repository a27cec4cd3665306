"""Step 1: the journal with group commit."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.bookie.common_trials import LOSSES, crashes, orders, storms
from labkit.course.workshop.bookie.store import LearnersJournal, bound
from labkit.course.workshop.bookie.trial_disks import RecordedAccess, errors_are_raised
from labkit.course.workshop.generated_cases import try_generated
from labkit.course.workshop.learner import Learner, LearnersObject
from labkit.course.workshop.tracks import ContractLine, Cost, FirstTest, Step
from labkit.system.storage.journal import Journal, padding
from labkit.system.storage.journal_scan import JournalScan
from labkit.worlds.sim.machine.disk import SimDisk
from labkit.worlds.sim.machine.disk_operation import Operation, lost
from labkit.worlds.sim.settings.bookie_script import CONFIG, entry_bytes

FILE_ID = 10
BLOCK = 512
HEADER = (b"BKLG" + struct.pack(">i", 6)).ljust(BLOCK, b"\0")
_FILE_IDS = (FILE_ID, 0x18BCFE56806, 2**40)
_SIZES = (0, 20, 100, 900)
_LEFT = (100, 0, 8, 9, 7, 4, 1, 500)
"""How many bytes of the last block a group leaves free."""
_FRAME_SIZE = 4 + len(entry_bytes(5, 0, 0))
_CASES = 300
_ADDS, _GROUP = 64, 8


@dataclass(frozen=True, slots=True)
class GroupsCase:
    """Groups of records, which are given as payload sizes."""

    file_id: int
    groups: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        lines = [f"journal = Journal(disk, {self.file_id})", "journal.seal()  # None"]
        for number, group in enumerate(self.groups):
            lines += [f"journal.append(body)  # {len(entry_bytes(5, 0, n))} bytes" for n in group]
            lines.append(f"group_{number} = journal.seal()")
            if number:
                lines.append(f"journal.write(*group_{number - 1})")
        lines.append(f"journal.write(*group_{len(self.groups) - 1})")
        return "\n".join(lines)


def _path(file_id: int) -> str:
    return f"current/{file_id:x}.txn"


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


def _groups_case(draw: Draw) -> GroupsCase:
    groups = tuple(_group(draw) for _ in range(draw.number(1, 4)))
    return GroupsCase(draw.one_of(_FILE_IDS), groups)


def _group(draw: Draw) -> tuple[int, ...]:
    sizes = [draw.one_of(_SIZES) for _ in range(draw.number(0, 2))]
    used = sum(_FRAME_SIZE + size for size in (*sizes, 0))
    return *sizes, -(used + draw.one_of(_LEFT)) % BLOCK + BLOCK * draw.number(0, 2)


def file_matches_the_format(learner: Learner) -> str:
    """Check that the file matches BookKeeper's format, and is durable when `write` returns."""
    try_generated(learner, _groups_case, _CASES, _test_groups, str)
    return f"Right for {_CASES} random sequences of groups, byte by byte."


_DURABLE_NAME = "The file's header and its name are durable before the first record is."
_OFFSETS = "`append` returns the offset of the record, right after the previous one."
_BYTES = "A group consists of its records, each preceded by its length, and then the padding."
_ONE_SYNC = "`write` puts the group at its offset in one write, and makes it durable with one sync."
_DURABLE = (
    "When `write` returns, a power cut takes nothing of the group or of any group before it, so the"
    " adds can be acknowledged."
)
_MEMORY = "`append` and `seal` do not access the disk."


def _test_groups(learner: Learner, case: GroupsCase) -> None:
    disk, accesses = SimDisk(), list[str]()
    yours = learner.make("Journal", RecordedAccess(disk, accesses), case.file_id)
    if problem := _lost_header(disk, case.file_id):
        raise Refused(_DURABLE_NAME, problem)
    if yours.call("seal", tuple | None) is not None:
        how = "the first `seal` must return None, because no record has been appended"
        raise Refused(_BYTES, how)
    written, waiting, at, entry_id = list[bytes](), list[_Sealed](), BLOCK, 0
    for group in case.groups:
        bodies = [entry_bytes(5, entry_id + n, size) for n, size in enumerate(group)]
        entry_id += len(group)
        expected = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
        expected += padding(at + len(expected), BLOCK)
        accesses.clear()
        _check_append(yours, bodies, at)
        sealed = yours.call("seal", tuple | None)
        _check_seal(yours, sealed, at, expected)
        if accesses:
            raise Refused(_MEMORY, f"yours called {accesses[0]}")
        waiting.append(_Sealed(at, sealed[1], expected))
        written += bodies
        at += len(expected)
        # The next group's records are appended before this group is written.
        if len(waiting) == 2:
            _check_write(yours, disk, case.file_id, waiting.pop(0), written[: -len(bodies)])
    _check_write(yours, disk, case.file_id, waiting.pop(), written)


def _lost_header(disk: SimDisk, file_id: int) -> str:
    path, after = _path(file_id), disk.after_crash(lost)
    if not disk.exists(path):
        names = ", ".join(disk.files("current", "")) or "nothing"
        return f"Journal(disk, {file_id}) must create {path}; the folder contains {names}"
    when = f"after a power cut right after Journal(disk, {file_id}),"
    if not after.exists(path):
        return f"{when} {path} is gone: its name was not durable"
    header = after.open(path).read(0, BLOCK)
    if header == HEADER:
        return ""
    if len(header) < BLOCK:
        return f"{when} {path} has {len(header)} of the header's {BLOCK} bytes"
    return f"{when} the header of {path} has other bytes{_first_difference(header, HEADER)}"


def _check_append(yours: LearnersObject, bodies: Sequence[bytes], at: int) -> None:
    for body in bodies:
        offset = yours.call("append", int, body)
        if offset != at:
            raise Refused(_OFFSETS, f"append must return {at}; yours returned {offset}")
        at += 4 + len(body)


def _check_seal(
    yours: LearnersObject, sealed: tuple[int, bytes] | None, at: int, expected: bytes
) -> None:
    if sealed != (at, expected):
        returned = "None" if sealed is None else f"({sealed[0]}, {len(sealed[1])} bytes)"
        if sealed is not None and sealed[0] == at and len(sealed[1]) == len(expected):
            returned = f"other bytes{_first_difference(sealed[1], expected)}"
        how = f"seal must return ({at}, {len(expected)} bytes); yours returned {returned}"
        raise Refused(_BYTES, how)
    if yours.call("seal", tuple | None) is not None:
        how = "a second seal must return None, because no record was appended in between"
        raise Refused(_BYTES, how)


def _first_difference(yours: bytes, expected: bytes) -> str:
    """Describe where two different byte strings of the same length differ."""
    pairs = enumerate(zip(yours, expected, strict=True))
    word = next(at for at, (a, b) in pairs if a != b) // 4 * 4
    return (
        f": at byte {word}, {yours[word : word + 4].hex(' ')} instead of"
        f" {expected[word : word + 4].hex(' ')}"
    )


class _Sealed(NamedTuple):
    """A group that is waiting to be written, with the data that `seal` returned and the correct
    bytes.
    """

    offset: int
    data: bytes
    expected: bytes


def _check_write(
    yours: LearnersObject, disk: SimDisk, file_id: int, group: _Sealed, so_far: Sequence[bytes]
) -> None:
    if group.data != group.expected:
        how = "a later call has changed the bytes that seal returned for this group"
        raise Refused(_BYTES, how)
    before = len(disk.controller.operations)
    yours.call("write", object, group.offset, group.data)
    done = disk.controller.operations[before:]
    expected = [("write", group.offset, len(group.data)), ("sync", 0, 0)]
    if [(o.kind, o.offset, o.size) for o in done] != expected:
        raise Refused(_ONE_SYNC, "yours did: " + ("; ".join(map(str, done)) or "nothing"))
    found = [record.body for record in JournalScan(disk.after_crash(lost), file_id).records()]
    if found != list(so_far):
        how = f"after a power cut, {len(found)} of {len(so_far)} records are left"
        raise Refused(_DURABLE, how)


def disk_errors_are_raised(learner: Learner) -> str:
    """Check that every disk error is raised, so that the adds concerned are not acknowledged."""
    body = entry_bytes(5, 0, 20)

    def group_to_write(disk: SimDisk) -> Callable[[], object]:
        yours = learner.make("Journal", disk, FILE_ID)
        yours.call("append", int, body)
        return partial(yours.call, "write", object, *yours.call("seal", tuple | None))

    def lost_group(disk: SimDisk) -> str:
        found = [record.body for record in JournalScan(disk.after_crash(lost), FILE_ID).records()]
        return "" if found == [body] else "after a power cut, the group is lost"

    errors_are_raised(
        _DURABLE_NAME,
        lambda disk: partial(learner.make, "Journal", disk, FILE_ID),
        partial(_lost_header, file_id=FILE_ID),
    )
    errors_are_raised(_DURABLE, group_to_write, lost_group)
    return "Every error of the disk is raised, so the adds are not acknowledged."


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
        ContractLine(_DURABLE, broken_by=(*LOSSES, "invented", "refused", "AckFollowsSync")),
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
    trials=(file_matches_the_format, disk_errors_are_raised),
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
