"""The trials of step 5, with generated changes of an index, invalid files, crashes and disk
errors.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.bookie.steps import index_contract as contract
from labkit.course.workshop.bookie.store import LearnersIndex, bound
from labkit.course.workshop.bookie.trial_disks import failing_operation, unreadable_files
from labkit.course.workshop.generated_cases import Problem, try_generated
from labkit.course.workshop.learner import Learner
from labkit.system.model.errors import LabkitError, StorageDamagedException
from labkit.system.storage.index.ledger_index import (
    DATA_OFFSET,
    INDEX_SLOT,
    IndexHeader,
    LedgerIndex,
    index_path,
)
from labkit.worlds.sim.crash_map.crash_map import VARIANTS
from labkit.worlds.sim.machine import disk_operation
from labkit.worlds.sim.machine.disk import DiskController, SimDisk, SimDiskError
from labkit.worlds.sim.machine.disk_operation import Operation
from labkit.worlds.sim.settings.bookie_script import MASTER_KEY

LEDGER = 0x1234
PATH = index_path(LEDGER)
PAGE = 512
_PAGE = 8192
"""The default index page size of a bookie."""
_CASES = 200
SET, FLUSH, FENCE, LAC, LOAD = "set location", "flush", "fence", "explicit LAC", "load"


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
    """The size of the master key, the operations on the index, and the problem found."""

    key_size: int
    changes: tuple[Change, ...]
    problem: str = ""

    def __str__(self) -> str:
        lines = [
            '# a crash has left a file path + ".new"',
            f'index = Index(disk, path, b"k" * {self.key_size})',
            *map(str, self.changes),
        ]
        return "\n".join((*lines, self.problem))


@dataclass
class _Content:
    """The expected contents of an index."""

    header: IndexHeader
    locations: dict[int, int] = field(default_factory=dict)

    def apply(self, change: Change, index: LedgerIndex) -> None:
        """Apply the change to both this content and the index."""
        if change.what == SET:
            self.locations[change.entry_id] = change.location
            index.set_locations([change.entry_id], [change.location])
        elif change.what == FENCE:
            self.header = index.header = self.header._replace(fenced=True)
        elif change.what == LAC:
            self.header = index.header = self.header._replace(explicit_lac=change.explicit_lac)

    def difference(self, index: LedgerIndex) -> str:
        """Describe how the header or the locations of the index differ from this content."""
        found = index.header, list(index.locations())
        right = self.header, sorted(self.locations.items())
        return "" if found == right else f"expected {right}, got {found}"

    def wrong_location(self, index: LedgerIndex) -> str:
        """Describe an entry for which the index returns a wrong location."""
        for entry_id in sorted({e + more for e in (*self.locations, 0) for more in (0, 1)}):
            found, right = index.location(entry_id), self.locations.get(entry_id, 0)
            if found != right:
                return f"index.location({entry_id}) must return {right}; yours returned {found}"
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
    try_generated(
        learner,
        _index_case,
        _CASES,
        partial(_problem, learner),
        lambda case, problem: replace(case, problem=problem),
    )
    return (
        f"labkit and `load` read the same from {_CASES} generated indexes, also after a power cut."
    )


def _problem(learner: Learner, case: IndexCase) -> Problem | None:
    index = _IndexOnDisk(learner, IndexHeader(b"k" * case.key_size))
    problems = map(index.problem_of, case.changes)
    return next((problem for problem in problems if problem), None)


class _IndexOnDisk:
    """The learner's index, its disk, and its expected contents.

    durable_rule: the rule that the next flush breaks if the changes that it writes are not durable
    """

    def __init__(self, learner: Learner, header: IndexHeader) -> None:
        self._kind = bound(LearnersIndex, learner)
        self._right = _Content(header)
        self._disk = SimDisk()
        self._disk.create(f"{PATH}.new").write(0, b"left by a crash" * _PAGE)
        self._flushed_operation_count = len(self._disk.controller.operations)
        self._yours: LedgerIndex = self._kind(LEDGER, header, self._disk, PAGE)
        self._durable_rule = contract.DURABLE

    def problem_of(self, change: Change) -> Problem | None:
        """Make a change, and return the rule that the learner's index breaks as a result, or
        None.
        """
        self._right.apply(change, self._yours)
        if written := self._disk.controller.operations[self._flushed_operation_count :]:
            return contract.MEMORY, f"yours did: {written[0]}"
        if change.what in (FLUSH, LOAD) and (problem := self._flush()):
            return problem
        return self._load() if change.what == LOAD else self._check_results(contract.FOUND)

    def _check_results(self, rule: str) -> Problem | None:
        wrong = self._right.difference(self._yours) or self._right.wrong_location(self._yours)
        return (rule, wrong) if wrong else None

    def _flush(self) -> Problem | None:
        self._yours.flush()
        if lost := _lost_data(self._disk):
            return self._durable_rule, lost
        self._durable_rule = contract.DURABLE
        if problem := self._wrong_file():
            return problem
        self._flushed_operation_count = len(self._disk.controller.operations)
        self._yours.flush()
        if done := self._disk.controller.operations[self._flushed_operation_count :]:
            return contract.NOTHING, f"a second flush did: {done[0]}"
        return None

    def _wrong_file(self) -> Problem | None:
        file = self._disk.open(PATH)
        size = file.size() - DATA_OFFSET
        needed = (max(self._right.locations, default=0) + 1) * INDEX_SLOT.size
        if size % _PAGE or size > -(-needed // _PAGE) * _PAGE:
            return contract.PAGES, f"after the header, the file has {size} bytes"
        head, right = file.read(0, DATA_OFFSET), self._right.header.encode()
        if head != right.ljust(DATA_OFFSET, b"\0"):
            return contract.SAME, f"the header is {head.rstrip(bytes(1))!r}, expected {right!r}"
        wrong = self._right.difference(LedgerIndex.load(LEDGER, self._disk, PAGE))
        return (contract.SAME, f"labkit reads the file: {wrong}") if wrong else None

    def _load(self) -> Problem | None:
        """Load the index from a disk on which nothing has been synced yet."""
        file = self._disk.open(PATH)
        self._disk = SimDisk()
        self._disk.create(PATH).write(0, file.read(0, file.size()))
        self._flushed_operation_count = len(self._disk.controller.operations)
        self._durable_rule = contract.SYNCS_AFTER_LOAD
        try:
            self._yours = self._kind.load(LEDGER, self._disk, PAGE)
        except StorageDamagedException as error:
            return contract.LOADED, f"`load` raised ValueError: {error}"
        return self._check_results(contract.LOADED)


def _lost_data(disk: SimDisk) -> str:
    """Describe what the index file loses in a power failure."""
    after = disk.after_crash(disk_operation.lost)
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
                contract.CUT, f"the file has {size} bytes; yours raised ValueError: {error}"
            ) from None
        if found != [(0, 1028), (1, 2056)][: (size - DATA_OFFSET) // 8]:
            raise Refused(contract.CUT, f"the file has {size} bytes; yours returned {found}")
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
                contract.LOADED,
                f"the key has {len(header.master_key)} bytes, and the explicit LAC has"
                f" {len(header.explicit_lac)}; `load` raised ValueError: {error}",
            ) from None
        if found != header:
            raise Refused(contract.LOADED, f"expected {header}, got {found}")


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
    raise Refused(contract.INVALID, f"{problem} a file that {what}")


def every_header_is_complete(learner: Learner) -> str:
    """Check that, after a crash during a flush, there is either no file or a file with a complete
    header.
    """
    left: list[tuple[str, SimDisk]] = []

    def watch(operation: Operation) -> None:
        left.extend((f"{v.name} before {operation}", disk.after_crash(v.keep)) for v in VARIANTS)

    controller = DiskController()
    disk = SimDisk(controller)
    index = bound(LearnersIndex, learner)(LEDGER, IndexHeader(MASTER_KEY), disk, PAGE)
    controller.watch = watch
    for change in (Change(SET, 0, 1), Change(FENCE, 0, 1), Change(SET, 1, 2)):
        _Content(IndexHeader(MASTER_KEY)).apply(change, index)
        index.flush()
    controller.watch = None
    for where, after in left:
        if not after.exists(PATH):
            continue
        try:
            key = LedgerIndex.load(LEDGER, after, PAGE).header.master_key
        except StorageDamagedException as error:
            raise Refused(contract.WHOLE, f"after a crash ({where}): {error}") from None
        if key != MASTER_KEY:
            raise Refused(contract.WHOLE, f"after a crash ({where}), the master key is {key!r}")
    return f"The header was complete after {len(left)} crashes during three flushes."


def disk_errors_are_raised(learner: Learner) -> str:
    """Check that every disk error is raised, and that the next flush then writes everything."""
    kind, header = bound(LearnersIndex, learner), IndexHeader(MASTER_KEY)
    first, later = Change(SET, 0, 1), (Change(SET, 1, 2), Change(FENCE, 0, 1))

    def new_index(disk: SimDisk, right: _Content) -> LedgerIndex:
        index = kind(LEDGER, header, disk, PAGE)
        right.apply(first, index)
        return index

    def flushed_index(disk: SimDisk, right: _Content) -> LedgerIndex:
        index = new_index(disk, right)
        index.flush()
        for change in later:
            right.apply(change, index)
        return index

    def loaded_index(disk: SimDisk, right: _Content) -> LedgerIndex:
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
    prepare: Callable[[SimDisk, _Content], LedgerIndex], error: type[OSError]
) -> None:
    for number in count():
        disk, right = SimDisk(), _Content(IndexHeader(MASTER_KEY))
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
        if problem := _lost_data(disk) or right.difference(LedgerIndex.load(LEDGER, disk, PAGE)):
            raise Refused(
                contract.DURABLE,
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
    raise Refused(contract.LOADED, "the disk cannot read the file; `load` must raise its error")
