"""Step 5: the checkpoint, and LastLogMark."""

import struct

from labkit.course.checking.exercise import Refused
from labkit.course.workshop.bookie.inside import crashes, orders, storms
from labkit.course.workshop.bookie.store import store_of
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import Figure, RedTest, Step
from labkit.system.storage.log_mark import read_last_mark
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.crash_map.crash_map import VARIANTS
from labkit.worlds.sim.machine.disk import Fuse, SimDisk
from labkit.worlds.sim.settings.bookie_script import CONFIG, MASTER_KEY, entry_bytes, new_machine

PATH = "current/lastMark"
_LEDGERS, _ENTRIES = 4, 16


def _red(learner: Learner) -> None:
    disk = SimDisk()
    learner.call("write_last_mark", object, disk, 10, 512)
    if (found := learner.call("read_last_mark", tuple, disk)) != (10, 512):
        raise Refused(f"The mark that was written is read; yours read {found}.")


def the_mark_is_whole_or_the_old_one(learner: Learner) -> str:
    """A crash at any operation leaves the old mark or the new one."""
    old, new, tried = (10, 512), (2**40, 2**31 + 512), 0
    left: list[tuple[str, SimDisk]] = []

    def watch(operation: object) -> None:
        left.extend((f"{v.name} before {operation}", disk.after_crash(v.keep)) for v in VARIANTS)

    fuse = Fuse()
    disk = SimDisk(fuse)
    learner.call("write_last_mark", object, disk, *old)
    fuse.watch = watch
    learner.call("write_last_mark", object, disk, *new)
    fuse.watch = None
    for where, after in left:
        tried += 1
        if (found := tuple(read_last_mark(after))) not in (old, new):
            raise Refused(
                "At every moment there is the old mark or the new one, whole.",
                f"a crash ({where}) leaves the mark {found}; before it was {old}, then {new}",
            )
    for variant in VARIANTS:
        after = disk.after_crash(variant.keep)
        if tuple(read_last_mark(after)) != new:
            raise Refused(
                "When `write_last_mark` returns the new mark is durable.",
                f"a crash right after it ({variant.name}) leaves {tuple(read_last_mark(after))}",
            )
    return f"The mark was whole in {tried} crashes while it was written."


def odd_marks_are_none(learner: Learner) -> str:
    """A mark that a crash or a person spoilt is before every journal."""
    whole = struct.pack(">qq", 10, 512)
    cases = {
        "no file": None,
        "an empty file": b"",
        "15 bytes": whole[:15],
        "17 bytes": whole + b"\0",
        "a negative file id": struct.pack(">qq", -1, 512),
        "a negative offset": struct.pack(">qq", 10, -1),
    }
    for words, data in cases.items():
        disk = SimDisk()
        if data is not None:
            disk.create(PATH).write(0, data)
        if (found := learner.call("read_last_mark", tuple, disk)) != (0, 0):
            raise Refused(
                "A mark that is not whole counts as none: replaying too much does no harm.",
                f"{words}: read_last_mark must return (0, 0); yours returned {found}",
            )
    return f"{len(cases)} spoilt marks count as none."


def _operations(learner: Learner | None) -> float:
    """Disk operations of one checkpoint of some ledgers, for each entry."""
    machine = new_machine(Fuse())
    store = machine.open(LedgerStore if learner is None else store_of(learner), CONFIG)
    for entry_id in range(_ENTRIES):
        for ledger_id in range(_LEDGERS):
            data = entry_bytes(ledger_id, entry_id, 10)
            store.add_entry(ledger_id, entry_id, data, MASTER_KEY)
    store.commit()
    fuse = machine.ledgers[0].fuse
    before = len(fuse.operations)
    store.checkpoint()
    return (len(fuse.operations) - before) / (_LEDGERS * _ENTRIES)


STEP = Step(
    number=5,
    name="the checkpoint and LastLogMark",
    parts=("Checkpoint", "write_last_mark", "read_last_mark"),
    invariants=(
        "LastLogMark never passes a record whose entry is not in entry log and index, synced.",
        "An index on disk never points to bytes that a crash can take away.",
        "A journal goes only when LastLogMark, on disk, is in a later one.",
        "An add that is acknowledged while a checkpoint runs is as safe as any other.",
    ),
    write="write_last_mark, read_last_mark and the class Checkpoint, about 35 lines together.",
    red=RedTest(
        "    write_last_mark(disk, 10, 512)\n    assert read_last_mark(disk) == (10, 512)\n", _red
    ),
    trials=(the_mark_is_whole_or_the_old_one, odd_marks_are_none),
    worlds=(crashes, orders, storms),
    figures=(Figure("disk operations of a checkpoint for each entry", 1.5, _operations),),
    challenges=(
        "A checkpoint that finds no space is begun again later. What do you do twice then, and is"
        " that safe?",
        "Write the entries in slices of 4 MiB, each with its sync, and give their memory back.",
    ),
)
