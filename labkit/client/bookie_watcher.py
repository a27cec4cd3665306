"""The bookies to choose from: those that take writes, and of these not those that failed lately.

In BookKeeper: `client/BookieWatcherImpl.java`; `BookKeeper.checkForFaultyBookies` counts errors.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence

from labkit.client.placement import Placement, choose_ensemble, choose_replacements
from labkit.metadata.registration import writable_bookies
from labkit.metadata.store import MetadataStore
from labkit.model.errors import (
    BKBookieHandleNotAvailableException,
    BKException,
    BKWriteOnReadOnlyBookieException,
)

_EXPECTED = (BKBookieHandleNotAvailableException, BKWriteOnReadOnlyBookieException)
"""The registration tells of these: a bookie that is gone or read-only is no candidate."""


class Quarantine:
    """Bookies that failed `threshold` times within `interval_s` are put aside for `time_s`."""

    def __init__(self, threshold: int, interval_s: float, time_s: float) -> None:
        self._threshold = threshold
        self._interval_s = interval_s
        self._time_s = time_s
        self._errors: dict[str, deque[float]] = {}
        self._until: dict[str, float] = {}

    def count(self, bookie: str, error: BKException, now: float) -> None:
        """The bookie failed; what the registration tells anyway is not counted."""
        if isinstance(error, _EXPECTED):
            return
        times = self._errors.setdefault(bookie, deque(maxlen=self._threshold))
        times.append(now)
        if len(times) == self._threshold and now - times[0] <= self._interval_s:
            self._until[bookie] = now + self._time_s

    def inmates(self, now: float) -> list[str]:
        """Who is in quarantine at this moment."""
        return [bookie for bookie, until in self._until.items() if now < until]


class BookieWatcher:
    """Chooses bookies for new ledgers and for ensembles that lost a member."""

    def __init__(self, store: MetadataStore, placement: Placement, quarantine: Quarantine) -> None:
        self._store = store
        self._placement = placement
        self._quarantine = quarantine

    async def new_ensemble(self, ensemble_size: int) -> tuple[str, ...]:
        """Bookies for a new ledger.  Raises `BKNotEnoughBookiesException`."""
        writable = await self.writable()
        return choose_ensemble(self._placement, writable, ensemble_size, self._quarantined())

    async def writable(self) -> list[str]:
        """The bookies that take writes, sorted."""
        return await writable_bookies(self._store)

    async def replacements(
        self, ensemble: Sequence[str], failed: Mapping[int, str], given_up: Sequence[str] = ()
    ) -> dict[int, str]:
        """For each failed place a bookie from outside the ensemble; fewer, or none, when there are
        no more.  Those `given_up` before are taken only when there are not enough others.
        """
        writable = await self.writable()
        doubtful = [*self._quarantined(), *given_up]
        return choose_replacements(self._placement, writable, ensemble, failed, doubtful)

    def failed(self, bookie: str, error: BKException) -> None:
        """An add failed there: too many in a short time, and the bookie is quarantined."""
        self._quarantine.count(bookie, error, asyncio.get_running_loop().time())

    def _quarantined(self) -> list[str]:
        return self._quarantine.inmates(asyncio.get_running_loop().time())
