"""Changes to an index that have not been written to its file yet.

Changes are stored entry by entry. Storing whole pages of 8 KiB would take too much memory if many
ledgers receive only a few entries each.

In BookKeeper: the dirty pages of `bookie/IndexInMemPageMgr.java`.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

_SLOT = struct.Struct(">q")


class ChangedLocations:
    """The new locations of entries, keyed by entry id. Only one thread may set locations."""

    __slots__ = ("_by_entry", "_page_size", "_slots_in_page", "pages")

    def __init__(self, page_size: int) -> None:
        self.pages: set[int] = set()
        """The numbers of the changed pages."""
        self._by_entry: dict[int, int] = {}
        self._page_size = page_size
        self._slots_in_page = page_size // _SLOT.size

    def set(self, entry_ids: Sequence[int], locations: Sequence[int]) -> None:
        self._by_entry.update(zip(entry_ids, locations, strict=True))
        first, last, per_page = min(entry_ids), max(entry_ids), self._slots_in_page
        if last - first < len(entry_ids):
            # The entries are consecutive, which is the usual case.
            self.pages.update(range(first // per_page, last // per_page + 1))
        else:
            self.pages.update([entry_id // per_page for entry_id in entry_ids])

    def get(self, entry_id: int) -> int | None:
        return self._by_entry.get(entry_id)

    def put_into(self, page_id: int, page: bytes) -> bytes:
        changed, by_entry = bytearray(page), self._by_entry
        first = page_id * self._slots_in_page
        page_entries = range(first, first + self._slots_in_page)
        # Iterate over a copy of the keys, because another thread may add keys.
        for entry_id in page_entries if len(by_entry) > len(page_entries) else [*by_entry]:
            location = by_entry.get(entry_id)
            if location is not None and entry_id in page_entries:
                _SLOT.pack_into(changed, (entry_id - first) * _SLOT.size, location)
        return bytes(changed)

    def writes(
        self, page_count: int, stored_page: Callable[[int], bytes]
    ) -> Iterator[tuple[int, bytes]]:
        """Yield (offset after the header, bytes) for each changed page.

        If the changed slots are consecutive and the page is already in the file (`page_id <
        page_count`), only these slots are written. Otherwise, the whole page is written, because
        BookKeeper cannot read a file that ends with an incomplete page. `stored_page` reads a page
        of the file.
        """
        entry_ids, done, per_page = sorted(self._by_entry), 0, self._slots_in_page
        while done < len(entry_ids):
            page_id, slot = divmod(entry_ids[done], per_page)
            end = bisect_left(entry_ids, (page_id + 1) * per_page, done)
            in_page, done = entry_ids[done:end], end
            page_offset, at = page_id * self._page_size, slot * _SLOT.size
            has_gaps = in_page[-1] - in_page[0] >= len(in_page)
            if has_gaps:
                yield page_offset, self.put_into(page_id, stored_page(page_id))
                continue
            slots = struct.pack(f">{len(in_page)}q", *map(self._by_entry.__getitem__, in_page))
            if page_id < page_count:
                yield page_offset + at, slots
            else:
                page = stored_page(page_id)
                yield page_offset, page[:at] + slots + page[at + len(slots) :]
