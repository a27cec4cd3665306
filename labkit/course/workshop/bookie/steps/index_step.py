"""Step 5: the index."""

from dataclasses import dataclass
from functools import partial
from struct import pack

from labkit.course.checking.exercise import Refused
from labkit.course.checking.generated_cases import Draw
from labkit.course.workshop.bookie.common_trials import crashes, orders, storms
from labkit.course.workshop.bookie.store import LearnersIndex, bound
from labkit.course.workshop.generated_cases import Problem, try_generated
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import ContractLine, Cost, FirstTest, Step
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.index.ledger_index import (
    DATA_OFFSET,
    IndexHeader,
    LedgerIndex,
    index_path,
)
from labkit.worlds.sim.crash_map.crash_map import VARIANTS
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import Operation, lost
from labkit.worlds.sim.settings.bookie_script import MASTER_KEY

LEDGER = 0x1234
PATH = index_path(LEDGER)
PAGE = 512
_PAGE = 8192
"""The default index page size of a bookie."""
_CASES = 200
_FLUSHES, _ENTRIES = 20, 50
FLUSH, FENCE, LAC, AGAIN = "flush", "fence", "explicit LAC", "load"

Change = tuple[str, int, int]
Changes = tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class IndexCase:
    changes: Changes
    problem: str

    def __str__(self) -> str:
        calls = {
            FLUSH: "index.flush()",
            FENCE: "index.fenced = True",
            LAC: "index.explicit_lac = bytes(36)",
            AGAIN: "index.flush(); index = Index.load(disk, path)",
        }
        lines = [calls.get(w, f"index.set_location({e}, {at})") for w, e, at in self.changes]
        return "\n".join(("index = Index(disk, path, key)", *lines, "index.flush()", self.problem))


def _first_test(learner: Learner) -> None:
    yours = learner.make("Index", SimDisk(), PATH, MASTER_KEY)
    yours.call("set_location", object, 3, 1028)
    if (found := yours.call("location", int, 3)) != 1028:
        raise Refused(f"`location` must return 1028, which was set; yours returned {found}.")


def _changes(draw: Draw) -> Changes:
    def change() -> Change:
        entry_id = draw.number(0, 70) + draw.one_of((0, 0, 0, 256))
        location = draw.number(1, 9) << 32 | 1028
        return draw.one_of(("", "", "", FLUSH, FENCE, LAC, AGAIN)), entry_id, location

    return tuple(change() for _ in range(draw.number(0, 8)))


def labkit_reads_it(learner: Learner) -> str:
    """Check that after every flush, labkit's index and `load` read everything that was set."""
    try_generated(_changes, _CASES, partial(_problem, learner), IndexCase)
    return (
        f"labkit and `load` read the same from {_CASES} generated indexes, also after a power cut."
    )


_SAME = (
    "After `flush`, the file contains the key, the fence, the explicit LAC and every location, and"
    " nothing else."
)
_LOADED = "`load` reads everything that `flush` wrote."
_PAGES = "After the header, the file consists of complete pages of 8192 bytes."
_DURABLE = "When `flush` returns, the file is durable, including the names of its parent folders."
_NOTHING = "If nothing has changed since the last flush, a flush does nothing."
_WHOLE = "After every crash, the file of a ledger has a complete header or does not exist."
_SYNCS_AFTER_LOAD = (
    "The first flush after `load` syncs the file and its folders, because the previous process may"
    " have been killed between a write and its sync."
)
_CUT = "A slot truncated by the end of the file was never synced, so it counts as 0."
_INVALID = "`load` raises ValueError for an invalid header."


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
            before = len(disk.controller.operations)
            yours.flush()
            if len(disk.controller.operations) > before:
                return _NOTHING, f"a second flush did {disk.controller.operations[before]}"
            if what == AGAIN:
                yours = kind.load(LEDGER, disk, PAGE)
        else:
            yours.set_locations([entry_id], [location])
            right[entry_id] = location
        header = yours.header
        found = dict(yours.locations()), header.fenced, header.explicit_lac
        if (*found, header.master_key) != (right, fenced, lac, MASTER_KEY):
            return _LOADED, f"expected {right, fenced, lac}, got {found}"
    return None


def _durable(disk: SimDisk, right: dict[int, int], fenced: bool, lac: bytes) -> Problem | None:
    after = disk.after_crash(lost)
    if not after.exists(PATH):
        return _DURABLE, f"after a power cut, {PATH} does not exist"
    size = after.open(PATH).size()
    if (size - DATA_OFFSET) % _PAGE:
        return _PAGES, f"the file has {size} bytes"
    try:
        ours = LedgerIndex.load(LEDGER, after, PAGE)
    except StorageDamagedException as error:
        return _SAME, f"labkit cannot read it: {error}"
    found = dict(ours.locations()), ours.header.fenced, ours.header.explicit_lac
    if ours.header.master_key != MASTER_KEY:
        return _SAME, "the file contains a different master key"
    if found != (right, fenced, lac):
        return _SAME, f"labkit reads {found} from the file, expected {right, fenced, lac}"
    return None


