"""Step 3: the entry log."""

import struct
from dataclasses import dataclass
from functools import partial

from labkit.course.checking.draw import Draw
from labkit.course.checking.exercise import Refused
from labkit.course.workshop.bookie.inside import crashes, orders, storms
from labkit.course.workshop.bookie.store import LearnersEntryLogger, bound
from labkit.course.workshop.generated_cases import Problem, try_drawn
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import Figure, RedTest, Step
from labkit.system.storage.entry_log import LOG_HEADER, EntryLogger
from labkit.worlds.sim.machine.disk import SimDisk, SimFile
from labkit.worlds.sim.machine.disk_operation import lost
from labkit.worlds.sim.settings.bookie_script import CONFIG, entry_bytes

PATH = "current/a.log"
HEADER = (b"BKLO" + struct.pack(">i", 1)).ljust(LOG_HEADER.size, b"\0")
_CASES = 200
_ADDS = 64

Syncs = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class LogCase:
    """Entries by the sizes of their payloads, synced group by group, and what went wrong."""

    syncs: Syncs
    problem: str

    def __str__(self) -> str:
        lines = ["log = EntryLog(file)"]
        for group in self.syncs:
            lines += [f"log.append(...)  # payload of {size} bytes" for size in group]
            lines.append("log.sync()")
        return "\n".join((*lines, self.problem))


def _red(learner: Learner) -> None:
    yours = learner.make("EntryLog", SimDisk().create(PATH))
    offset = yours.call("append", int, bytes(16))
    if offset != LOG_HEADER.size + 4:
        raise Refused(
            "The first entry lies behind the header and its length, at offset"
            f" {LOG_HEADER.size + 4}; yours said {offset}."
        )


def _syncs(draw: Draw) -> Syncs:
    return tuple(
        tuple(draw.one_of((0, 20, 500, 3000)) for _ in range(draw.number(0, 3)))
        for _ in range(draw.number(1, 4))
    )


def entries_lie_where_they_should(learner: Learner) -> str:
    """Every byte of the log is BookKeeper's, durable after `sync`, and found again."""
    try_drawn(_syncs, _CASES, partial(_problem, learner), LogCase)
    return f"Right for {_CASES} drawn logs, byte by byte, and none took more than one write a sync."


_PLACES = "`append` returns where the entry's bytes begin: behind its length."
_BYTES = "After `sync` the header and all entries, each behind its length, are durable."
_ONE_WRITE = "`sync` writes what is new, in one write, and syncs once."
_FOUND = "`read_entry` finds every entry at its offset."


def _problem(learner: Learner, syncs: Syncs) -> Problem | None:
    disk = SimDisk()
    file = disk.create(PATH)
    disk.sync_folder("current")
    yours, data, places = learner.make("EntryLog", file), HEADER, list[tuple[int, bytes]]()
    for group in syncs:
        for size in group:
            entry = entry_bytes(5, len(places), size)
            offset = yours.call("append", int, entry)
            if offset != len(data) + 4:
                return _PLACES, f"append must return {len(data) + 4}; yours returned {offset}"
            places.append((offset, entry))
            data += struct.pack(">i", len(entry)) + entry
            if yours.call("size", int) != len(data):
                return _PLACES, f"size must return {len(data)}; yours {yours.call('size', int)}"
        before = len(disk.fuse.operations)
        yours.call("sync", object)
        done = [operation.kind for operation in disk.fuse.operations[before:]]
        if done not in (["write", "sync"], ["sync"], []):
            return _ONE_WRITE, f"yours did: {', '.join(done)}"
        if places:
            left = disk.after_crash(lost).open(PATH)
            if left.read(0, left.size()) != data:
                return _BYTES, f"after a power cut it has {left.size()} bytes of {len(data)}"
    for entry_id, (offset, entry) in enumerate(places):
        if learner.call("read_entry", bytes | None, file, offset, 5, entry_id) != entry:
            return _FOUND, f"read_entry(file, {offset}, 5, {entry_id}) found something else"
    return None


def what_is_not_there_is_none(learner: Learner) -> str:
    """A location that leads to other bytes, or to half an entry, gives None."""
    entry = entry_bytes(5, 7, 100)
    whole = HEADER + struct.pack(">i", len(entry)) + entry
    at = len(HEADER)
    cases: tuple[tuple[str, bytes, int, int, int], ...] = (
        ("another entry's ids", whole, at + 4, 5, 8),
        ("another ledger's ids", whole, at + 4, 6, 7),
        ("an offset behind the end", whole, len(whole) + 4, 5, 7),
        ("an entry that the file's end cuts", whole[:-1], at + 4, 5, 7),
        ("a file that ends inside the ids", whole[: at + 12], at + 4, 5, 7),
        *(
            (f"a length of {size}", whole[:at] + struct.pack(">i", size) + entry, at + 4, 5, 7)
            for size in (-1, 0, 15, 2**31 - 1)
        ),
        ("zeros", HEADER + bytes(200), at + 4, 0, 0),
    )
    for words, data, offset, ledger_id, entry_id in cases:
        file: SimFile = SimDisk().create(PATH)
        file.write(0, data)
        found = learner.call("read_entry", bytes | None, file, offset, ledger_id, entry_id)
        if found is not None:
            raise Refused(
                "What is not there whole, or is another entry, is None: an index may point to bytes"
                " that a crash took.",
                f"{words}: read_entry(file, {offset}, {ledger_id}, {entry_id}) must return None;"
                f" yours returned {len(found)} bytes",
            )
    return f"Right for {len(cases)} places at which no such entry lies."


def _operations(learner: Learner | None) -> float:
    disk = SimDisk()
    kind = EntryLogger if learner is None else bound(LearnersEntryLogger, learner)
    logger = kind([disk], CONFIG)
    for entry_id in range(_ADDS):
        logger.append(5, [entry_bytes(5, entry_id, 10)])
    logger.sync()
    written = [o for o in disk.fuse.operations if o.kind in ("write", "sync")]
    return len([o for o in written if o.path.endswith(".log")]) / _ADDS


STEP = Step(
    number=3,
    name="the entry log",
    parts=("EntryLog", "read_entry"),
    invariants=(
        "What `sync` has returned for is durable: only then does an index point to it.",
        "Bytes that were synced never change again.",
        "A location leads to the entry that was asked for, whole, or to nothing.",
    ),
    write="the class EntryLog and the function read_entry, about 35 lines.",
    red=RedTest(
        "    log = EntryLog(file)\n    assert log.append(entry) == 1028   # header, length\n", _red
    ),
    trials=(entries_lie_where_they_should, what_is_not_there_is_none),
    worlds=(crashes, orders, storms),
    figures=(Figure("disk operations of the log for each entry of a flush", 1.5, _operations),),
    challenges=(
        "A full log gets a ledgers map and its place in the header, so garbage collection need not"
        " read all of it. Add it: `labkit shell` and BookKeeper's shell show it.",
        "A reader that catches up asks for entries in order: read ahead, and count the reads.",
    ),
)
