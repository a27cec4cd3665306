"""Remembers the ledgers that garbage collection has dropped, so that adds to them are rejected.

Dropping a ledger deletes its index, and the fence along with it. If the bookie then forgot the
ledger, its old writer could recreate it here and get acknowledgements for entries that the next
collection would drop.

So the bookie remembers a dropped ledger until there has been no add, fence or explicit LAC for it
for seven days, or until the process exits. Each remembered ledger uses about a hundred bytes.

In BookKeeper: `bookie/HandleFactoryImpl.java` (recentlyFencedAndDeletedLedgers, from pull request
4462), which remembers only ledgers that its process has written, fenced or replayed.
"""

from collections.abc import Iterable

KEPT_S = 7 * 86_400


class CollectedLedgers:
    """The dropped ledgers, each with the time of the last request to add to it, to fence it or to
    set its explicit LAC.

    The time advances only when `advance_to` is called, so a ledger may be forgotten too early by up
    to the interval between two calls.
    """

    def __init__(self) -> None:
        self._requested_at_s: dict[int, float] = {}
        self._now_s = 0.0

    def advance_to(self, now_s: float) -> None:
        """Set the current time, read from a monotonic clock, and forget ledgers that have not been
        used for seven days.
        """
        self._now_s = now_s
        for ledger_id in [i for i, at_s in self._requested_at_s.items() if now_s - at_s >= KEPT_S]:
            del self._requested_at_s[ledger_id]

    def add(self, ledger_ids: Iterable[int]) -> None:
        self._requested_at_s.update(dict.fromkeys(ledger_ids, self._now_s))

    def must_reject(self, ledger_id: int) -> bool:
        """Return whether to reject an add, fence or explicit LAC for this ledger. If so, remember
        the ledger for another seven days.
        """
        if ledger_id not in self._requested_at_s:
            return False
        self._requested_at_s[ledger_id] = self._now_s
        return True
