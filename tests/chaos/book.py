"""What the clients were promised and what they saw, written down as it happens."""

from dataclasses import dataclass, field

from labkit.system.model.entry import Entry


def payload(ledger_id: int, entry_id: int) -> bytes:
    """Up to 2000 bytes that no other entry has."""
    size = (7919 * ledger_id + 104_729 * entry_id) % 2000
    return (f"{ledger_id}/{entry_id} ".encode() * 400)[:size]


@dataclass(slots=True)
class Page:
    """One ledger: the last entry that was confirmed to its writer, the last that a reader got, and
    where somebody found its end.
    """

    confirmed: int = -1
    read: int = -1
    end: int | None = None
    is_left: bool = False
    """Its writer is gone and did not close it."""
    is_deleted: bool = False


@dataclass(slots=True)
class Book:
    """All ledgers by id, counts of what was done, and every broken promise in words."""

    pages: dict[int, Page] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    @property
    def kept(self) -> list[int]:
        """The ledgers that were not deleted, oldest first."""
        return [ledger_id for ledger_id, page in self.pages.items() if not page.is_deleted]

    def wrong(self, what: str) -> None:
        """A promise was broken; the same words count once."""
        if what not in self.broken:
            self.broken.append(what)

    def count(self, what: str, times: int = 1) -> None:
        """Something was done, or failed."""
        self.counts[what] = self.counts.get(what, 0) + times

    def confirmed(self, ledger_id: int, entry_id: int) -> None:
        """The writer got the confirmation of the entry."""
        self.count("entries confirmed")
        page = self.pages[ledger_id]
        page.confirmed = max(page.confirmed, entry_id)
        self._compare(ledger_id)

    def read(self, entry: Entry) -> None:
        """A reader got the entry."""
        self.count("entries read")
        ledger_id, entry_id = entry.ledger_id, entry.entry_id
        page = self.pages[ledger_id]
        page.read = max(page.read, entry_id)
        if entry.payload != payload(ledger_id, entry_id):
            self.wrong(f"wrong bytes in entry {entry_id} of ledger {ledger_id}")
        self._compare(ledger_id)

    def ends(self, ledger_id: int, last_entry_id: int) -> None:
        """Somebody found the ledger closed."""
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
