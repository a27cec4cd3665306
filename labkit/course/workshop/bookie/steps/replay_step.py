"""Step 7: replay."""

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.bookie.common_trials import LOSSES, crashes, orders, storms
from labkit.course.workshop.bookie.store import ReplayView, store_of
from labkit.course.workshop.bookie.trial_disks import UnopenableDisk, unreadable_files
from labkit.course.workshop.generated_cases import try_generated
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.tracks import ContractLine, Cost, FirstTest, Step
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.events import Event
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.settings.bookie_script import CONFIG, MASTER_KEY, entry_bytes, new_machine

_FLUSHED, _LATER = 40, 8
_CASES = 200
_HEADER = 512


def _first_test(learner: Learner) -> None:
    bookie = ReplayView(new_machine(DiskController()).open(LedgerStore, CONFIG))
    found = learner.call("replay", tuple, bookie, SimDisk(), 0, 0)
    if found != (0, 0):
        raise Refused(f"{_END} Without files, return the mark (0, 0); yours returned {found}.")


def a_missing_journal_stops_the_start(learner: Learner) -> str:
    """Check that replay fails if the journal that LastLogMark points to is missing, because entries
    are then lost.
    """
    machine = new_machine(DiskController())
    bookie = ReplayView(machine.open(LedgerStore, CONFIG))
    for file_ids in ((), (8,), (6,), (6, 8)):
        disk = SimDisk()
        for file_id in file_ids:
            disk.create(f"current/{file_id:x}.txn").write(0, bytes(_HEADER))
        try:
            learner.call("replay", tuple, bookie, disk, 7, _HEADER)
        except StorageDamagedException:
            continue
        except FileNotFoundError as error:
            did = f"yours raised FileNotFoundError: {error}"
        else:
            did = "yours returned"
        files = ", ".join(disk.files("current", ".txn")) or "no journal files"
        raise Refused(
            _MISSING,
            f"replay(bookie, disk, 7, 512) must raise StorageDamagedException, because there are"
            f" only {files}; {did}",
        )
    return "A missing journal stops the start."


def unreadable_journals_stop_the_start(learner: Learner) -> str:
    """Check that replay does not skip a journal that the disk cannot open or read."""
    for disk in (SimDisk(), UnopenableDisk()):
        disk.create("current/7.txn").write(0, bytes(_HEADER))
        with unreadable_files(disk.controller):
            try:
                learner.call("replay", tuple, _Applied(), disk, 7, _HEADER)
            except (OSError, StorageDamagedException):
                continue
        problem = "the disk cannot read 7.txn; replay must raise the error, but yours returned"
        raise Refused(_ALL, problem)
    return "A journal that cannot be read stops the start."


_KEYED, _UNKNOWN, _INDEXED = 6, 7, 5
"""Ledgers: with a key record but no index, with neither, and with an index."""
_KEYS = {_KEYED: b"a key", _INDEXED: MASTER_KEY}
_FILE_IDS = (10, 9, 2**31 - 1)
"""Ids of the first journal file; the next ones have one more digit, or more than 31 bits."""
_ENTRY, _FENCE, _LAC, _KEY, _FILE = "entry", "fence", "LAC", "key", "file"


class _Record(NamedTuple):
    """A journal record. A record of the kind `_FILE` marks the start of the next file."""

    kind: str
    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        if self.kind == _FILE:
            return "the next file starts"
        number = f" {self.entry_id}" if self.kind in (_ENTRY, _LAC) else ""
        return f"{self.kind}{number} of ledger {self.ledger_id}"

    @property
    def content(self) -> bytes:
        """The bytes of the record that replay passes to the bookie."""
        return {
            _ENTRY: entry_bytes(self.ledger_id, self.entry_id, 10),
            _LAC: b"LAC %d" % self.entry_id,
            _KEY: _KEYS.get(self.ledger_id, b""),
        }.get(self.kind, b"")

    @property
    def body(self) -> bytes:
        if self.kind == _ENTRY:
            return self.content
        special_id = {_FENCE: -0x2000, _LAC: -0x8000, _KEY: -0x1000}[self.kind]
        ids = struct.pack(">qq", self.ledger_id, special_id)
        if self.kind == _FENCE:
            return ids
        return ids + struct.pack(">i", len(self.content)) + self.content

    @property
    def effect(self) -> "_Effect":
        entry_id = self.entry_id if self.kind == _ENTRY else -1
        return _Effect(self.kind, self.ledger_id, entry_id, self.content)


class _Effect(NamedTuple):
    """A change that replay applies to a bookie."""

    kind: str
    ledger_id: int
    entry_id: int
    data: bytes

    def __str__(self) -> str:
        number = f" {self.entry_id}" if self.kind == _ENTRY else ""
        return f"{self.kind}{number} of ledger {self.ledger_id}"


