"""Lesson 03: the order of a flush, the location of an entry, its slot in the index.

Each answer takes its place in a real store; what the store then has on its disk is read by an
unchanged one.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from unittest.mock import patch

from labkit.course.checking.cases import Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import storage as drawn
from labkit.course.runs.one_bookie import OneBookie
from labkit.system.model.errors import NoEntryException, StorageDamagedException
from labkit.system.storage import entry_log
from labkit.system.storage.entry_log import log_ids, scan_entry_log
from labkit.system.storage.index.ledger_index import DATA_OFFSET, INDEX_SLOT, LedgerIndex
from labkit.system.storage.memtable import Memtable
from labkit.system.storage.store import LedgerStore
from labkit.views.widgets.bookie_inside import BookieInside
from labkit.views.widgets.xray import XRay
from labkit.worlds.sim.settings.bookie_script import entry_bytes

Key = tuple[int, int]
"""An entry: (ledger id, entry id)."""

ARRIVALS: tuple[Key, ...] = (
    *((8, 0), (7, 0), (8, 1), (7, 1)),
    *((10, 0), (7, 10), (9, 0), (7, 9), (8, 2)),
)
SLOT_SIZE = INDEX_SLOT.size


def flush_order(arrivals: list[Key]) -> list[Key]:
    """In which order a flush writes entries that arrived in that order."""
    return sorted(arrivals)


@exercise(
    "storage_path.flush_order",
    hints=(
        "Who reads an entry log? A reader of one ledger, from some entry on. What should lie after"
        " entry 0 of ledger 7 on the disk?",
        "All entries of a ledger together, and inside a ledger by entry id. Python compares tuples"
        " field by field.",
        "One of Python's own functions does it, and needs no key.",
    ),
    like=flush_order,
    cases=Cases(
        drawn.arrivals,
        flush_order,
        "A flush writes ledger by ledger, in order of the ids, and so each ledger's entries.",
    ),
)
def order(learner: Callable[[list[Key]], list[Key]]) -> str:
    """A ledger's entries lie one after the other, in order, and none is missing."""

    class LearnersMemtable(Memtable):
        def __init__(self) -> None:
            super().__init__()
            self.arrivals: list[Key] = []

        def put(self, ledger_id: int, entry_id: int, data: bytes) -> None:
            self.arrivals.append((ledger_id, entry_id))
            super().put(ledger_id, entry_id, data)

        def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
            known = set(self.arrivals)
            # One more than there are: then one of them comes twice.
            for key in islice(learner(list(self.arrivals)), len(self.arrivals) + 1):
                if key not in known:
                    raise Refused(f"{key!r} was not in the memtable; write what you were given.")
                yield *key, self.get(*key) or b""

    for count in range(3, len(ARRIVALS) + 1):
        with patch.object(LedgerStore, "memtable_class", LearnersMemtable):
            bookie = OneBookie()
            bookie.add(*ARRIVALS[:count])
            bookie.commit()
            bookie.flush()
        _judge_order(bookie, ARRIVALS[:count])
    return (
        f"{len(ARRIVALS) - 2} flushes by a real store wrote every ledger in one piece, in order,"
        " and no entry was missing."
    )


def _judge_order(bookie: OneBookie, arrivals: tuple[Key, ...]) -> None:
    disk = bookie.machine.ledgers[0]
    written = [(e.ledger_id, e.entry_id) for i in log_ids(disk) for e in scan_entry_log(disk, i)]
    picture = BookieInside(bookie.trace)
    for key in arrivals:
        if written.count(key) != 1:
            problem = "is not in the entry log" if key not in written else "was written twice"
            raise Refused(
                f"A flush writes every entry of the memtable once; entry {key[1]} of ledger"
                f" {key[0]} {problem}. LastLogMark has moved on, so no replay repairs that.",
                picture,
            )
    for one, next_one in pairwise(written):
        if one[0] == next_one[0] and one[1] > next_one[1]:
            raise Refused(
                f"Inside ledger {one[0]} entry {next_one[1]} must lie before entry {one[1]}: who"
                " reads the ledger reads in order of the entry ids.",
                picture,
            )
    ledgers = [ledger for ledger, _ in written]
    pieces = [ledger for i, ledger in enumerate(ledgers) if i == 0 or ledger != ledgers[i - 1]]
    if len(pieces) > len(set(pieces)):
        split = next(ledger for ledger in pieces if pieces.count(ledger) > 1)
        raise Refused(
            f"The entries of ledger {split} must lie in one piece; yours lie in"
            f" {pieces.count(split)}, so reading the ledger jumps.",
            picture,
        )
    if pieces != sorted(pieces):
        raise Refused(
            f"Ledgers follow each other by their ids; yours come as {pieces}."
            " BookKeeper's memtable is one sorted list.",
            picture,
        )


@exercise(
    "storage_path.location",
    hints=(
        "One number of 64 bits must hold two: which file, and where in it. Give each a half.",
        "The log id goes into the upper 32 bits: shift it. The offset stays below.",
        "Move one of the two numbers up by 32 bits with `<<`, and join them with `|`.",
    ),
    like=entry_log.location_of,
    cases=Cases(
        drawn.place_in_a_log,
        entry_log.location_of,
        "The log's id is the upper 32 bits of a location, the offset the lower 32.",
    ),
)
def location(learner: Callable[[int, int], int]) -> str:
    """The location alone leads to the log and the offset in it."""
    checked = 0
    with patch.object(entry_log, "location_of", _in_range(learner)):
        bookie = OneBookie()
        for entry_id in range(6):
            bookie.add((7, entry_id), (8, entry_id), payload_size=600)
            bookie.commit()
            bookie.flush()
    for ledger_id in (7, 8):
        for entry_id in range(6):
            _judge_location(bookie, ledger_id, entry_id)
            checked += 1
    logs = [i for i in log_ids(bookie.machine.ledgers[0]) if _log_size(bookie, i)]
    return f"{checked} entries in {len(logs)} entry logs were found by your locations."


