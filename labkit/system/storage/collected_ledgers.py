"""Ledgers that garbage collection has dropped: this bookie takes no more adds to them.

A deleted ledger's fence goes with its index.  If nothing else remembered the ledger, its old writer
could create it here again, and get acknowledgements of entries that the next collection drops.

The rule: a dropped ledger is remembered for seven days after the last request for it, and as long
as the process lives.  Neither the time nor the number of ledgers can be configured; one costs about
a hundred bytes.

In BookKeeper: `bookie/HandleFactoryImpl.java` (recentlyFencedAndDeletedLedgers, from pull request
4462), which remembers only ledgers that its process has written, fenced or replayed.
"""

from collections.abc import Iterable

KEPT_S = 7 * 86_400
"""How long a ledger is remembered after the last request for it."""


class CollectedLedgers:
    """The ids of dropped ledgers, each with the time at which it was asked for last.

    Time comes from `now`, so a ledger may be forgotten early by as much as lies between two calls.
    """

    def __init__(self) -> None:
        self._asked_at_s: dict[int, float] = {}
        self._now_s = 0.0

    def now(self, now_s: float) -> None:
        """Set the time, in seconds of a clock that never goes back; forget what is old enough."""
        self._now_s = now_s
        for ledger_id in [i for i, at_s in self._asked_at_s.items() if now_s - at_s >= KEPT_S]:
            del self._asked_at_s[ledger_id]

    def add(self, ledger_ids: Iterable[int]) -> None:
        """Remember ledgers that are dropped from now on."""
        self._asked_at_s.update(dict.fromkeys(ledger_ids, self._now_s))

    def __contains__(self, ledger_id: int) -> bool:
        """Whether the ledger is remembered; the question counts as a request."""
        if ledger_id not in self._asked_at_s:
            return False
        self._asked_at_s[ledger_id] = self._now_s
        return True
