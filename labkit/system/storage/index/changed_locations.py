"""What of an index is not in its file yet: locations of entries, and how they are written.

Kept by entry, not as pages of the file: of ten thousand ledgers that got a few entries each, whole
pages would take ten thousand times 8 KiB.

In BookKeeper: the dirty pages of `bookie/IndexInMemPageMgr.java`.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

_SLOT = struct.Struct(">q")


class ChangedLocations:
    """The locations that were set since the index was written.

    One thread sets them, others may look meanwhile.
    """

    __slots__ = ("_by_entry", "_page_size", "_slots_in_page", "pages")

    def __init__(self, page_size: int) -> None:
        self.pages: set[int] = set()
        """The pages of the file in which they belong."""
        self._by_entry: dict[int, int] = {}
        self._page_size = page_size
        self._slots_in_page = page_size // _SLOT.size

    def set(self, entry_ids: Sequence[int], locations: Sequence[int]) -> None:
        """Remember where these entries lie."""
        self._by_entry.update(zip(entry_ids, locations, strict=True))
        first, last, per_page = min(entry_ids), max(entry_ids), self._slots_in_page
        if last - first < len(entry_ids):
            # Neighbours, as usual: no page between the first and the last is left out.
            self.pages.update(range(first // per_page, last // per_page + 1))
        else:
            self.pages.update([entry_id // per_page for entry_id in entry_ids])

    def get(self, entry_id: int) -> int | None:
        """Where the entry lies; None if that was not set."""
        return self._by_entry.get(entry_id)

    def put_into(self, page_id: int, page: bytes) -> bytes:
        """The page as it will be."""
        changed, by_entry = bytearray(page), self._by_entry
        first = page_id * self._slots_in_page
        here = range(first, first + self._slots_in_page)
        # A copy of the few: another thread may set more.
        for entry_id in here if len(by_entry) > len(here) else [*by_entry]:
            location = by_entry.get(entry_id)
            if location is not None and entry_id in here:
                _SLOT.pack_into(changed, (entry_id - first) * _SLOT.size, location)
        return bytes(changed)

    def pieces(
        self, page_count: int, stored_page: Callable[[int], bytes]
    ) -> Iterator[tuple[int, bytes]]:
        """What must be written, and where behind the header.

        Of one of the file's first `page_count` pages that is the changed slots, if they are
        neighbours; else the whole page, since a file ends with a page, or BookKeeper could not read
        it.  `stored_page` gives it as it is in the file.
        """
        entry_ids, done, per_page = sorted(self._by_entry), 0, self._slots_in_page
        while done < len(entry_ids):
            page_id, slot = divmod(entry_ids[done], per_page)
            end = bisect_left(entry_ids, (page_id + 1) * per_page, done)
            some, done = entry_ids[done:end], end
            page_at, at = page_id * self._page_size, slot * _SLOT.size
            if some[-1] - some[0] >= len(some):
                yield page_at, self.put_into(page_id, stored_page(page_id))
                continue
            slots = struct.pack(f">{len(some)}q", *map(self._by_entry.__getitem__, some))
            if page_id < page_count:
                yield page_at + at, slots
            else:
                page = stored_page(page_id)
                yield page_at, page[:at] + slots + page[at + len(slots) :]
