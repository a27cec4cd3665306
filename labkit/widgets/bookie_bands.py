"""What the picture of a bookie's inside consists of: bands of items, from the memory at the top to
the index at the bottom.

The moving picture makes the same bands (`bookie_bands.js`); a test compares the two.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from labkit.trace.bookie_fold import BookieState, Mark, Record, Stored
from labkit.trace.sentence import fill

MOST_ITEMS = 48
"""Of a longer band only the last items are drawn; of the memtable the first."""
MOST_FILES = 3
SLOT_SIZE = 8
FIRST_SLOT = 1024

PLACES: dict[str, str] = {
    "memtable put": "in the memtable",
    "memtable replayed": "in the memtable again: replay read it from the journal",
    "memtable written": "in the memtable until the flush, which has copied it, is done",
    "memtable lost": "was in the memtable when the bookie was killed",
    "journal written": "record in {file} at {offset}, not synced: not acknowledged",
    "journal synced": "record in {file} at {offset}, synced: durable",
    "journal done": "record in {file} at {offset}, before LastLogMark: replay does not need it",
    "journal unsure": "record for {file} at {offset}, not synced when the bookie was killed",
    "journal lost": "its record was not synced, and replay did not find it",
    "key": "master key of ledger {ledger}, with which replay makes the ledger again",
    "fence": "fence of ledger {ledger}: from here on it takes only recovery's adds",
    "LAC": "explicit LAC of ledger {ledger}: how far its writer has confirmed",
    "log written": "in {file} at {offset}, the index does not know it yet",
    "log stored": "in {file} at {offset}",
    "index slot": "slot at {slot} of the index: it lies in {file} at {offset}",
    "index empty": "slot at {slot} of the index: 8 zero bytes, no such entry here",
}
"""An item in words, by its band and look."""

LEGEND = (
    ("put", "in memory only"),
    ("synced", "synced (each ledger has a colour)"),
    ("done", "no longer needed"),
    ("replayed", "replayed"),
    ("written", "written, not synced"),
    ("unsure", "synced? nobody knows"),
    ("lost", "lost"),
    ("special", "key, fence, LAC: no entry"),
    ("pad", "padding"),
    ("mark", "LastLogMark"),
    ("found", "just read from here"),
)


@dataclass(frozen=True, slots=True)
class Item:
    """A thing in a band.

    kind: `entry`, `special` (a record that is no entry), `pad`, `mark`, `page`, `head`, `tail` or
    `gap`.  `hue` tells ledgers apart; `note` stands below `label`; `found`: the last read found the
    entry here.
    """

    kind: str
    look: str = ""
    ledger: int = -1
    entry: int = -1
    hue: int = -1
    label: str = ""
    note: str = ""
    words: str = ""
    found: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """A row of the picture: one part of the bookie, or one of its files."""

    part: str
    title: str
    subtitle: str
    items: tuple[Item, ...]


def bands_of(state: BookieState, page_size: int) -> list[Band]:
    """The picture of a state; `page_size` is that of the index, in bytes."""
    hues = {ledger: place for place, ledger in enumerate(_ledgers(state))}
    bands = [_memtable(state, hues)]
    journals = list(state.journals.items())[-MOST_FILES:] or [("", ())]
    bands += [_journal(state, hues, *each) for each in journals]
    bands += [_log(state, hues, *each) for each in list(state.logs.items())[-MOST_FILES:]]
    bands += [_index(state, hues, ledger, page_size) for ledger in hues if _slots(state, ledger)]
    return bands


def _ledgers(state: BookieState) -> list[int]:
    return sorted(
        {each.ledger for each in state.memtable}
        | {record.ledger for records in state.journals.values() for record in records}
        | {stored.ledger for entries in state.logs.values() for stored in entries}
    )


def _memtable(state: BookieState, hues: dict[int, int]) -> Band:
    found = state.found
    items = [
        _entry(
            "memtable",
            kept.state,
            (kept.ledger, kept.entry),
            hues,
            found=found is not None
            and (found.ledger, found.entry, found.where) == (kept.ledger, kept.entry, "memtable"),
        )
        for kept in state.memtable
    ]
    left_out = len(items) - MOST_ITEMS
    if left_out > 0:
        items = [*items[:MOST_ITEMS], Item("gap", label=f"+{left_out}")]
    return Band("memory", "memtable", "by ledger, entry", tuple(items))


def _journal(
    state: BookieState, hues: dict[int, int], file: str, records: tuple[Record, ...]
) -> Band:
    title = file or "no record yet"
    mark = state.mark if state.mark and state.mark.file == file else None
    items: list[Item] = [Item("head", label="header")]
    before: Record | None = None
    for record in records:
        if before is not None and _begins_group(before, record):
            items.append(Item("pad"))
        if mark and record.offset >= mark.offset and (not before or before.offset < mark.offset):
            items.append(_mark_item(mark))
        items.append(_record_item(state, hues, file, record))
        before = record
    if before is not None and before.state == "synced":
        items.append(Item("pad"))
    if mark and (before is None or before.offset < mark.offset):
        items.append(_mark_item(mark))
    items.append(Item("tail", label="preallocated"))
    return Band("journal disk", title, "journal, as it comes", _last(items))


def _begins_group(before: Record, record: Record) -> bool:
    """A record that an earlier sync did not cover lies behind that sync's padding."""
    return before.group != record.group


