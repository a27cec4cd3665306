"""How long to wait after failures: longer with each one in a row.

In Pulsar: `common/util/Backoff.java`, which also varies each pause by chance.
"""

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0
"""The longest pause between ledgers of one owner that take no entry.  A ledger is made in the
metadata store alone, so there would be one after the other as long as bookies are registered that
do not answer.  (Pulsar makes them without a pause; the longest is what it waited, in earlier
versions, after a ledger that could not be made.)
"""


class Backoff:
    """Pauses that double from the first to the longest."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def failed(self) -> float:
        """Note a failure; returns how many seconds to wait before the next attempt."""
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._longest_s)
        return pause_s

    def succeeded(self) -> None:
        """Start over: the next failure counts as the first."""
        self._next_s = self._first_s
