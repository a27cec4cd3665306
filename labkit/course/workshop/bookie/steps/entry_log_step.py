"""Step 4: the entry log."""

import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from labkit.course.checking.cases import Cases
from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.exercises.generated import storage as generated
from labkit.course.workshop.bookie.common_trials import LOSSES, crashes, orders, storms
from labkit.course.workshop.bookie.store import LearnersEntryLogger, bound
from labkit.course.workshop.bookie.trial_disks import (
    errors_are_raised,
    failing_operation,
    unreadable_files,
)
from labkit.course.workshop.generated_cases import try_calls, try_generated
from labkit.course.workshop.learner import Learner, LearnersObject
from labkit.course.workshop.tracks import ContractLine, Cost, FirstTest, Step
from labkit.system.storage.entry_log import LOG_HEADER, EntryLogger, location_of
from labkit.worlds.sim.machine.disk import SimDisk, SimFile
from labkit.worlds.sim.machine.disk_operation import Operation, lost
from labkit.worlds.sim.settings.bookie_script import CONFIG, entry_bytes

PATH = "current/a.log"
HEADER = (b"BKLO" + struct.pack(">i", 1)).ljust(LOG_HEADER.size, b"\0")
_CASES = 200
_ADDS = 64
_IDS_SIZE = 16

Syncs = tuple[tuple[int, ...], ...]
"""The sizes of the entries that are appended before each sync."""


def _first_test(learner: Learner) -> None:
    yours = learner.make("EntryLog", SimDisk().create(PATH))
    offset = yours.call("append", int, bytes(16))
    if offset != LOG_HEADER.size + 4:
        raise Refused(
            f"{_PLACES} For the first entry, this is {LOG_HEADER.size + 4}, after the header"
            " and the"
            f" length; yours returned {offset}."
        )


def _syncs(draw: Draw) -> Syncs:
    return tuple(
        tuple(draw.one_of((_IDS_SIZE, 36, 500, 3000)) for _ in range(draw.number(0, 3)))
        for _ in range(draw.number(1, 4))
    )


def _shown(syncs: Syncs) -> str:
    lines = ["log = EntryLog(file)"]
    for group in syncs:
        lines += [f"log.append(...)  # {size} bytes" for size in group]
        lines.append("log.sync()")
    return "\n".join(lines)


def _entry(entry_id: int, size: int) -> bytes:
    return struct.pack(">qq", 5, entry_id).ljust(size, b"e")


def log_matches_the_format(learner: Learner) -> str:
    """Check that the log matches BookKeeper's format, is durable after `sync`, and can be read."""
    try_generated(learner, _syncs, _CASES, _test_log, _shown)
    return f"Right for {_CASES} generated logs, byte by byte, with one write per sync."


_PLACES = "`append` returns the offset of the entry's bytes, which follow its length."
_BYTES = "After `sync`, the header and all entries, each preceded by its length, are durable."
_MEMORY = "Only `sync` writes to the disk: a new log and `append` keep everything in memory."
_ONE_WRITE = "`sync` writes everything new in a single write, and syncs once."
_ONCE = "Bytes that were synced are never written again."
_FOUND = "`read_entry` finds every entry at its offset."
_NOT_THERE = (
    "For an incomplete entry or another entry, `read_entry` returns None, because an index may"
    " point to bytes that were lost in a crash."
)
_LOCATION = "The upper 32 bits of a location are the log id, the lower 32 bits the offset."
_BOUNDED = "A corrupt length does not make `read_entry` ask for more bytes than the file has."


def _check_sync(yours: LearnersObject, disk: SimDisk, synced: int) -> None:
    before = len(disk.controller.operations)
    yours.call("sync", object)
    new = disk.controller.operations[before:]
    changed = next((o for o in new if o.kind == "write" and o.offset < synced), None)
    if changed is not None:
        raise Refused(_ONCE, f"{synced} bytes were already synced; yours did: {changed}")
    done = [operation.kind for operation in new]
    if done not in (["write", "sync"], ["sync"], []):
        raise Refused(_ONE_WRITE, f"yours did: {', '.join(done)}")