def _mark_item(mark: Mark) -> Item:
    words = f"LastLogMark: replay starts in {mark.file} at {mark.offset}"
    return Item("mark", label="LastLogMark", note=str(mark.offset), words=words)


def _record_item(state: BookieState, hues: dict[int, int], file: str, record: Record) -> Item:
    look, mark = record.state, state.mark
    if look == "synced" and mark is not None and _is_before(state, file, record, mark):
        look = "done"
    place = {"file": file, "offset": record.offset}
    key, note = (record.ledger, record.entry), str(record.offset)
    if record.kind == "entry":
        return _entry("journal", look, key, hues, note=note, place=place)
    what = fill(PLACES[record.kind], {"ledger": record.ledger})
    words = f"{what}; {fill(PLACES[f'journal {look}'], place)}"
    label = f"{record.ledger} {record.kind}"
    return Item("special", look, *key, hues[record.ledger], label, note, words)


def _is_before(state: BookieState, file: str, record: Record, mark: Mark) -> bool:
    files = list(state.journals)
    if mark.file not in files:
        return False
    return (files.index(file), record.offset) < (files.index(mark.file), mark.offset)


def _log(state: BookieState, hues: dict[int, int], file: str, entries: tuple[Stored, ...]) -> Band:
    items: list[Item] = [Item("head", label="header")]
    for stored in entries:
        look = "stored" if stored.indexed else "written"
        place = {"file": file, "offset": stored.offset}
        key = (stored.ledger, stored.entry)
        found = _is_found(state, key) and _location(state, key) == (file, stored.offset)
        note = str(stored.offset)
        items.append(_entry("log", look, key, hues, note=note, place=place, found=found))
    return Band("ledger disk", file, "entry log, all ledgers", _last(items))


def _index(state: BookieState, hues: dict[int, int], ledger: int, page_size: int) -> Band:
    slots = _slots(state, ledger)
    items: list[Item] = []
    per_page = page_size // SLOT_SIZE
    shown = sorted({*slots, *_holes(sorted(slots))})
    page = -1
    for entry in shown:
        if entry // per_page != page:
            page = entry // per_page
            items.append(Item("page", label=f"page {page}"))
        items.append(_slot_item(state, hues, (ledger, entry), slots.get(entry)))
    return Band("ledger disk", f"{ledger:x}.idx", f"index of ledger {ledger}", _last(items))


def _slot_item(
    state: BookieState, hues: dict[int, int], key: tuple[int, int], where: tuple[str, int] | None
) -> Item:
    slot = FIRST_SLOT + SLOT_SIZE * key[1]
    if where is None:
        return _entry("index", "empty", key, hues, note="0", place={"slot": slot})
    file, offset = where
    place = {"slot": slot, "file": file, "offset": offset}
    note, found = f"{file.removesuffix('.log')}:{offset}", _is_found(state, key)
    return _entry("index", "slot", key, hues, note=note, place=place, found=found)


def _holes(entries: list[int]) -> Iterator[int]:
    """Entries without a location that stand between two with one, when they are few."""
    for one, next_one in pairwise([-1, *entries]):
        if next_one - one <= 4:
            yield from range(one + 1, next_one)


def _slots(state: BookieState, ledger: int) -> dict[int, tuple[str, int]]:
    """Entry id -> (log, offset), as the ledger's index says; a later log wins."""
    return {
        stored.entry: (file, stored.offset)
        for file, entries in state.logs.items()
        for stored in entries
        if stored.ledger == ledger and stored.indexed
    }


def _location(state: BookieState, key: tuple[int, int]) -> tuple[str, int] | None:
    return _slots(state, key[0]).get(key[1])


def _is_found(state: BookieState, key: tuple[int, int]) -> bool:
    found = state.found
    return found is not None and (found.ledger, found.entry, found.where) == (*key, "entry log")


def _entry(
    band: str,
    look: str,
    key: tuple[int, int],
    hues: dict[int, int],
    *,
    note: str = "",
    place: dict[str, object] | None = None,
    found: bool = False,
) -> Item:
    ledger, entry = key
    label = str(entry) if band == "index" else f"{ledger}/{entry}"
    words = fill(PLACES[f"{band} {look}"], place or {})
    return Item("entry", look, ledger, entry, hues[ledger], label, note, words, found)


def _last(items: list[Item]) -> tuple[Item, ...]:
    left_out = len(items) - MOST_ITEMS
    if left_out <= 0:
        return tuple(items)
    return (Item("gap", label=f"… {left_out}"), *items[left_out:])
