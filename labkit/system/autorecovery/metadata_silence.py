"""When the metadata store's list of bookies can be believed: not in the first seconds after it fell
silent.

A store that hangs for longer than sessions last ends sessions of bookies that run, in any order,
and these bookies register again sooner or later.  So an absence counts only in an unbroken time of
answers, and after each silence all bookies have a grace period to register again.

    store hangs        goes on                    settled
    |------------------|==========================|
    no answers         sessions end, bookies      a bookie missing now is missing
                       register again

BookKeeper believes every list: a hang may make it mark the ledgers of bookies that run
(`replication/Auditor.java`).  Their repair finds nothing missing then.
"""

import asyncio

from labkit.system.metadata.bookie_watch import BookieWatch, RegisteredBookies
from labkit.system.metadata.store import MetadataStore

_GRACE_S = 10.0
"""At least: a bookie that lost its session registers again after some attempts."""
_GRACE_SESSIONS = 2
"""Session time-outs: one until the bookie learns of the loss, one to register again."""


class MetadataSilence:
    """Watches for silences of one session's store."""

    def __init__(self, store: MetadataStore) -> None:
        self.grace_s = max(_GRACE_S, _GRACE_SESSIONS * store.session_timeout_s)
        """How long bookies have to register again after a silence, in seconds."""
        self.began_at = self.answers_since = _now()
        """When the metadata session began, and since when the store has been responding."""
        self.settled_at = self.began_at
        """When the list can be believed again, on the event loop's clock."""
        self.count = 0
        """How often the store has fallen silent."""
        store.on_silence(self.fell_silent)

    @property
    def is_settled(self) -> bool:
        """Whether the last silence is long enough ago."""
        return _now() >= self.settled_at

    def begin_grace_period(self) -> None:
        """Let the grace period begin now."""
        self.settled_at = _now() + self.grace_s

    async def until_settled(self) -> None:
        """Return when the grace period is over, however often it begins again."""
        while True:
            left_s = self.settled_at - _now()
            if left_s <= 0:
                return
            await asyncio.sleep(left_s)

    def fell_silent(self) -> None:
        """Note a silence that has ended: the store may have ended any session meanwhile."""
        self.count += 1
        self.answers_since = _now()
        self.begin_grace_period()


class SettledBookies:
    """The registered bookies, for code that acts on a bookie's absence."""

    def __init__(self, bookies: BookieWatch, silence: MetadataSilence) -> None:
        self._bookies = bookies
        self._silence = silence

    @property
    def silence_count(self) -> int:
        """How often the store has fallen silent: results of before and after do not go together."""
        return self._silence.count

    async def now(self) -> RegisteredBookies:
        """The bookies, as soon as the list can be believed.  Raises `MetadataUnavailableError`."""
        while True:
            await self._silence.until_settled()
            bookies = await self._bookies.now()
            if self._silence.is_settled:
                return bookies


def _now() -> float:
    return asyncio.get_running_loop().time()
