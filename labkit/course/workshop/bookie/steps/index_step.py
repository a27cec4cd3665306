"""Step 5: the index."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.bookie.common_trials import LOSSES, crashes, orders, storms
from labkit.course.workshop.bookie.store import LearnersIndex, bound
from labkit.course.workshop.bookie.trial_disks import (
    crashes_during,
    failing_operation,
    unreadable_files,
)
from labkit.course.workshop.generated_cases import try_generated
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.tracks import ContractLine, Cost, FirstTest, Step
from labkit.system.model.errors import LabkitError, StorageDamagedException
from labkit.system.storage.index.ledger_index import (
    DATA_OFFSET,
    INDEX_SLOT,
    IndexHeader,
    LedgerIndex,
    index_path,
)
from labkit.worlds.sim.machine.disk import SimDisk, SimDiskError
from labkit.worlds.sim.machine.disk_operation import lost
from labkit.worlds.sim.settings.bookie_script import MASTER_KEY

LEDGER = 0x1234
PATH = index_path(LEDGER)
PAGE = 512
_PAGE = 8192
"""The default index page size of a bookie."""
_CASES = 200
SET, FLUSH, FENCE, LAC, LOAD = "set location", "flush", "fence", "explicit LAC", "load"
_FLUSHES, _ENTRIES, _ENTRIES_AFTER_LOAD = 20, 50, 400

_WHOLE = "After every crash, the file of a ledger has a complete header or does not exist."
_DURABLE = "When `flush` returns, the file is durable, including the names of its parent folders."
_SAME = (
    "After `flush`, the file contains the key, the fence, the explicit LAC and every location, and"
    " nothing else."
)
_LOADED = "`load` reads everything that `flush` wrote."
_FOUND = (
    "`location` returns the location that was set last, or 0 if none was set, and `locations`"
    " returns all of them in ascending order of their entry ids."
)
_PAGES = (
    "After the header, the file consists of complete pages of 8192 bytes, and of no more pages than"
    " the locations need."
)
_MEMORY = "Only `flush` writes to the disk: a new index and `set_location` write nothing."
_NOTHING = "If nothing has changed since the last flush, a flush does nothing."
_SYNCS_AFTER_LOAD = (
    "The first flush after `load` syncs the file and its folders, because the previous process may"
    " have been killed between a write and its sync."
)
_CUT = "A slot truncated by the end of the file was never synced, so it counts as 0."
_INVALID = (
    "`load` raises ValueError for an invalid header: one that is incomplete, has another magic or"
    " version, or contains a length that is negative or too large for the header."
)


def _first_test(learner: Learner) -> None:
    yours = learner.make("Index", SimDisk(), PATH, MASTER_KEY)
    yours.call("set_location", object, 3, 1028)
    if (found := yours.call("location", int, 3)) != 1028:
        raise Refused(f"{_FOUND} Expected 1028, which was set; yours returned {found}.")


@dataclass(frozen=True, slots=True)
class Change:
    """An operation on an index; `number` varies the location and the explicit LAC."""

    what: str
    entry_id: int
    number: int

    @property
    def location(self) -> int:
        return self.number << 56 | 1028

    @property
    def explicit_lac(self) -> bytes:
        return bytes([self.number]) * (20 + 4 * self.number) + b"\0"

    def __str__(self) -> str:
        return {
            SET: f"index.set_location({self.entry_id}, {self.location})",
            FLUSH: "index.flush()",
            FENCE: "index.fenced = True",
            LAC: f"index.explicit_lac = ...  # {len(self.explicit_lac)} bytes",
            LOAD: "index.flush()  # but the process is killed before it syncs anything\n"
            "index = Index.load(disk, path)",
        }[self.what]


@dataclass(frozen=True, slots=True)
class IndexCase:
    """The size of the master key, and the operations on the index."""

    key_size: int
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        lines = [
            '# a crash has left a file path + ".new"',
            f'index = Index(disk, path, b"k" * {self.key_size})',
            *map(str, self.changes),
        ]
        return "\n".join(lines)


def _apply(change: Change, *indexes: LedgerIndex) -> None:
    for index in indexes:
        if change.what == SET:
            index.set_locations([change.entry_id], [change.location])
        elif change.what == FENCE:
            index.header = index.header._replace(fenced=True)
        elif change.what == LAC:
            index.header = index.header._replace(explicit_lac=change.explicit_lac)


def _difference(right: LedgerIndex, index: LedgerIndex) -> str:
    """Describe how the header or the locations of an index differ from the right ones."""
    expected, found = ((each.header, list(each.locations())) for each in (right, index))
    return "" if found == expected else f"expected {expected}, got {found}"


def _wrong_location(right: LedgerIndex, index: LedgerIndex) -> str:
    """Describe an entry for which the index returns a wrong location."""
    known = [entry_id for entry_id, _ in right.locations()]
    for entry_id in sorted({each + more for each in (*known, 0) for more in (0, 1)}):
        found, expected = index.location(entry_id), right.location(entry_id)
        if found != expected:
            return f"index.location({entry_id}) must return {expected}; yours returned {found}"
    return ""


def _index_case(draw: Draw) -> IndexCase:
    def change() -> Change:
        what = draw.one_of((SET, SET, SET, FLUSH, FENCE, LAC, LOAD))
        # Entries near the start and the end of the first page, and near the end of the second.
        entry_id = draw.number(0, 8) + draw.one_of((0, 0, 256, 1020, 2044))
        return Change(what, entry_id, draw.number(1, 9))

    changes = [change() for _ in range(draw.number(0, 8))]
    return IndexCase(draw.one_of((20, 0, 100)), (*changes, Change(FLUSH, 0, 1)))


def labkit_reads_it(learner: Learner) -> str:
    """Check that, after every flush, both labkit's index and `load` read everything that was
    set.
    """
    try_generated(learner, _index_case, _CASES, _test_changes, str)
    return (
        f"labkit and `load` read the same from {_CASES} generated indexes, also after a power cut."
    )


def _test_changes(learner: Learner, case: IndexCase) -> None:
    index = _IndexOnDisk(learner, IndexHeader(b"k" * case.key_size))
    for change in case.changes:
        index.make(change)


class _IndexOnDisk:
    """The learner's index, its disk, and an index of labkit's that is never flushed, with the
    expected contents.

    durable_rule: the rule that the next flush breaks if the changes that it writes are not durable
    """

    def __init__(self, learner: Learner, header: IndexHeader) -> None:
        self._kind = bound(LearnersIndex, learner)
        self._right = LedgerIndex(LEDGER, header, SimDisk(), PAGE)
        self._disk = SimDisk()
        self._disk.create(f"{PATH}.new").write(0, b"left by a crash" * _PAGE)
        self._flushed_operation_count = len(self._disk.controller.operations)
        self._yours: LedgerIndex = self._kind(LEDGER, header, self._disk, PAGE)
        self._durable_rule = _DURABLE

    def make(self, change: Change) -> None:
        """Make a change. Raises `Refused` if the learner's index then breaks a rule."""
        _apply(change, self._yours, self._right)
        if written := self._disk.controller.operations[self._flushed_operation_count :]:
            raise Refused(_MEMORY, f"yours did: {written[0]}")
        if change.what in (FLUSH, LOAD):
            self._flush()
        if change.what == LOAD:
            self._load()
        wrong = _difference(self._right, self._yours) or _wrong_location(self._right, self._yours)
        if wrong:
            raise Refused(_LOADED if change.what == LOAD else _FOUND, wrong)

    def _flush(self) -> None:
        self._yours.flush()
        if lost_data := _lost_data(self._disk):
            raise Refused(self._durable_rule, lost_data)
        self._durable_rule = _DURABLE
        self._check_file()
        self._flushed_operation_count = len(self._disk.controller.operations)
        self._yours.flush()
        if done := self._disk.controller.operations[self._flushed_operation_count :]:
            raise Refused(_NOTHING, f"a second flush did: {done[0]}")

    def _check_file(self) -> None:
        file = self._disk.open(PATH)
        size = file.size() - DATA_OFFSET
        needed = (max(self._right.last_entry_id(), 0) + 1) * INDEX_SLOT.size
        if size % _PAGE or size > -(-needed // _PAGE) * _PAGE:
            raise Refused(_PAGES, f"after the header, the file has {size} bytes")
        head, right = file.read(0, DATA_OFFSET), self._right.header.encode()
        if head != right.ljust(DATA_OFFSET, b"\0"):
            raise Refused(_SAME, f"the header is {head.rstrip(bytes(1))!r}, expected {right!r}")
        if wrong := _difference(self._right, LedgerIndex.load(LEDGER, self._disk, PAGE)):
            raise Refused(_SAME, f"labkit reads the file: {wrong}")

    def _load(self) -> None:
        """Load the index from a disk on which nothing has been synced yet."""
        file = self._disk.open(PATH)
        self._disk = SimDisk()
        self._disk.create(PATH).write(0, file.read(0, file.size()))
        self._flushed_operation_count = len(self._disk.controller.operations)
        self._durable_rule = _SYNCS_AFTER_LOAD
        try:
            self._yours = self._kind.load(LEDGER, self._disk, PAGE)
        except StorageDamagedException as error:
            raise Refused(_LOADED, f"`load` raised ValueError: {error}") from None


def _lost_data(disk: SimDisk) -> str:
    """Describe what the index file loses in a power failure."""
    after = disk.after_crash(lost)
    if not after.exists(PATH):
        return f"after a power cut, {PATH} does not exist"
    file, file_left = disk.open(PATH), after.open(PATH)
    size, size_left = file.size(), file_left.size()
    if size != size_left:
        return f"after a power cut, {size_left} of {size} bytes are left"
    if file.read(0, size) != file_left.read(0, size):
        return "a power cut undoes some of the writes to the file"
    return ""


def truncated_slots_and_invalid_headers(learner: Learner) -> str:
    """Check that a truncated slot is read as 0, and that an invalid header is rejected."""
    disk, kind = SimDisk(), bound(LearnersIndex, learner)
    index = LedgerIndex(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE)
    index.set_locations((0, 1), (1028, 2056))
    index.flush()
    for size in range(DATA_OFFSET, DATA_OFFSET + 17):
        cut = SimDisk()
        cut.create(PATH).write(0, disk.open(PATH).read(0, size))
        try:
            found = list(kind.load(LEDGER, cut, PAGE).locations())
        except StorageDamagedException as error:
            raise Refused(
                _CUT, f"the file has {size} bytes; yours raised ValueError: {error}"
            ) from None
        if found != [(0, 1028), (1, 2056)][: (size - DATA_OFFSET) // 8]:
            raise Refused(_CUT, f"the file has {size} bytes; yours returned {found}")
    _must_load_long_headers(learner)
    for what, data in _invalid_headers(disk.open(PATH).read(0, DATA_OFFSET)):
        _must_reject(learner, what, data)
    return "A truncated slot counts as 0, and an invalid header is rejected."


def _must_load_long_headers(learner: Learner) -> None:
    room = DATA_OFFSET - len(IndexHeader(b"").encode())
    for header in (IndexHeader(b"k" * room), IndexHeader(b"", explicit_lac=b"c" * room)):
        disk = SimDisk()
        disk.create(PATH).write(0, header.encode().ljust(DATA_OFFSET, b"\0"))
        try:
            found = bound(LearnersIndex, learner).load(LEDGER, disk, PAGE).header
        except StorageDamagedException as error:
            raise Refused(
                _LOADED,
                f"the key has {len(header.master_key)} bytes, and the explicit LAC has"
                f" {len(header.explicit_lac)}; `load` raised ValueError: {error}",
            ) from None
        if found != header:
            raise Refused(_LOADED, f"expected {header}, got {found}")


def _invalid_headers(head: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a description and the bytes of each invalid file; `head` is a valid header."""
    for size in (0, 11, 512, DATA_OFFSET - 1):
        yield f"has only {size} bytes", head[:size]
    yield "starts with BKLX", b"BKLX" + head[4:]
    yield "starts with bkle", b"bkle" + head[4:]
    for version in (-1, 2, 3):
        yield f"has version {version}", head[:4] + struct.pack(">i", version) + head[8:]
    for size in (-1, -5, 1005, 5000, 2**31 - 1):
        key = (head[:8] + struct.pack(">i", size)).ljust(DATA_OFFSET, b"\0")
        yield f"has a master key of {size} bytes", key
    at = 16 + len(MASTER_KEY)
    for size in (-1, -3, 985, 5000, 2**31 - 1):
        lac = head[:at] + struct.pack(">i", size) + head[at + 4 :]
        yield f"has an explicit LAC of {size} bytes", lac


def _must_reject(learner: Learner, what: str, data: bytes) -> None:
    disk = SimDisk()
    disk.create(PATH).write(0, data)
    load = learner.part("Index").load
    try:
        learner.checked("Index.load", load, object, (disk, PATH), (ValueError,))
    except ValueError:
        return
    except (struct.error, LabkitError) as error:
        problem = f"`load` raises {type(error).__name__} for"
    else:
        problem = "`load` accepts"
    raise Refused(_INVALID, f"{problem} a file that {what}")


def every_header_is_complete(learner: Learner) -> str:
    """Check that, after a crash during a flush, there is either no file or a file with a complete
    header.
    """
    disk = SimDisk()
    index = bound(LearnersIndex, learner)(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE)
    with crashes_during(disk) as left:
        for change in (Change(SET, 0, 1), Change(FENCE, 0, 1), Change(SET, 1, 2)):
            _apply(change, index)
            index.flush()
    for kind, operation, after in left:
        if not after.exists(PATH):
            continue
        crash = f"after a crash ({kind} before {operation})"
        try:
            key = LedgerIndex.load(LEDGER, after, PAGE).header.master_key
        except StorageDamagedException as error:
            raise Refused(_WHOLE, f"{crash}: {error}") from None
        if key != MASTER_KEY:
            raise Refused(_WHOLE, f"{crash}, the master key is {key!r}")
    return f"The header was complete after {len(left)} crashes during three flushes."


def disk_errors_are_raised(learner: Learner) -> str:
    """Check that every disk error is raised, and that the next flush then writes everything."""
    kind, header = bound(LearnersIndex, learner), IndexHeader(MASTER_KEY)
    first, later = Change(SET, 0, 1), (Change(SET, 1, 2), Change(FENCE, 0, 1))

    def new_index(disk: SimDisk, right: LedgerIndex) -> LedgerIndex:
        index = kind(LEDGER, header, disk, PAGE)
        _apply(first, index, right)
        return index

    def flushed_index(disk: SimDisk, right: LedgerIndex) -> LedgerIndex:
        index = new_index(disk, right)
        index.flush()
        for change in later:
            _apply(change, index, right)
        return index

    def loaded_index(disk: SimDisk, right: LedgerIndex) -> LedgerIndex:
        written = SimDisk()
        new_index(written, right).flush()
        file = written.open(PATH)
        disk.create(PATH).write(0, file.read(0, file.size()))
        return kind.load(LEDGER, disk, PAGE)

    for prepare in (new_index, flushed_index, loaded_index):
        # After SimDiskError, the data of a failed sync is lost; after OSError, it may be synced.
        _errors_must_be_raised(prepare, SimDiskError)
        _errors_must_be_raised(prepare, OSError)
    _load_must_raise_errors(learner)
    return "Every error of the disk is raised, and the next flush is complete."


def _errors_must_be_raised(
    prepare: Callable[[SimDisk, LedgerIndex], LedgerIndex], error: type[OSError]
) -> None:
    for number in count():
        disk = SimDisk()
        right = LedgerIndex(LEDGER, IndexHeader(MASTER_KEY), SimDisk(), PAGE)
        yours = prepare(disk, right)
        with failing_operation(disk.controller, number, error) as failed:
            try:
                yours.flush()
                flushes = "flush, which did not raise the error"
            except OSError:
                if not failed:
                    raise
                if error is not OSError:
                    continue
                flushes = "the next flush"
        if not failed:
            return
        if flushes == "the next flush":
            yours.flush()
        if problem := _lost_data(disk) or _difference(right, LedgerIndex.load(LEDGER, disk, PAGE)):
            raise Refused(
                _DURABLE,
                f"the disk reports an error during a flush: {failed[0]}\n"
                f"after {flushes}: {problem}",
            )


def _load_must_raise_errors(learner: Learner) -> None:
    disk = SimDisk()
    disk.create(PATH).write(0, bytes(DATA_OFFSET))
    with unreadable_files(disk.controller):
        try:
            bound(LearnersIndex, learner).load(LEDGER, disk, PAGE)
        except OSError:
            return
        except StorageDamagedException:
            pass
    raise Refused(_LOADED, "the disk cannot read the file; `load` must raise its error")


def _bytes_written(learner: Learner | None) -> float:
    disk = SimDisk()
    _flush_entries(_kind(learner)(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE))
    return _written(disk) / (_FLUSHES * _ENTRIES)


def _bytes_written_after_load(learner: Learner | None) -> float:
    disk = SimDisk()
    _flush_entries(_kind(learner)(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE))
    before = _written(disk)
    index = _kind(learner).load(LEDGER, disk, PAGE)
    index.set_locations(range(_ENTRIES_AFTER_LOAD), [2056] * _ENTRIES_AFTER_LOAD)
    index.flush()
    return (_written(disk) - before) / _ENTRIES_AFTER_LOAD


def _kind(learner: Learner | None) -> type[LedgerIndex]:
    return LedgerIndex if learner is None else bound(LearnersIndex, learner)


def _flush_entries(index: LedgerIndex) -> None:
    for flush in range(_FLUSHES):
        for entry_id in range(flush * _ENTRIES, (flush + 1) * _ENTRIES):
            index.set_locations([entry_id], [1028])
        index.flush()


def _written(disk: SimDisk) -> int:
    return sum(operation.size for operation in disk.controller.operations)


STEP = Step(
    number=5,
    name="the index",
    parts=("Index",),
    contract=(
        ContractLine(_WHOLE, broken_by=("refused",)),
        ContractLine(_DURABLE),
        ContractLine(_SAME, broken_by=(*LOSSES, "invented")),
        ContractLine(_LOADED),
        ContractLine(_FOUND),
        ContractLine(_PAGES),
        ContractLine(_MEMORY),
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
        *(every_header_is_complete, disk_errors_are_raised),
    ),
    slow_trials=(crashes, orders, storms),
    costs=(
        Cost("bytes written to the index per entry", 1.5, _bytes_written),
        Cost("bytes written to the index per entry after `load`", 1.5, _bytes_written_after_load),
    ),
    challenges=(
        "A client may add only entry 2**40 - 1, whose index then has a hole of 8 TiB. Read only"
        " what was written (`file.next_data`), and keep only changed pages in memory.",
        "With thousands of ledgers, a flush syncs thousands of files. What does labkit do instead?",
    ),
)
