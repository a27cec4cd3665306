"""Exponential backoff: the pause doubles with each consecutive failure.

In Pulsar: `common/util/Backoff.java`, which also adds random jitter to each pause.
"""

FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 10.0
"""The maximum pause after a ledger that did not accept any entries.

Creating a ledger requires only the metadata store, so if the registered bookies do not respond, an
owner that did not pause would create one ledger after another. (Pulsar does not pause here. Its
earlier versions waited 10 s after failing to create a ledger.)
"""


class Backoff:
    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._next_s = first_s

    def next_pause_s(self) -> float:
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._max_s)
        return pause_s

    def reset(self) -> None:
        self._next_s = self._first_s