def _in_range(learner: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def checked(log_id: int, offset: int) -> int:
        found = learner(log_id, offset)
        if not 0 < found < 2**63:
            raise Refused(
                f"A location is a positive signed 64-bit number; for log {log_id}, offset {offset}"
                f" yours is {found}. 0 would mean: no such entry."
            )
        return found

    return checked


def _judge_location(bookie: OneBookie, ledger_id: int, entry_id: int) -> None:
    picture = XRay(bookie.places(ledger_id, entry_id, payload_size=600)[2:])
    found = next(
        event
        for event in bookie.trace.events
        if (event.kind, event.ledger, event.entry) == ("entry_log.written", ledger_id, entry_id)
    )
    try:
        bookie.store.read_entry(ledger_id, entry_id)
    except (StorageDamagedException, NoEntryException):
        disk = bookie.machine.ledgers[0]
        log_id, at = next(
            (i, e.offset + 4)
            for i in log_ids(disk)
            for e in scan_entry_log(disk, i)
            if (e.ledger_id, e.entry_id) == (ledger_id, entry_id)
        )
        raise Refused(
            f"Entry {entry_id} of ledger {ledger_id} lies in log {log_id} at {at}; your location"
            f" leads to log {int(found.file.removesuffix('.log'), 16)}, offset {found.offset}.",
            picture,
        ) from None


def _log_size(bookie: OneBookie, log_id: int) -> int:
    return bookie.machine.ledgers[0].open(f"current/{entry_log.log_name(log_id)}").size()


def slot_of(entry_id: int, page_size: int) -> tuple[int, int]:
    """The index page that holds the entry's location, and the location's first byte in it."""
    return divmod(entry_id * SLOT_SIZE, page_size)


@exercise(
    "storage_path.index_slot",
    hints=(
        "A location takes 8 bytes, and those of the entries 0, 1, 2, ... lie one after the other."
        " Where would entry 100 be if there were no pages?",
        "At byte 8 * entry_id after the header. A page is page_size of these bytes: how many whole"
        " pages lie before it, and how many bytes are left?",
        "`divmod` gives both numbers at once. The header of 1024 bytes is not part of the first"
        " page.",
    ),
    like=slot_of,
    cases=Cases(
        drawn.slot,
        slot_of,
        "The locations lie one after the other, in pages of page_size bytes.",
    ),
)
def index_slot(learner: Callable[[int, int], tuple[int, int]]) -> str:
    """Every entry has a different slot, and it is where another bookie looks for it."""
    entry_ids = (0, 1, 2, 63, 64, 65, 127, 128, 1000)
    for page_size in (512, 1024, 8192):
        slots = {e: _slot(learner(e, page_size), e, page_size) for e in entry_ids}
        for entry_id, effective in slots.items():
            _judge_slot(entry_id, effective, page_size)
    _write_by(learner, entry_ids)
    return (
        f"{len(entry_ids)} entries, with pages of three sizes; and an unchanged store"
        " found them all in the index that your function wrote."
    )


def _slot(answer: tuple[int, int], entry_id: int, page_size: int) -> int:
    """The slot's number, counted through all pages."""
    if len(answer) != 2 or not all(isinstance(number, int) for number in answer):
        raise Refused(f"The answer is (page, byte in the page); yours is {answer!r}.")
    page, at = answer
    if page < 0 or not 0 <= at <= page_size - SLOT_SIZE:
        raise Refused(
            f"Entry {entry_id}: byte {at} of page {page} does not exist; a page has {page_size}"
            f" bytes, and a location needs {SLOT_SIZE} of them."
        )
    if at % SLOT_SIZE:
        raise Refused(
            f"Entry {entry_id}: byte {at} is in the middle of another location; every location"
            f" takes {SLOT_SIZE} bytes."
        )
    return (page * page_size + at) // SLOT_SIZE


def _judge_slot(entry_id: int, effective: int, page_size: int) -> None:
    if effective != entry_id:
        raise Refused(
            f"With pages of {page_size} bytes the location of entry {entry_id} would lie at byte"
            f" {DATA_OFFSET + SLOT_SIZE * effective} of the file. Every bookie looks for it at"
            f" {DATA_OFFSET + SLOT_SIZE * entry_id} and would take it for entry {effective}."
        )


def _write_by(learner: Callable[[int, int], tuple[int, int]], entry_ids: tuple[int, ...]) -> None:
    """Flush with the learner's slots, then start another store on the files and read."""
    real = LedgerIndex.set_locations

    def set_locations(
        index: LedgerIndex, entry_ids: Sequence[int], locations: Sequence[int]
    ) -> None:
        size = index.page_size
        slots = [_slot(learner(entry_id, size), entry_id, size) for entry_id in entry_ids]
        for entry_id, slot in zip(entry_ids, slots, strict=True):
            _judge_slot(entry_id, slot, size)
        real(index, slots, locations)

    bookie = OneBookie()
    with patch.object(LedgerIndex, "set_locations", set_locations):
        bookie.add(*((7, entry_id) for entry_id in entry_ids))
        bookie.commit()
        bookie.flush()
    bookie.crash()
    bookie.restart()
    for entry_id in entry_ids:
        if bookie.store.read_entry(7, entry_id) != entry_bytes(7, entry_id, 20):
            raise Refused(f"Entry {entry_id} was not found again.", BookieInside(bookie.trace))
