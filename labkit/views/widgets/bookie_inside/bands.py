"""The contents of a picture of a bookie: bands of items, from the memtable at the top to the index
at the bottom.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from labkit.system.trace.bookie_state import (
    BookieState,
    JournalRecord,
    LoggedEntry,
    Mark,
    ServedEntry,
)
from labkit.system.trace.sentence import fill

MAX_ITEMS, STEP = 48, 12
"""The maximum number of items in a band, and the number of items that are dropped at a time. If
there are more items, only the last ones are drawn (in the memtable, only the first ones). Items
are dropped in groups so that the band does not shift with every event.
"""
MAX_FILES = 3
SLOT_SIZE = 8
FIRST_SLOT = 1024

PLACES: dict[str, str] = {
    "memtable put": "in the memtable",
    "memtable replayed": "back in the memtable: replay has read it from the journal",
    "memtable written": "written by a flush, and in the memtable until the flush completes",
    "memtable lost": "was in the memtable when the bookie was killed",
    "journal written": "record in {file} at {offset}, not synced, so not acknowledged",
    "journal synced": "record in {file} at {offset}, synced, so durable",
    "journal done": "record in {file} at {offset}, before LastLogMark, so replay skips it",
    "journal unsure": "record for {file} at {offset}, not synced when the bookie was killed",
    "journal lost": "its record was not synced, and replay did not find it",
    "key": "master key of ledger {ledger}, from which replay recreates the ledger",
    "fence": "fence of ledger {ledger}: from here on, only recovery may add entries",
    "LAC": "explicit LAC of ledger {ledger}: the last entry that its writer has confirmed",
    "log written": "in {file} at {offset}, not in the index yet",
    "log stored": "in {file} at {offset}",
    "log done": "in {file} at {offset}: garbage, because this bookie has dropped the ledger",
    "index slot": "index slot at {slot}: the entry is in {file} at {offset}",
    "index empty": "index slot at {slot}: 8 zero bytes, no such entry on this bookie",
}
"""The description of an item, by its band and look."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item in a band.

    kind: `entry`, `special` (a record that is not an entry), `pad`, `mark`, `page`, `head`, `tail`
        or `gap`.
    hue: the number of the hue that identifies the ledger.
    note: text below `label`.
    found: whether the latest read found the entry here.
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
    """A row of the picture: one component of the bookie, or one of its files."""

    part: str
    title: str
    subtitle: str
    items: tuple[Item, ...]


Slots = dict[int, tuple[str, int]]
"""For each entry id, the entry log that contains the entry, and the offset in that log."""
FoundEntry = tuple[int, int, str, int]
"""The ledger, entry, file and offset of the latest read, if it was from an entry log."""


def bands_of(state: BookieState, page_size: int) -> list[Band]:
    """Return the bands of a state. `page_size` is the index's page size in bytes."""
    hues = {ledger: place for place, ledger in enumerate(_ledgers(state))}
    bands = [_memtable(state, hues)]
    journals = list(state.journals.items())[-MAX_FILES:] or [("", ())]
    bands += [_journal(state, hues, *each) for each in journals]
    slots = _slots(state)
    found = _found_at(state, slots)
    bands += [_log(hues, *each, found) for each in list(state.logs.items())[-MAX_FILES:]]
    bands += [_index(state, hues, ledger, slots[ledger], page_size) for ledger in sorted(slots)]
    return bands


def _ledgers(state: BookieState) -> list[int]:
    return sorted(
        {each.ledger for each in state.memtable}
        | {record.ledger for records in state.journals.values() for record in records}
        | {stored.ledger for entries in state.logs.values() for stored in entries}
    )


def _memtable(state: BookieState, hues: dict[int, int]) -> Band:
    items = [
        _entry(
            "memtable",
            kept.state,
            (kept.ledger, kept.entry),
            hues[kept.ledger],
            found=state.served == ServedEntry(kept.ledger, kept.entry, "memtable"),
        )
        for kept in state.memtable[:MAX_ITEMS]
    ]
    left_out = len(state.memtable) - len(items)
    more = [Item("gap", label=f"+{left_out}")] if left_out else []
    return Band("memory", "memtable", "sorted by entry", (*items, *more))


def _journal(
    state: BookieState, hues: dict[int, int], file: str, records: tuple[JournalRecord, ...]
) -> Band:
    mark = state.mark if state.mark and state.mark.file == file else None
    left_out = _left_out(records)
    items = [_beginning(left_out)]
    before = records[left_out - 1] if left_out else None
    replay_start = _replay_start(state, file)
    for record in records[left_out:]:
        if before is not None and before.group != record.group:
            items.append(Item("pad"))
        if mark and record.offset >= mark.offset and (not before or before.offset < mark.offset):
            items.append(_mark_item(mark))
        is_obsolete = record.state == "synced" and record.offset < replay_start
        look = "done" if is_obsolete else record.state
        items.append(_record_item(record, look, hues[record.ledger], file))
        before = record
    if before is not None and before.state == "synced":
        items.append(Item("pad"))
    if mark and (before is None or before.offset < mark.offset):
        items.append(_mark_item(mark))
    items.append(Item("tail", label="preallocated"))
    return Band("journal disk", file or "no records yet", "journal, in order", tuple(items))


