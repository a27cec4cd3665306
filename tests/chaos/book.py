"""A record of the promises made to the clients and of what the clients observed."""

from collections import Counter
from dataclasses import dataclass, field

from labkit.system.model.entry import Entry


def payload(ledger_id: int, entry_id: int) -> bytes:
    """Return a payload of up to 2000 bytes that is unique to this entry."""
    size = (7919 * ledger_id + 104_729 * entry_id) % 2000
    return (f"{ledger_id}/{entry_id} ".encode() * 400)[:size]


@dataclass(slots=True)
class Page:
    """The record of one ledger.

    confirmed: the last entry that was confirmed to the writer.
    read: the last entry that a reader received.
    end: the last entry id of the closed ledger, once a client has seen it closed.
    """

    confirmed: int = -1
    read: int = -1
    end: int | None = None
    is_left: bool = False
    """The writer is gone and did not close the ledger."""
    is_deleted: bool = False


@dataclass(slots=True)
class Book:
    """The records of all ledgers, operation counts, and descriptions of broken promises."""

    pages: dict[int, Page] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    @property
    def kept(self) -> list[int]:
        """Return the ids of the ledgers that have not been deleted, oldest first."""
        return [ledger_id for ledger_id, page in self.pages.items() if not page.is_deleted]

    def wrong(self, what: str) -> None:
        """Record a broken promise, unless the same text has already been recorded."""
        if what not in self.broken:
            self.broken.append(what)

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def confirmed(self, ledger_id: int, entry_id: int) -> None:
        """Record that the writer received a confirmation of the entry."""
        self.count("entries confirmed")
        page = self.pages[ledger_id]
        page.confirmed = max(page.confirmed, entry_id)
        self._compare(ledger_id)

    def read(self, entry: Entry) -> None:
        """Record that a reader received the entry, and check its payload."""
        self.count("entries read")
        ledger_id, entry_id = entry.ledger_id, entry.entry_id
        page = self.pages[ledger_id]
        page.read = max(page.read, entry_id)
        if entry.payload != payload(ledger_id, entry_id):
            self.wrong(f"wrong bytes in entry {entry_id} of ledger {ledger_id}")
        self._compare(ledger_id)

    def ends(self, ledger_id: int, last_entry_id: int) -> None:
        """Record that a client found the ledger closed at this entry."""
        page = self.pages[ledger_id]
        if page.end not in (None, last_entry_id):
            self.wrong(f"ledger {ledger_id} ended at {page.end}, then at {last_entry_id}")
        page.end = last_entry_id
        self._compare(ledger_id)

    def _compare(self, ledger_id: int) -> None:
        page = self.pages[ledger_id]
        if page.end is None:
            return
        if page.confirmed > page.end:
            self.wrong(f"ledger {ledger_id} ends at {page.end}, and {page.confirmed} was confirmed")
        if page.read > page.end:
            self.wrong(f"ledger {ledger_id} ends at {page.end}, and {page.read} was read")