def _test_log(learner: Learner, syncs: Syncs) -> None:
    disk = SimDisk()
    file = disk.create(PATH)
    disk.sync_folder("current")
    begun = len(disk.controller.operations)
    yours, data, stored = learner.make("EntryLog", file), HEADER, list[tuple[int, bytes]]()
    synced = 0
    for group in syncs:
        for size in group:
            entry = _entry(len(stored), size)
            offset = yours.call("append", int, entry)
            if offset != len(data) + 4:
                how = f"append must return {len(data) + 4}; yours returned {offset}"
                raise Refused(_PLACES, how)
            stored.append((offset, entry))
            data += struct.pack(">i", len(entry)) + entry
        if (found := yours.call("size", int)) != len(data):
            raise Refused(_PLACES, f"size must return {len(data)}; yours returned {found}")
        if written := disk.controller.operations[begun:]:
            raise Refused(_MEMORY, f"before sync was called, yours did: {written[0]}")
        _check_sync(yours, disk, synced)
        begun, synced = len(disk.controller.operations), len(data)
        if lost_data := _lost_data(disk, data):
            raise Refused(_BYTES, lost_data)
    for entry_id, (offset, entry) in enumerate(stored):
        if learner.call("read_entry", bytes | None, file, offset, 5, entry_id) != entry:
            how = f"read_entry(file, {offset}, 5, {entry_id}) returned something else"
            raise Refused(_FOUND, how)


def _lost_data(disk: SimDisk, data: bytes) -> str:
    left = disk.after_crash(lost).open(PATH)
    if left.read(0, left.size()) == data:
        return ""
    return f"after a power cut, the file has {left.size()} bytes; expected these {len(data)} bytes"


def disk_errors_are_raised(learner: Learner) -> str:
    """Check that neither `sync` nor `read_entry` hides a disk error."""
    entry = _entry(0, 36)
    data = HEADER + struct.pack(">i", len(entry)) + entry

    def log_to_sync(disk: SimDisk) -> Callable[[], object]:
        file = disk.create(PATH)
        disk.sync_folder("current")
        yours = learner.make("EntryLog", file)
        yours.call("append", int, entry)
        return partial(yours.call, "sync", object)

    errors_are_raised(_BYTES, log_to_sync, partial(_lost_data, data=data))
    _check_second_sync(learner, entry, data)
    disk = SimDisk()
    file = disk.create(PATH)
    file.write(0, data)
    with unreadable_files(disk.controller):
        try:
            learner.call("read_entry", bytes | None, file, len(HEADER) + 4, 5, 0)
        except OSError:
            return "Every error of the disk is raised."
    raise Refused(
        _NOT_THERE,
        "the disk cannot read the file, so nobody knows whether the entry is there; read_entry must"
        " raise the error, but yours returned",
    )


def _check_second_sync(learner: Learner, entry: bytes, data: bytes) -> None:
    """Check that a `sync` after one whose write failed writes everything."""
    disk = SimDisk()
    yours = learner.make("EntryLog", disk.create(PATH))
    disk.sync_folder("current")
    yours.call("append", int, entry)
    with failing_operation(disk.controller, 0, OSError), suppress(OSError):
        yours.call("sync", object)
    yours.call("sync", object)
    if lost_data := _lost_data(disk, data):
        raise Refused(
            _BYTES,
            "log = EntryLog(file)\nlog.append(...)\n"
            f"log.sync()  # the write fails: OSError\nlog.sync()\n{lost_data}",
        )


class _CountedFile(SimFile):
    """A file that records the largest number of bytes requested by a single read."""

    max_requested = 0

    def __init__(self, file: SimFile) -> None:
        super().__init__(file.disk, file.inode)

    def read(self, offset: int, size: int) -> bytes:
        self.max_requested = max(self.max_requested, size)
        return super().read(offset, size)