def _left_out(entries: Sequence[object]) -> int:
    return max(-(-(len(entries) - MAX_ITEMS) // STEP) * STEP, 0)


def _beginning(left_out: int) -> Item:
    """Return the first item of a file: its header or, if items are omitted, their number."""
    return Item("gap", label=f"… {left_out}") if left_out else Item("head", label="header")


def _mark_item(mark: Mark) -> Item:
    words = f"LastLogMark: replay starts in {mark.file} at {mark.offset}"
    return Item("mark", label="LastLogMark", note=str(mark.offset), words=words)


def _replay_start(state: BookieState, file: str) -> int:
    """Return the offset at which replay starts in the file. Records before it are not needed."""
    mark, files = state.mark, list(state.journals)
    if mark is None or mark.file not in files or file not in files:
        return 0
    ahead = files.index(mark.file) - files.index(file)
    return mark.offset if ahead == 0 else sys.maxsize if ahead > 0 else 0


@lru_cache(16384)
def _record_item(record: JournalRecord, look: str, hue: int, file: str) -> Item:
    place = {"file": file, "offset": record.offset}
    key, note = (record.ledger, record.entry), str(record.offset)
    if record.kind == "entry":
        return _entry("journal", look, key, hue, note=note, **place)
    what = fill(PLACES[record.kind], {"ledger": record.ledger})
    words = f"{what}; {fill(PLACES[f'journal {look}'], place)}"
    return Item("special", look, *key, hue, f"{record.ledger} {record.kind}", note, words)


def _log(
    hues: dict[int, int], file: str, entries: tuple[LoggedEntry, ...], found: FoundEntry | None
) -> Band:
    left_out = _left_out(entries)
    items = [_beginning(left_out)]
    for stored in entries[left_out:]:
        look, hue = ("stored" if stored.indexed else "written"), hues[stored.ledger]
        look = "done" if stored.is_garbage else look
        key, offset = (stored.ledger, stored.entry), stored.offset
        is_found = found == (*key, file, offset)
        place = {"file": file, "offset": offset}
        items.append(_entry("log", look, key, hue, note=str(offset), found=is_found, **place))
    return Band("ledger disk", file, "entry log, all ledgers", tuple(items))


def _index(
    state: BookieState, hues: dict[int, int], ledger: int, slots: Slots, page_size: int
) -> Band:
    entries = sorted({*slots, *_missing_between(sorted(slots))})
    left_out = _left_out(entries)
    items = [Item("gap", label=f"… {left_out}")] if left_out else []
    found, page = state.served, -1
    for entry in entries[left_out:]:
        if entry // (page_size // SLOT_SIZE) != page:
            page = entry // (page_size // SLOT_SIZE)
            items.append(Item("page", label=f"page {page}"))
        is_found = found == ServedEntry(ledger, entry, "entry log")
        items.append(_slot_item((ledger, entry), slots.get(entry), hues[ledger], is_found))
    return Band("ledger disk", f"{ledger:x}.idx", f"index of ledger {ledger}", tuple(items))


@lru_cache(16384)
def _slot_item(
    key: tuple[int, int], where: tuple[str, int] | None, hue: int, is_found: bool
) -> Item:
    slot = FIRST_SLOT + SLOT_SIZE * key[1]
    if where is None:
        return _entry("index", "empty", key, hue, note="0", slot=slot)
    file, offset = where
    note = f"{file.removesuffix('.log')}:{offset}"
    place = {"slot": slot, "file": file, "offset": offset}
    return _entry("index", "slot", key, hue, note=note, found=is_found, **place)


def _missing_between(entries: list[int]) -> Iterator[int]:
    """Yield the entries without a location that are in small gaps before an entry with a
    location.
    """
    for one, next_one in pairwise([-1, *entries]):
        if next_one - one <= 4:
            yield from range(one + 1, next_one)


def _slots(state: BookieState) -> dict[int, Slots]:
    """Return the location of each indexed entry, by ledger and entry id. If an entry is in several
    logs, the later log is used.
    """
    slots: dict[int, Slots] = {}
    for file, entries in state.logs.items():
        for stored in entries:
            if stored.indexed:
                slots.setdefault(stored.ledger, {})[stored.entry] = (file, stored.offset)
    return slots


def _found_at(state: BookieState, slots: dict[int, Slots]) -> FoundEntry | None:
    found = state.served
    if found is None or found.where != "entry log":
        return None
    where = slots.get(found.ledger, {}).get(found.entry)
    return (found.ledger, found.entry, *where) if where else None


@lru_cache(16384)
def _entry(
    band: str,
    look: str,
    key: tuple[int, int],
    hue: int,
    *,
    note: str = "",
    found: bool = False,
    **place: str | int,
) -> Item:
    ledger, entry = key
    label = str(entry) if band == "index" else f"{ledger}/{entry}"
    words = fill(PLACES[f"{band} {look}"], place)
    return Item("entry", look, ledger, entry, hue, label, note, words, found)
