"""Decides when the metadata store's list of bookies can be trusted again after a silence.

If the metadata store hangs for longer than the session timeout, sessions of running bookies expire
in arbitrary order, and the bookies eventually re-register. So each silence is followed by a grace
period in which bookies can re-register.

    store hangs        resumes                    settled
    |------------------|==========================|
    no responses       sessions expire, bookies   a bookie that is not registered now
                       re-register                is really missing

BookKeeper trusts every list. After a hang, it may therefore mark ledgers of running bookies,
although no copies are missing (`replication/Auditor.java`).
"""

import asyncio

from labkit.system.metadata.registered_bookies import RegisteredBookies, registered_bookies
from labkit.system.metadata.store import MetadataStore
from labkit.system.metadata.watched_nodes import WatchedNodes

_GRACE_S = 10.0
"""The minimum length of the grace period. A bookie that lost its session may need several attempts
to re-register.
"""
_GRACE_SESSIONS = 2
"""The length of the grace period in session timeouts. A bookie needs up to one timeout to notice
that it lost its session, and up to another one to re-register.
"""


class MetadataSilence:
    """Tracks the silences of the metadata store, as seen by one session, in event loop time."""

    def __init__(self, store: MetadataStore) -> None:
        self.grace_s = max(_GRACE_S, _GRACE_SESSIONS * store.session_timeout_s)
        self.session_began_at = _now()
        """When the metadata session began."""
        self.responding_since = self.session_began_at
        """The end of the last silence."""
        self.settled_at = self.session_began_at
        """The time from which the list of bookies can be trusted."""
        self.count = 0
        """The number of silences that have ended."""
        store.on_silence(self.silence_ended)

    @property
    def is_settled(self) -> bool:
        return _now() >= self.settled_at

    def begin_grace_period(self) -> None:
        self.settled_at = _now() + self.grace_s

    async def wait_until_settled(self) -> None:
        """Wait until the grace period has ended, even if it starts again in the meantime."""
        while True:
            left_s = self.settled_at - _now()
            if left_s <= 0:
                return
            await asyncio.sleep(left_s)

    def silence_ended(self) -> None:
        self.count += 1
        self.responding_since = _now()
        self.begin_grace_period()


class SettledBookies:
    """Returns the list of registered bookies only while it can be trusted.

    Use this class wherever a missing bookie has consequences.
    """

    def __init__(self, nodes: WatchedNodes, silence: MetadataSilence) -> None:
        self._nodes = nodes
        self._silence = silence

    @property
    def silence_count(self) -> int:
        """The number of silences so far. Do not combine results from before and after a silence."""
        return self._silence.count

    async def now(self) -> RegisteredBookies:
        """Wait until the list can be trusted, and return it. Raises `MetadataUnavailableError`."""
        while True:
            await self._silence.wait_until_settled()
            bookies = await registered_bookies(self._nodes)
            if self._silence.is_settled:
                return bookies


def _now() -> float:
    return asyncio.get_running_loop().time()