@dataclass(frozen=True, slots=True)
class ReplayCase:
    """Journal records, starting with those before LastLogMark.

    has_mark: whether LastLogMark was stored; if not, LastLogMark is (0, 0), and no record precedes
        it
    """

    first_file_id: int
    before: tuple[_Record, ...]
    after: tuple[_Record, ...]
    has_mark: bool

    def __str__(self) -> str:
        mark = "LastLogMark: replay starts here" if self.has_mark else "LastLogMark is (0, 0)"
        return "\n".join(
            (
                f"ledger {_INDEXED} has an index; journal file {self.first_file_id} contains:",
                *(f"  {record}" for record in self.before),
                f"  ({mark})",
                *(f"  {record}" for record in self.after),
            )
        )


class _Applied:
    """A bookie that records all changes that replay applies to it."""

    def __init__(self) -> None:
        self.effects: list[_Effect] = []
        self.keys: dict[int, bytes] = {_INDEXED: MASTER_KEY}
        self.without_ledger = self.created_again = ""

    def journal_ids(self, disk: SimDisk) -> list[int]:
        return journal_ids(disk)

    def has_ledger(self, ledger_id: int) -> bool:
        return ledger_id in self.keys

    def create_ledger(self, ledger_id: int, master_key: bytes) -> None:
        if ledger_id in self.keys:
            self.created_again = f"create_ledger({ledger_id}, ...)"
        self.keys.setdefault(ledger_id, master_key)

    def put(self, ledger_id: int, entry_id: int, entry: bytes) -> None:
        self._apply(_Effect(_ENTRY, ledger_id, entry_id, entry))

    def fence(self, ledger_id: int) -> None:
        self._apply(_Effect(_FENCE, ledger_id, -1, b""))

    def set_explicit_lac(self, ledger_id: int, body: bytes) -> None:
        self._apply(_Effect(_LAC, ledger_id, -1, body))

    def _apply(self, effect: _Effect) -> None:
        if effect.ledger_id not in self.keys and not self.without_ledger:
            self.without_ledger = str(effect)
        self.effects.append(effect)

    def last_lac(self, ledger_id: int) -> bytes:
        lacs = (e.data for e in self.effects if (e.kind, e.ledger_id) == (_LAC, ledger_id))
        return next(iter([*lacs][-1:]), b"")


def _replay_case(draw: Draw) -> ReplayCase:
    before = tuple(_record(draw, _INDEXED, _KEYED) for _ in range(draw.number(0, 4)))
    after = tuple(_record(draw, _INDEXED, _KEYED, _UNKNOWN) for _ in range(draw.number(1, 6)))
    has_mark = bool(before) or not draw.chance(20)
    return ReplayCase(draw.one_of(_FILE_IDS), before, after, has_mark)


def _record(draw: Draw, *ledgers: int) -> _Record:
    kind, ledger_id = draw.one_of((_ENTRY, _FENCE, _LAC, _KEY, _FILE)), draw.one_of(ledgers)
    if kind == _KEY and ledger_id == _UNKNOWN:
        ledger_id = _KEYED
    return _Record(kind, ledger_id, draw.number(0, 9))


def records_after_the_mark_are_applied(learner: Learner) -> str:
    """Check that replay applies every record after LastLogMark that belongs to a known ledger."""
    try_generated(learner, _replay_case, _CASES, _test_replay, str)
    return f"Right for {_CASES} generated journals with several files, ledgers and kinds of record."


def _test_replay(learner: Learner, case: ReplayCase) -> None:
    disk = SimDisk()
    mark = _write_journals(disk, case.first_file_id, case.before)
    end = _write_journals(disk, case.first_file_id, (*case.before, *case.after))
    if not case.has_mark:
        mark = (0, 0)
    keyed, must = {_INDEXED}, list[_Record]()
    for record in case.after:
        if record.kind == _KEY:
            keyed.add(record.ledger_id)
        elif record.kind != _FILE and record.ledger_id in keyed:
            must.append(record)
    bookie = _Applied()
    found = tuple(learner.call("replay", tuple, bookie, disk, *mark))
    _check_earlier(bookie, case, must)
    _check_ledgers(bookie, must, keyed)
    _check_all(bookie, must)
    if found != end:
        raise Refused(_END, f"replay must return {end}; yours returned {found}")


def _write_journals(disk: SimDisk, file_id: int, records: Sequence[_Record]) -> tuple[int, int]:
    """Write the journal files; return the id of the last file, and the offset at which its records
    end.
    """
    data = bytearray(_HEADER)
    for record in records:
        if record.kind == _FILE:
            disk.create(f"current/{file_id:x}.txn").write(0, bytes(data) + bytes(8))
            file_id, data = file_id + 1, bytearray(_HEADER)
        else:
            data += struct.pack(">i", len(record.body)) + record.body
    disk.create(f"current/{file_id:x}.txn").write(0, bytes(data) + bytes(8))
    return file_id, len(data)


