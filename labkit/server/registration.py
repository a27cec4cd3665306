"""A bookie's registration: made at its start, and again whenever it may be gone or is wrong.

In BookKeeper: `bookie/BookieStateManager.java` (registerBookie, transitionToReadOnlyMode).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NoReturn

from labkit.metadata.registration import Endpoint, register_bookie
from labkit.metadata.store import MetadataError, MetadataStore
from labkit.trace.recorder import Recorder

_RETRY_S = 0.5


class Registration:
    """The ephemeral node that announces a bookie, in the session of `store`.

    Invariant: from its creation on, a lost session makes it register again.
    """

    def __init__(
        self,
        store: MetadataStore,
        bookie_id: str,
        is_read_only: Callable[[], bool],
        recorder: Recorder,
    ) -> None:
        self._store = store
        self._bookie_id = bookie_id
        self._is_read_only = is_read_only
        self._recorder = recorder
        self._endpoints: list[Endpoint] = []
        self._is_due = asyncio.Event()
        self.listen()

    def listen(self) -> None:
        """Learn of lost sessions.

        The rule: before the first registration, as a session may be lost while that is made.
        """
        self._store.on_new_session(self.renew)

    async def register(self, endpoints: Sequence[Endpoint]) -> None:
        """Announce the bookie for the first time.  Raises `MetadataError`."""
        self._endpoints = list(endpoints)
        self._is_due.clear()
        await self._register()

    def renew(self) -> None:
        """Let `run` register again: the session was lost, or the bookie is read-only or no longer
        so.
        """
        self._is_due.set()

    async def run(self) -> NoReturn:
        """Register again whenever that is due, until it succeeds.

        The bookie serves all the while those that know it.
        """
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                await self._register()
            except MetadataError:
                # Also "the node exists": a request of the lost session may be carried out late.
                self._is_due.set()
                await asyncio.sleep(_RETRY_S)

    async def _register(self) -> None:
        await register_bookie(
            self._store, self._bookie_id, self._endpoints, read_only=self._is_read_only()
        )
        self._recorder.record("bookie.registered")
