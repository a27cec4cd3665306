"""Chooses writable bookies for an ensemble, and avoids those that failed recently.

`BookieWatcher` has the same name as in BookKeeper, but it sets no watch. Instead, it reads the list
of writable bookies whenever it needs the list.

In BookKeeper: `client/BookieWatcherImpl.java`; `BookKeeper.checkForFaultyBookies` counts errors.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence

from labkit.system.client.placement.placement import Placement, choose_ensemble, choose_replacements
from labkit.system.client.placement.rackaware import (
    RackawareEnsemblePlacementPolicy,
    RackawarePlacement,
)
from labkit.system.metadata.racks import read_racks
from labkit.system.metadata.registration import writable_bookies
from labkit.system.metadata.store import MetadataStore
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKException,
    BKMetadataSerializationException,
    BKWriteOnReadOnlyBookieException,
)

_NOT_COUNTED = (BKBookieHandleNotAvailableException, BKWriteOnReadOnlyBookieException)
"""Errors of bookies that are down or read-only. Such bookies are not registered as writable, so
they need no quarantine.
"""


class Quarantine:
    """Quarantines a bookie for `time_s` after `threshold` failures within `interval_s`."""

    def __init__(self, threshold: int, interval_s: float, time_s: float) -> None:
        self._threshold = threshold
        self._interval_s = interval_s
        self._time_s = time_s
        self._errors: dict[str, deque[float]] = {}
        self._until: dict[str, float] = {}

    def count(self, bookie: str, error: BKException, now: float) -> None:
        """Count a failure, unless the error means that the bookie is down or read-only."""
        if isinstance(error, _NOT_COUNTED):
            return
        times = self._errors.setdefault(bookie, deque(maxlen=self._threshold))
        times.append(now)
        if len(times) == self._threshold and now - times[0] <= self._interval_s:
            self._until[bookie] = now + self._time_s

    def quarantined(self, now: float) -> list[str]:
        return [bookie for bookie, until in self._until.items() if now < until]


class BookieWatcher:
    """Chooses ensembles and replacements among the bookies that are currently writable.

    Rack assignments are read only if `min_num_racks` is greater than 0.
    """

    def __init__(
        self,
        store: MetadataStore,
        placement: Placement,
        quarantine: Quarantine,
        min_num_racks: int = 0,
        enforced: bool = False,
    ) -> None:
        self._store = store
        self._placement = placement
        self._quarantine = quarantine
        self._min_num_racks = min_num_racks
        self._enforced = enforced

    async def new_ensemble(self, ensemble_size: int, write_quorum: int) -> tuple[str, ...]:
        """Raise `BKNotEnoughBookiesException` if too few bookies are writable, and the errors of
        `policy`.
        """
        unassigned: list[str | None] = [None] * ensemble_size
        placement = await self._placement_at(unassigned, range(ensemble_size), write_quorum)
        writable = await self.writable()
        return choose_ensemble(placement, writable, ensemble_size, self._quarantined())

    async def writable(self) -> list[str]:
        return await writable_bookies(self._store)

    async def replacements(
        self,
        ensemble: Sequence[str],
        failed: Mapping[int, str],
        write_quorum: int,
        given_up: Sequence[str] = (),
    ) -> dict[int, str]:
        """Choose new bookies for the failed ensemble indices, or for as many of them as possible.

        Bookies that are in `given_up` or in quarantine are used only as a last resort.
        """
        placement = await self._placement_at(ensemble, sorted(failed), write_quorum)
        writable = await self.writable()
        doubtful = [*self._quarantined(), *given_up]
        return choose_replacements(placement, writable, ensemble, failed, doubtful)

    async def policy(self) -> RackawareEnsemblePlacementPolicy:
        """Read the rack assignments and return the policy.

        If the rack assignments are corrupt, raise `BKMetadataSerializationException` if the policy
        is enforced; otherwise, treat the rack of every bookie as unknown.
        """
        racks: dict[str, str] = {}
        if self._min_num_racks:
            try:
                racks = await read_racks(self._store)
            except BKMetadataSerializationException:
                if self._enforced:
                    raise
        return RackawareEnsemblePlacementPolicy(racks, self._min_num_racks, self._enforced)

    async def _placement_at(
        self, ensemble: Sequence[str | None], indices: Sequence[int], write_quorum: int
    ) -> Placement:
        if not self._min_num_racks:
            return self._placement
        policy = await self.policy()
        return RackawarePlacement(policy, self._placement, ensemble, indices, write_quorum)

    def count_failure(self, bookie: str, error: BKException) -> None:
        self._quarantine.count(bookie, error, asyncio.get_running_loop().time())

    def _quarantined(self) -> list[str]:
        return self._quarantine.quarantined(asyncio.get_running_loop().time())