def missing_entries_are_none(learner: Learner) -> str:
    """Check that `read_entry` returns None if the requested entry is missing or incomplete."""
    entry_ids = 5, 7
    entry = entry_bytes(*entry_ids, 100)
    whole = HEADER + struct.pack(">i", len(entry)) + entry
    at = len(HEADER)
    cases: tuple[tuple[str, bytes, int, int, int], ...] = (
        *(
            (f"an entry with the ids {entry_ids}", whole, at + 4, *other_ids)
            for other_ids in ((5, 8), (6, 7), (6, 6), (7, 5), (5 + 2**32, 7), (5, 7 + 2**32))
        ),
        ("an offset past the end", whole, len(whole) + 4, 5, 7),
        ("an entry truncated by the end of the file", whole[:-1], at + 4, 5, 7),
        ("a file that ends inside the ids", whole[: at + 12], at + 4, 5, 7),
        *(
            (f"a length of {size}", whole[:at] + struct.pack(">i", size) + entry, at + 4, 5, 7)
            for size in (-1, 0, 15, len(entry) + 1, 2 * len(whole), 2**16, 2**29, 2**31 - 1)
        ),
        ("zeros", HEADER + bytes(200), at + 4, 0, 0),
    )
    for case, data, offset, ledger_id, entry_id in cases:
        file = _CountedFile(SimDisk().create(PATH))
        file.write(0, data)
        call = f"read_entry(file, {offset}, {ledger_id}, {entry_id})"
        try:
            found = learner.call("read_entry", bytes | None, file, offset, ledger_id, entry_id)
        except Exception as error:
            error.add_note(f"{case}: {call}")
            raise
        if found is not None:
            raise Refused(
                _NOT_THERE,
                f"{case}: {call} must return None; yours returned {len(found)} bytes",
            )
        if file.max_requested > max(len(data), LOG_HEADER.size):
            raise Refused(
                _BOUNDED,
                f"{case}: the file has {len(data)} bytes; {call} asked for {file.max_requested}",
            )
    return f"Right for {len(cases)} locations that do not lead to the entry."


_LOCATIONS = Cases(generated.log_and_offset, location_of, _LOCATION)


def a_location_names_log_and_offset(learner: Learner) -> str:
    """Check that `location_of` packs the log id and the offset so that a read can find both."""
    try_calls(learner, "location_of", int, _LOCATIONS)
    return f"Right for {_LOCATIONS.count} generated locations."


def _operations(learner: Learner | None) -> float:
    return len(_written_by(learner)) / _ADDS


def _bytes(learner: Learner | None) -> float:
    return sum(operation.size for operation in _written_by(learner)) / _ADDS


def _written_by(learner: Learner | None) -> list[Operation]:
    """Return the disk operations on the log when entries are flushed in two halves."""
    disk = SimDisk()
    kind = EntryLogger if learner is None else bound(LearnersEntryLogger, learner)
    logger = kind([disk], CONFIG)
    for entry_id in range(_ADDS):
        logger.append(5, [entry_bytes(5, entry_id, 10)])
        if entry_id % (_ADDS // 2) == _ADDS // 2 - 1:
            logger.sync()
    written = [o for o in disk.controller.operations if o.kind in ("write", "sync")]
    return [o for o in written if o.path.endswith(".log")]


STEP = Step(
    number=4,
    name="the entry log",
    parts=("EntryLog", "read_entry", "location_of"),
    contract=(
        ContractLine(_PLACES),
        ContractLine(_MEMORY),
        ContractLine(_ONCE),
        ContractLine(_ONE_WRITE),
        ContractLine(_BYTES, broken_by=(*LOSSES, "invented", "refused")),
        ContractLine(_FOUND),
        ContractLine(_NOT_THERE),
        ContractLine(_BOUNDED),
        ContractLine(_LOCATION),
    ),
    write="the class EntryLog and the functions read_entry and location_of in about 35 lines.",
    hints=(
        "Keep two things: how many bytes are in the file, and a bytearray of what comes next. The"
        " header is the first thing in the bytearray.",
        "After `sync` has written the bytearray at the end of the file, empty it, so that the next"
        " `sync` writes only what is new.",
        "`read_entry` reads 20 bytes from `offset - 4`: length, ledger id, entry id. Compare the"
        " ids, then compare offset + length with `file.size()`, and only then read the entry.",
    ),
    first_test=FirstTest(
        "    log = EntryLog(file)\n    assert log.append(entry) == 1028   # header, length\n",
        _first_test,
    ),
    trials=(
        *(log_matches_the_format, disk_errors_are_raised),
        *(missing_entries_are_none, a_location_names_log_and_offset),
    ),
    slow_trials=(crashes, orders, storms),
    costs=(
        Cost("disk operations of the log per flushed entry", 1.5, _operations),
        Cost("bytes written to the log per flushed entry", 1.0, _bytes),
    ),
    challenges=(
        "When a log is full, append a ledgers map and store its offset in the header, so that"
        " garbage collection need not read the whole log. `labkit shell` and BookKeeper's shell"
        " show the map.",
        "A reader that catches up asks for entries in order. Read ahead, and count the reads.",
    ),
)
