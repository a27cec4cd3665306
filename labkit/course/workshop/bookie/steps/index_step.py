"""Step 4: the index."""

from dataclasses import dataclass
from functools import partial

from labkit.course.checking.draw import Draw
from labkit.course.checking.exercise import Refused
from labkit.course.workshop.bookie.inside import crashes, orders, storms
from labkit.course.workshop.bookie.store import LearnersIndex, bound
from labkit.course.workshop.generated_cases import Problem, try_drawn
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import Figure, RedTest, Step
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.index.ledger_index import (
    DATA_OFFSET,
    IndexHeader,
    LedgerIndex,
    index_path,
)
from labkit.worlds.sim.machine.disk import SimDisk
from labkit.worlds.sim.machine.disk_operation import lost
from labkit.worlds.sim.settings.bookie_script import MASTER_KEY

LEDGER = 0x1234
PATH = index_path(LEDGER)
PAGE = 512
_PAGE = 8192
"""That of a bookie whose configuration does not say otherwise."""
_CASES = 200
_FLUSHES, _ENTRIES = 20, 50
FLUSH, FENCE, LAC, AGAIN = "flush", "fence", "explicit LAC", "load"

Change = tuple[str, int, int]
Changes = tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class IndexCase:
    """What was done to an index, and what went wrong."""

    changes: Changes
    problem: str

    def __str__(self) -> str:
        words = {
            FLUSH: "index.flush()",
            FENCE: "index.fenced = True",
            LAC: "index.explicit_lac = bytes(36)",
            AGAIN: "index.flush(); index = Index.load(disk, path)",
        }
        lines = [words.get(w, f"index.set_location({e}, {at})") for w, e, at in self.changes]
        return "\n".join(("index = Index(disk, path, key)", *lines, "index.flush()", self.problem))


def _red(learner: Learner) -> None:
    yours = learner.make("Index", SimDisk(), PATH, MASTER_KEY)
    yours.call("set_location", object, 3, 1028)
    if (found := yours.call("location", int, 3)) != 1028:
        raise Refused(f"A location that was set is there; yours returned {found}.")


def _changes(draw: Draw) -> Changes:
    def change() -> Change:
        entry_id, location = draw.number(0, 70), draw.number(1, 9) << 32 | 1028
        return draw.one_of(("", "", "", FLUSH, FENCE, LAC, AGAIN)), entry_id, location

    return tuple(change() for _ in range(draw.number(0, 8)))


def labkit_reads_it(learner: Learner) -> str:
    """After every flush labkit's own index finds the same in the file, and so does `load`."""
    try_drawn(_changes, _CASES, partial(_problem, learner), IndexCase)
    return f"labkit and `load` read the same in {_CASES} drawn indexes, after a power cut too."


_SAME = (
    "After `flush` the file holds key, fence, explicit LAC and every location, and nothing else."
)
_LOADED = "`load` finds what `flush` wrote."
_PAGES = "Behind the header the file has whole pages of 8192 bytes."
_DURABLE = "When `flush` returns all of it is durable, the names of the folders above it too."
_NOTHING = "If nothing has changed since the last flush, a flush does nothing."


def _problem(learner: Learner, changes: Changes) -> Problem | None:
    disk = SimDisk()
    kind = bound(LearnersIndex, learner)
    yours = kind(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE)
    right, fenced, lac = dict[int, int](), False, b""
    for what, entry_id, location in (*changes, (FLUSH, 0, 0)):
        if what == FENCE:
            fenced = True
            yours.header = yours.header._replace(fenced=True)
        elif what == LAC:
            lac = bytes(36)
            yours.header = yours.header._replace(explicit_lac=lac)
        elif what in (FLUSH, AGAIN):
            yours.flush()
            wrong = _durable(disk, right, fenced, lac)
            if wrong:
                return wrong
            before = len(disk.fuse.operations)
            yours.flush()
            if len(disk.fuse.operations) > before:
                return _NOTHING, f"a second flush did {disk.fuse.operations[before]}"
            if what == AGAIN:
                yours = kind.load(LEDGER, disk, PAGE)
        else:
            yours.set_locations([entry_id], [location])
            right[entry_id] = location
        header = yours.header
        found = dict(yours.locations()), header.fenced, header.explicit_lac
        if (*found, header.master_key) != (right, fenced, lac, MASTER_KEY):
            return _LOADED, f"it has {found}; it should have {right, fenced, lac}"
    return None


