"""Step 7: replay."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from labkit.course.checking.exercise import Refused
from labkit.course.checking.generated_cases import Draw
from labkit.course.workshop.bookie.common_trials import crashes, orders, storms
from labkit.course.workshop.bookie.store import ReplayView, store_of
from labkit.course.workshop.generated_cases import Problem, try_generated
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import ContractLine, Cost, FirstTest, Step
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.events import Event
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.settings.bookie_script import CONFIG, MASTER_KEY, entry_bytes, new_machine

_FLUSHED, _LATER = 40, 8
_CASES = 200
_HEADER = 512
_KEY = b"a key"


def _first_test(learner: Learner) -> None:
    bookie = ReplayView(new_machine(DiskController()).open(LedgerStore, CONFIG))
    found = learner.call("replay", tuple, bookie, SimDisk(), 0, 0)
    if found != (0, 0):
        raise Refused(f"{_END} Without files, return the mark (0, 0); yours returned {found}.")


def a_missing_journal_stops_the_start(learner: Learner) -> str:
    """Check that replay fails if LastLogMark's journal is missing, because entries are then
    lost.
    """
    machine = new_machine(DiskController())
    bookie = ReplayView(machine.open(LedgerStore, CONFIG))
    for later_files in ((), ("current/8.txn",)):
        disk = SimDisk()
        for path in later_files:
            disk.create(path).write(0, bytes(_HEADER))
        try:
            learner.call("replay", tuple, bookie, disk, 7, _HEADER)
        except StorageDamagedException:
            continue
        raise Refused(
            _MISSING,
            "replay(bookie, disk, 7, 512) must raise StorageDamagedException: 7.txn does not exist",
        )
    return "A missing journal stops the start."


_KEYED, _UNKNOWN, _INDEXED = 6, 7, 5
"""Ledgers: with a key record but no index, with neither, and with an index."""
_KINDS = ("entry", "fence", "LAC")
_ENTRY, _FILE = ("entry", _INDEXED), ("file", 0)
_BEFORE_MARK = ((), (_ENTRY,), (_ENTRY, _ENTRY), (_ENTRY, _FILE), (_ENTRY, _ENTRY, _FILE, _ENTRY))
_FILE_IDS = (10, 9, 2**31 - 1)
"""Ids of the first journal file; the next ones have one more digit, or more than 31 bits."""


@dataclass(frozen=True, slots=True)
class ReplayCase:
    """Records as (kind, ledger id), the number of them before LastLogMark, and the problem found.

    A record ("file", 0) starts the next journal file.
    """

    first_file_id: int
    records: tuple[tuple[str, int], ...]
    before_mark: int
    problem: str

    def __str__(self) -> str:
        start = f"journal file {self.first_file_id} contains:"
        lines = [f"ledger {_INDEXED} has an index; {start}"]
        for number, (kind, ledger_id) in enumerate(self.records):
            mark = "<- LastLogMark: replay starts here" if number == self.before_mark else ""
            what = "the next file starts" if kind == "file" else f"{kind} of ledger {ledger_id}"
            lines.append(f"  {number} {what} {mark}".rstrip())
        return "\n".join((*lines, self.problem))


class _Applied:
    """A bookie that records what a replay applies to it."""

    def __init__(self) -> None:
        self.effects: list[tuple[str, int, bytes]] = []
        self.keys: dict[int, bytes] = {_INDEXED: MASTER_KEY}
        self.without_ledger = ""

    def journal_ids(self, disk: SimDisk) -> list[int]:
        return journal_ids(disk)

    def has_ledger(self, ledger_id: int) -> bool:
        return ledger_id in self.keys

    def create_ledger(self, ledger_id: int, master_key: bytes) -> None:
        self.keys.setdefault(ledger_id, master_key)

    def put(self, ledger_id: int, entry_id: int, entry: bytes) -> None:
        self._apply("entry", ledger_id, entry)

    def fence(self, ledger_id: int) -> None:
        self._apply("fence", ledger_id, b"")

    def set_explicit_lac(self, ledger_id: int, body: bytes) -> None:
        self._apply("LAC", ledger_id, body)

    def _apply(self, kind: str, ledger_id: int, data: bytes) -> None:
        if ledger_id not in self.keys and not self.without_ledger:
            self.without_ledger = f"{kind} of ledger {ledger_id}"
        self.effects.append((kind, ledger_id, data))


def _replay_case(draw: Draw) -> ReplayCase:
    ledgers = _INDEXED, _KEYED, _UNKNOWN
    records = []
    for _ in range(draw.number(1, 6)):
        kind = draw.one_of((*_KINDS, "key", "file"))
        ledger_id = _KEYED if kind == "key" else 0 if kind == "file" else draw.one_of(ledgers)
        records.append((kind, ledger_id))
    before = draw.one_of(_BEFORE_MARK)
    return ReplayCase(draw.one_of(_FILE_IDS), (*before, *records), len(before), "")


def records_after_the_mark_are_applied(learner: Learner) -> str:
    """Check that replay applies every record after the mark that belongs to a known ledger."""
    try_generated(
        _replay_case,
        _CASES,
        partial(_problem, learner),
        lambda case, how: replace(case, problem=how),
    )
    return f"Right for {_CASES} generated journals with several files, ledgers and kinds of record."


def _problem(learner: Learner, case: ReplayCase) -> Problem | None:
    disk, file_id = SimDisk(), case.first_file_id
    mark = end = file_id, _HEADER
    data = bytearray(_HEADER)
    must: list[tuple[str, int, bytes]] = []
    earlier: list[tuple[str, int, bytes]] = []
    is_keyed = False
    for number, (kind, ledger_id) in enumerate(case.records):
        if number == case.before_mark:
            mark = file_id, len(data)
        if kind == "file":
            disk.create(f"current/{file_id:x}.txn").write(0, bytes(data) + bytes(8))
            file_id, data = file_id + 1, bytearray(_HEADER)
        else:
            payload = b"data %d" % number
            body = {
                "entry": entry_bytes(ledger_id, number, 10),
                "fence": struct.pack(">qq", ledger_id, -0x2000),
                "LAC": struct.pack(">qqi", ledger_id, -0x8000, len(payload)) + payload,
                "key": struct.pack(">qqi", ledger_id, -0x1000, len(_KEY)) + _KEY,
            }[kind]
            data += struct.pack(">i", len(body)) + body
            shown = {"entry": body, "LAC": payload}.get(kind, b"")
            if number < case.before_mark:
                earlier.append((kind, ledger_id, shown))
            elif kind == "key":
                is_keyed = True
            elif ledger_id == _INDEXED or (ledger_id == _KEYED and is_keyed):
                must.append((kind, ledger_id, shown))
        end = file_id, len(data)
    disk.create(f"current/{file_id:x}.txn").write(0, bytes(data) + bytes(8))
    bookie = _Applied()
    found = tuple(learner.call("replay", tuple, bookie, disk, *mark))
    if any(effect in bookie.effects for effect in earlier):
        return _EARLIER, "an entry that was stored before LastLogMark was applied again"
    wrong = _check_applied(bookie, must, is_keyed)
    if wrong is None and found != end:
        return _END, f"replay must return {end}; yours returned {found}"
    return wrong


def _check_applied(
    bookie: _Applied, must: Sequence[tuple[str, int, bytes]], is_keyed: bool
) -> Problem | None:
    if bookie.without_ledger or set(bookie.keys) - {_INDEXED, _KEYED}:
        which = bookie.without_ledger or f"create_ledger for ledger {_UNKNOWN}"
        return _SKIPPED, f"replay must skip its records; yours applied: {which}"
    created = any(ledger_id == _KEYED for _, ledger_id, _ in must)
    if (_KEYED in bookie.keys) and not created:
        return _KEY_ALONE if is_keyed else _SKIPPED, f"yours called create_ledger({_KEYED}, ...)"
    if bookie.keys.get(_KEYED, _KEY) != _KEY:
        key = bookie.keys[_KEYED]
        return _KEY_ALONE, f"create_ledger({_KEYED}, ...) must get {_KEY!r}; yours gave {key!r}"
    for effect in must:
        if effect not in bookie.effects:
            kind, ledger_id, _ = effect
            return _ALL, f"the {kind} of ledger {ledger_id} was not applied, or with other bytes"
    return None


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
    """Return the number of records replayed for each entry that is only in the journal."""
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
        ContractLine(
            _ALL, broken_by=("lost", "refused", "EveryCopyIsDurable", "AcknowledgedIsDurable")
        ),
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
        records_after_the_mark_are_applied,
    ),
    slow_trials=(crashes, orders, storms),
    costs=(Cost("records replayed per unflushed entry", 1.0, _replayed),),
    challenges=(
        "Flush during the replay, as soon as the memtable is full, so that a start needs no more"
        " memory than normal operation.",
    ),
)
