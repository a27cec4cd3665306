"""The bookies to choose from: those that take writes, and of these not those that failed lately.

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

_EXPECTED = (BKBookieHandleNotAvailableException, BKWriteOnReadOnlyBookieException)
"""Not counted: the registration shows that a bookie is gone or read-only, not a candidate."""


class Quarantine:
    """Bookies that failed `threshold` times within `interval_s` are put aside for `time_s`."""

    def __init__(self, threshold: int, interval_s: float, time_s: float) -> None:
        self._threshold = threshold
        self._interval_s = interval_s
        self._time_s = time_s
        self._errors: dict[str, deque[float]] = {}
        self._until: dict[str, float] = {}

    def count(self, bookie: str, error: BKException, now: float) -> None:
        """Count a failure of the bookie, unless the registration shows it anyway."""
        if isinstance(error, _EXPECTED):
            return
        times = self._errors.setdefault(bookie, deque(maxlen=self._threshold))
        times.append(now)
        if len(times) == self._threshold and now - times[0] <= self._interval_s:
            self._until[bookie] = now + self._time_s

    def quarantined(self, now: float) -> list[str]:
        """The bookies in quarantine at this moment."""
        return [bookie for bookie, until in self._until.items() if now < until]


class BookieWatcher:
    """Chooses bookies for new ledgers and for ensembles that lost a member.

    Without `min_num_racks` it does not read the racks.
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
        """Bookies for a new ledger.  Raises `BKNotEnoughBookiesException`, and as `policy` does."""
        unnamed: list[str | None] = [None] * ensemble_size
        placement = await self._placement_at(unnamed, range(ensemble_size), write_quorum)
        writable = await self.writable()
        return choose_ensemble(placement, writable, ensemble_size, self._quarantined())

    async def writable(self) -> list[str]:
        """The bookies that take writes, sorted."""
        return await writable_bookies(self._store)

    async def replacements(
        self,
        ensemble: Sequence[str],
        failed: Mapping[int, str],
        write_quorum: int,
        given_up: Sequence[str] = (),
    ) -> dict[int, str]:
        """For each failed place a bookie from outside the ensemble; fewer, or none, when there are
        no more.  Those `given_up` before are taken only when there are not enough others.
        """
        # Read each time: bookies come and go, and racks may be changed at any moment.
        placement = await self._placement_at(ensemble, sorted(failed), write_quorum)
        writable = await self.writable()
        doubtful = [*self._quarantined(), *given_up]
        return choose_replacements(placement, writable, ensemble, failed, doubtful)

    async def policy(self) -> RackawareEnsemblePlacementPolicy:
        """The rule about racks, over the racks as they are now.

        Where their description is damaged none is known; if the rule is enforced this raises
        `BKMetadataSerializationException`.
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
        self, ensemble: Sequence[str | None], places: Sequence[int], write_quorum: int
    ) -> Placement:
        if not self._min_num_racks:
            return self._placement
        policy = await self.policy()
        return RackawarePlacement(policy, self._placement, ensemble, places, write_quorum)

    def failed(self, bookie: str, error: BKException) -> None:
        """An add failed there: too many in a short time, and the bookie is quarantined."""
        self._quarantine.count(bookie, error, asyncio.get_running_loop().time())

    def _quarantined(self) -> list[str]:
        return self._quarantine.quarantined(asyncio.get_running_loop().time())