def _check_earlier(bookie: _Applied, case: ReplayCase, must: Sequence[_Record]) -> None:
    allowed = {record.effect for record in must}
    for record in case.before:
        if record.effect in bookie.effects and record.effect not in allowed:
            raise Refused(_EARLIER, f"this was applied again: {record}")
    is_key_before = any(r.kind == _KEY and r.ledger_id == _KEYED for r in case.before)
    if is_key_before and _KEYED in bookie.keys and all(r.kind != _KEY for r in case.after):
        how = f"ledger {_KEYED} was created with a key from before LastLogMark"
        raise Refused(_EARLIER, how)


def _check_ledgers(bookie: _Applied, must: Sequence[_Record], keyed: Collection[int]) -> None:
    if bookie.without_ledger or set(bookie.keys) - {_INDEXED, _KEYED}:
        which = bookie.without_ledger or f"create_ledger for ledger {_UNKNOWN}"
        raise Refused(_SKIPPED, f"replay must skip its records; yours applied: {which}")
    if bookie.created_again:
        how = f"the ledger exists already, but yours called {bookie.created_again}"
        raise Refused(_KEY_ALONE, how)
    is_needed = any(record.ledger_id == _KEYED for record in must)
    if _KEYED in bookie.keys and not is_needed:
        rule = _KEY_ALONE if _KEYED in keyed else _SKIPPED
        raise Refused(rule, f"yours called create_ledger({_KEYED}, ...)")
    if (key := bookie.keys.get(_KEYED, _KEYS[_KEYED])) != _KEYS[_KEYED]:
        how = f"create_ledger({_KEYED}, ...) must get {_KEYS[_KEYED]!r}; yours gave {key!r}"
        raise Refused(_KEY_ALONE, how)


def _check_all(bookie: _Applied, must: Sequence[_Record]) -> None:
    for record in must:
        if record.effect not in bookie.effects:
            raise Refused(_ALL, f"this was not applied, or with other bytes: {record}")
    last_lacs = {record.ledger_id: record for record in must if record.kind == _LAC}
    for ledger_id, record in last_lacs.items():
        if (found := bookie.last_lac(ledger_id)) != record.content:
            raise Refused(_ALL, f"{record} is the newest, but yours ended with {found!r}")


_MISSING = (
    "If the journal file of LastLogMark is missing, the bookie does not start, because it would"
    " deny having entries that it has acknowledged."
)
_ALL = (
    "After a start, everything that was acknowledged is available: entries, fences and explicit"
    " LACs from every journal file, from LastLogMark on."
)
_EARLIER = (
    "Records before LastLogMark are not applied: their entries are on disk, and their ledger may"
    " have been deleted since."
)
_KEY_ALONE = (
    "A key record alone creates nothing: the ledger is recreated, with that key, by its first"
    " record of another kind."
)
_SKIPPED = "Records of a ledger that has neither an index nor a key record are skipped."
_END = "`replay` returns the id of the last journal file and the offset where its records end."


def _replayed(learner: Learner | None) -> float:
    """Return the number of replayed records divided by the number of entries that are only in the
    journal.
    """
    machine = new_machine(DiskController())
    kind = LedgerStore if learner is None else store_of(learner)
    store = machine.open(LedgerStore, CONFIG)
    for entry_id in range(_FLUSHED + _LATER):
        store.add_entry(5, entry_id, entry_bytes(5, entry_id, 10), MASTER_KEY)
        store.commit()
        if entry_id == _FLUSHED - 1:
            store.checkpoint()
    rows: list[Event] = []
    machine.open(kind, CONFIG, rows.extend)
    return sum(row.size for row in rows if row.kind == "journal.replayed") / _LATER


STEP = Step(
    number=7,
    name="replay",
    parts=("replay",),
    contract=(
        ContractLine(_MISSING),
        ContractLine(_ALL, broken_by=(*LOSSES, "refused")),
        ContractLine(_EARLIER),
        ContractLine(_KEY_ALONE),
        ContractLine(_SKIPPED, broken_by=("invented",)),
        ContractLine(_END),
    ),
    write="the function replay in about 35 lines; it reads each file with your `records`.",
    hints=(
        "LastLogMark and the position of a record are both a file id and an offset in that file."
        " The record that starts exactly at the mark is the first one to apply.",
        "The mark's offset counts only in the mark's own file. Every later file starts at 512.",
        "Keep the keys of key records in a dictionary. For a record of another kind, first ask"
        " `has_ledger`; if there is none, create it with the key from the dictionary, or skip the"
        " record if the dictionary has no key.",
    ),
    first_test=FirstTest(
        "    # there are no journal files on this disk\n"
        "    assert replay(bookie, disk, 0, 0) == (0, 0)\n",
        _first_test,
    ),
    trials=(
        a_missing_journal_stops_the_start,
        unreadable_journals_stop_the_start,
        records_after_the_mark_are_applied,
    ),
    slow_trials=(crashes, orders, storms),
    costs=(Cost("records replayed per unflushed entry", 1.0, _replayed),),
    challenges=(
        "Flush during the replay, as soon as the memtable is full, so that a start needs no more"
        " memory than normal operation.",
    ),
)