def _durable(disk: SimDisk, right: dict[int, int], fenced: bool, lac: bytes) -> Problem | None:
    after = disk.after_crash(lost)
    if not after.exists(PATH):
        return _DURABLE, f"after a power cut there is no {PATH}"
    size = after.open(PATH).size()
    if (size - DATA_OFFSET) % _PAGE:
        return _PAGES, f"the file has {size} bytes"
    try:
        ours = LedgerIndex.load(LEDGER, after, PAGE)
    except StorageDamagedException as error:
        return _SAME, f"labkit cannot read it: {error}"
    found = dict(ours.locations()), ours.header.fenced, ours.header.explicit_lac
    if ours.header.master_key != MASTER_KEY:
        return _SAME, "labkit finds another master key in the file"
    if found != (right, fenced, lac):
        return _SAME, f"labkit finds {found}; there should be {right, fenced, lac}"
    return None


def cut_slots_and_odd_headers(learner: Learner) -> str:
    """A slot that the file's end cuts counts as 0, and a header that makes no sense is refused."""
    disk, kind = SimDisk(), bound(LearnersIndex, learner)
    index = LedgerIndex(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE)
    index.set_locations((0, 1), (1028, 2056))
    index.flush()
    for size in range(1024, 1041):
        cut = SimDisk()
        cut.create(PATH).write(0, disk.open(PATH).read(0, size))
        found = kind.load(LEDGER, cut, PAGE).locations()
        if list(found) != [(0, 1028), (1, 2056)][: (size - 1024) // 8]:
            raise Refused(
                "A slot that the end of the file cuts was never synced: it counts as 0.",
                f"a file of {size} bytes",
            )
    for head in (b"", b"BKLX" + bytes(1020), b"BKLE" + b"\xff" * 1020):
        odd = SimDisk()
        odd.create(PATH).write(0, head)
        try:
            kind.load(LEDGER, odd, PAGE)
        except StorageDamagedException:
            continue
        raise Refused("`load` raises ValueError for a header that makes no sense.", repr(head[:8]))
    return "A cut slot counts as 0, and a damaged header is refused."


def _bytes_written(learner: Learner | None) -> float:
    disk = SimDisk()
    kind = LedgerIndex if learner is None else bound(LearnersIndex, learner)
    index = kind(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE)
    for flush in range(_FLUSHES):
        for entry_id in range(flush * _ENTRIES, (flush + 1) * _ENTRIES):
            index.set_locations([entry_id], [1028])
        index.flush()
    return sum(operation.size for operation in disk.fuse.operations) / (_FLUSHES * _ENTRIES)


STEP = Step(
    number=4,
    name="the index",
    parts=("Index",),
    invariants=(
        "A ledger has a whole header or no file: the master key never changes.",
        "A location is durable only when the entry that it leads to is.",
        "A fence is never taken back.",
        "What a flush returned for is found by every later `load`.",
    ),
    write="the class Index, about 60 lines: a header, slots of 8 bytes, a file put in place whole.",
    red=RedTest(
        "    index = Index(disk, path, key)\n"
        "    index.set_location(3, 1028)\n"
        "    assert index.location(3) == 1028\n",
        _red,
    ),
    trials=(labkit_reads_it, cut_slots_and_odd_headers),
    worlds=(crashes, orders, storms),
    figures=(Figure("bytes written to the index for each entry", 1.5, _bytes_written),),
    challenges=(
        "A client may add entry 2**40 - 1 alone: its index has a hole of 8 TiB. Read only what was"
        " written (`file.next_data`), and keep only changed pages in memory.",
        "With thousands of ledgers a flush syncs thousands of files. What does labkit do instead?",
    ),
)