def truncated_slots_and_invalid_headers(learner: Learner) -> str:
    """Check that a truncated slot counts as 0, and an invalid header is rejected."""
    disk, kind = SimDisk(), bound(LearnersIndex, learner)
    index = LedgerIndex(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE)
    index.set_locations((0, 1), (1028, 2056))
    index.flush()
    for size in range(1024, 1041):
        cut = SimDisk()
        cut.create(PATH).write(0, disk.open(PATH).read(0, size))
        found = kind.load(LEDGER, cut, PAGE).locations()
        if list(found) != [(0, 1028), (1, 2056)][: (size - 1024) // 8]:
            raise Refused(_CUT, f"the file has {size} bytes")
    head = disk.open(PATH).read(0, DATA_OFFSET)
    for what, invalid in (
        ("is empty", b""),
        ("starts with BKLX", b"BKLX" + head[4:]),
        ("has version 2", head[:4] + pack(">i", 2) + head[8:]),
        ("has a master key of -1 bytes", head[:8] + pack(">i", -1) + head[12:]),
    ):
        odd = SimDisk()
        odd.create(PATH).write(0, invalid)
        try:
            kind.load(LEDGER, odd, PAGE)
        except StorageDamagedException:
            continue
        raise Refused(_INVALID, f"`load` accepts a file that {what}")
    return "A truncated slot counts as 0, and an invalid header is rejected."


def first_file_is_complete(learner: Learner) -> str:
    """Check that a crash during the first write leaves no file, or one with a complete header."""
    left: list[tuple[str, SimDisk]] = []

    def watch(operation: Operation) -> None:
        left.extend((f"{v.name} before {operation}", disk.after_crash(v.keep)) for v in VARIANTS)

    controller = DiskController()
    disk = SimDisk(controller)
    index = bound(LearnersIndex, learner)(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE)
    index.set_locations((0, 1), (1028, 2056))
    controller.watch = watch
    index.flush()
    controller.watch = None
    for where, after in left:
        if not after.exists(PATH):
            continue
        try:
            key = LedgerIndex.load(LEDGER, after, PAGE).header.master_key
        except StorageDamagedException as error:
            raise Refused(_WHOLE, f"after a crash ({where}): {error}") from None
        if key != MASTER_KEY:
            raise Refused(_WHOLE, f"after a crash ({where}), the master key is {key!r}")
    return f"The header was complete after {len(left)} crashes while the first file was written."


def unsynced_writes_are_synced(learner: Learner) -> str:
    """Check that the first flush syncs what a killed process has written without syncing it."""
    disk = SimDisk()
    written = LedgerIndex(LEDGER, IndexHeader(MASTER_KEY), SimDisk(), PAGE)
    written.set_locations((0,), (1028,))
    written.flush()
    whole = written.disk.open(PATH)
    # The killed process wrote the file, but synced neither the file nor its folders.
    disk.create(PATH).write(0, whole.read(0, whole.size()))
    index = bound(LearnersIndex, learner).load(LEDGER, disk, PAGE)
    index.flush()
    after = disk.after_crash(lost)
    case = (
        "another process wrote the file and was killed before its sync\n"
        "index = Index.load(disk, path)\nindex.flush()\n"
    )
    if not after.exists(PATH):
        raise Refused(_SYNCS_AFTER_LOAD, f"{case}after a power cut, the file does not exist")
    try:
        found = dict(LedgerIndex.load(LEDGER, after, PAGE).locations())
    except StorageDamagedException:
        found = {}
    if found != {0: 1028}:
        raise Refused(_SYNCS_AFTER_LOAD, f"{case}after a power cut, the location is lost")
    return "The first flush after `load` syncs what a killed process left behind."


def _bytes_written(learner: Learner | None) -> float:
    disk = SimDisk()
    kind = LedgerIndex if learner is None else bound(LearnersIndex, learner)
    index = kind(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE)
    for flush in range(_FLUSHES):
        for entry_id in range(flush * _ENTRIES, (flush + 1) * _ENTRIES):
            index.set_locations([entry_id], [1028])
        index.flush()
    return sum(operation.size for operation in disk.controller.operations) / (_FLUSHES * _ENTRIES)


STEP = Step(
    number=5,
    name="the index",
    parts=("Index",),
    contract=(
        ContractLine(_WHOLE, broken_by=("refused",)),
        ContractLine(_DURABLE),
        ContractLine(_SAME, broken_by=("lost", "invented")),
        ContractLine(_LOADED),
        ContractLine(_PAGES),
        ContractLine(_NOTHING),
        ContractLine(_SYNCS_AFTER_LOAD),
        ContractLine(_CUT),
        ContractLine(_INVALID),
    ),
    write=(
        "the class Index in about 60 lines: the header, slots of 8 bytes, and a first file that is"
        " complete before it gets its name."
    ),
    hints=(
        "Keep two dictionaries: all known locations, and those that have changed since the last"
        " flush. Keep the header as it was last written, too, to know whether it has changed.",
        'Write the first file as path + ".new", sync it, rename it, and then sync its folder and'
        ' every folder above it: for "current/0/5/5.idx" these are "current/0/5", "current/0" and'
        ' "current".',
        "`load` sets a flag that makes the next flush sync the file and all of its folders even if"
        " nothing has changed. That flush clears the flag.",
    ),
    first_test=FirstTest(
        "    index = Index(disk, path, key)\n"
        "    index.set_location(3, 1028)\n"
        "    assert index.location(3) == 1028\n",
        _first_test,
    ),
    trials=(
        *(labkit_reads_it, truncated_slots_and_invalid_headers),
        *(first_file_is_complete, unsynced_writes_are_synced),
    ),
    slow_trials=(crashes, orders, storms),
    costs=(Cost("bytes written to the index per entry", 1.5, _bytes_written),),
    challenges=(
        "A client may add only entry 2**40 - 1, whose index then has a hole of 8 TiB. Read only"
        " what was written (`file.next_data`), and keep only changed pages in memory.",
        "With thousands of ledgers, a flush syncs thousands of files. What does labkit do instead?",
    ),
)
