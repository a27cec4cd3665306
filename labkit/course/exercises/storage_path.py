"""Lesson 03: the order of a flush, an entry's location, and its slot in the index.

Each of the learner's functions runs in a real store. Afterwards, an unmodified store reads the
files.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from unittest.mock import patch

from labkit.course.checking.cases import Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import storage as generated
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
"""The key of an entry: its ledger id and its entry id."""

ARRIVALS: tuple[Key, ...] = (
    *((8, 0), (7, 0), (8, 1), (7, 1)),
    *((10, 0), (7, 10), (9, 0), (7, 9), (8, 2)),
)
SLOT_SIZE = INDEX_SLOT.size


def flush_order(arrivals: list[Key]) -> list[Key]:
    return sorted(arrivals)


@exercise(
    "storage_path.flush_order",
    hints=(
        "Who reads an entry log? A reader of one ledger, from some entry on. What should follow"
        " entry 0 of ledger 7 on disk?",
        "Keep the entries of a ledger together, ordered by entry id. Python compares tuples field"
        " by field.",
        "One of Python's built-in functions does this and needs no key.",
    ),
    like=flush_order,
    cases=Cases(
        generated.arrivals,
        flush_order,
        "A flush writes the entries in order of their ledger ids and, within a ledger, in order of"
        " their entry ids.",
    ),
)
def order(learner: Callable[[list[Key]], list[Key]]) -> str:
    """A flush writes the entries of each ledger contiguously, in order and completely."""

    class LearnersMemtable(Memtable):
        def __init__(self) -> None:
            super().__init__()
            self.arrivals: list[Key] = []

        def put(self, ledger_id: int, entry_id: int, data: bytes) -> None:
            self.arrivals.append((ledger_id, entry_id))
            super().put(ledger_id, entry_id, data)

        def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
            known = set(self.arrivals)
            # Take one more key than there are entries, to notice an entry that is returned twice.
            for key in islice(learner(list(self.arrivals)), len(self.arrivals) + 1):
                if key not in known:
                    raise Refused(
                        f"{key!r} is not in the memtable; return only the entries that you receive."
                    )
                yield *key, self.get(*key) or b""

    for count in range(3, len(ARRIVALS) + 1):
        with patch.object(LedgerStore, "memtable_class", LearnersMemtable):
            bookie = OneBookie()
            bookie.add(*ARRIVALS[:count])
            bookie.commit()
            bookie.flush()
        _judge_order(bookie, ARRIVALS[:count])
    return (
        f"In {len(ARRIVALS) - 2} flushes by a real store, each ledger's entries were contiguous, in"
        " order and complete."
    )


def _judge_order(bookie: OneBookie, arrivals: tuple[Key, ...]) -> None:
    disk = bookie.machine.ledgers[0]
    written = [(e.ledger_id, e.entry_id) for i in log_ids(disk) for e in scan_entry_log(disk, i)]
    picture = BookieInside(bookie.trace)
    for key in arrivals:
        if written.count(key) != 1:
            problem = "is not in the entry log" if key not in written else "was written twice"
            raise Refused(
                f"A flush must write every entry of the memtable once; entry {key[1]} of ledger"
                f" {key[0]} {problem}. LastLogMark has advanced, so replay cannot repair this.",
                picture,
            )
    for one, next_one in pairwise(written):
        if one[0] == next_one[0] and one[1] > next_one[1]:
            raise Refused(
                f"In ledger {one[0]}, entry {next_one[1]} must come before entry {one[1]}, because"
                " readers read a ledger in order of its entry ids.",
                picture,
            )
    ledgers = [ledger for ledger, _ in written]
    runs = [ledger for i, ledger in enumerate(ledgers) if i == 0 or ledger != ledgers[i - 1]]
    if len(runs) > len(set(runs)):
        split = next(ledger for ledger in runs if runs.count(ledger) > 1)
        raise Refused(
            f"The entries of ledger {split} must be contiguous; yours are in {runs.count(split)}"
            " separate runs, so a reader of the ledger has to jump.",
            picture,
        )
    if runs != sorted(runs):
        raise Refused(
            "The ledgers must be in order of their ids, because BookKeeper's memtable is one sorted"
            f" list; yours are in the order {runs}.",
            picture,
        )


@exercise(
    "storage_path.location",
    hints=(
        "One 64-bit number must hold two numbers: which file, and where in that file. Give half of"
        " the bits to each.",
        "The log id belongs in the upper 32 bits, so shift it. The offset fills the lower bits.",
        "Shift one of the two numbers by 32 bits with `<<`, and combine them with `|`.",
    ),
    like=entry_log.location_of,
    cases=Cases(
        generated.log_and_offset,
        entry_log.location_of,
        "The upper 32 bits of a location are the log id, the lower 32 bits the offset.",
    ),
)
def location(learner: Callable[[int, int], int]) -> str:
    """The location alone identifies the entry log and the offset in that log."""
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
    return f"Your locations led to all {checked} entries in {len(logs)} entry logs."


def _in_range(learner: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def checked(log_id: int, offset: int) -> int:
        found = learner(log_id, offset)
        if not 0 < found < 2**63:
            raise Refused(
                f"A location must be between 1 and 2**63 - 1 (0 means: no such entry); for log"
                f" {log_id} and offset {offset}, yours is {found}."
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
            f"Entry {entry_id} of ledger {ledger_id} is in log {log_id} at offset {at}; your"
            f" location means log {int(found.file.removesuffix('.log'), 16)}, offset"
            f" {found.offset}.",
            picture,
        ) from None


def _log_size(bookie: OneBookie, log_id: int) -> int:
    return bookie.machine.ledgers[0].open(f"current/{entry_log.log_name(log_id)}").size()


def slot_of(entry_id: int, page_size: int) -> tuple[int, int]:
    """Return the index page that contains the entry's location, and the location's offset in that
    page.
    """
    return divmod(entry_id * SLOT_SIZE, page_size)


@exercise(
    "storage_path.index_slot",
    hints=(
        "A location takes 8 bytes, and the locations of entries 0, 1, 2, ... follow each other."
        " Where would the location of entry 100 be if there were no pages?",
        "It would be at byte 8 * entry_id after the header. A page has page_size bytes. How many"
        " whole pages come before this byte, and how many bytes are left?",
        "`divmod` returns both numbers at once. The header of 1024 bytes is not part of the first"
        " page.",
    ),
    like=slot_of,
    cases=Cases(
        generated.slot,
        slot_of,
        "The locations follow each other, in pages of page_size bytes.",
    ),
)
def index_slot(learner: Callable[[int, int], tuple[int, int]]) -> str:
    """Every entry has its own slot, in which any other bookie would look for it."""
    entry_ids = (0, 1, 2, 63, 64, 65, 127, 128, 1000)
    for page_size in (512, 1024, 8192):
        slots = {e: _slot(learner(e, page_size), e, page_size) for e in entry_ids}
        for entry_id, effective in slots.items():
            _judge_slot(entry_id, effective, page_size)
    _write_by(learner, entry_ids)
    return (
        f"Right for {len(entry_ids)} entries and three page sizes, and an unchanged store found all"
        " entries in the index that it wrote with your function."
    )


def _slot(answer: tuple[int, int], entry_id: int, page_size: int) -> int:
    """Return the number of the slot, counted across all pages."""
    if len(answer) != 2 or not all(isinstance(number, int) for number in answer):
        raise Refused(f"Return (page, byte within the page), got {answer!r}.")
    page, at = answer
    if page < 0 or not 0 <= at <= page_size - SLOT_SIZE:
        raise Refused(
            f"Entry {entry_id}: byte {at} of page {page} is out of range; a page has {page_size}"
            f" bytes, and a location takes {SLOT_SIZE} of them."
        )
    if at % SLOT_SIZE:
        raise Refused(
            f"Entry {entry_id}: byte {at} is in the middle of another location, because each"
            f" location takes {SLOT_SIZE} bytes."
        )
    return (page * page_size + at) // SLOT_SIZE


def _judge_slot(entry_id: int, effective: int, page_size: int) -> None:
    if effective != entry_id:
        raise Refused(
            f"With pages of {page_size} bytes, your function puts the location of entry {entry_id}"
            f" at byte {DATA_OFFSET + SLOT_SIZE * effective} of the file. Bookies look for it at"
            f" byte {DATA_OFFSET + SLOT_SIZE * entry_id} and would use it for entry {effective}."
        )


def _write_by(learner: Callable[[int, int], tuple[int, int]], entry_ids: tuple[int, ...]) -> None:
    """Flush entries to the learner's slots, and then read them with an unmodified store."""
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
            raise Refused(f"Entry {entry_id} was not found.", BookieInside(bookie.trace))
