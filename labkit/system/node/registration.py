"""A bookie's registration: made at its start, and again whenever it may be gone or is wrong.

In BookKeeper: `bookie/BookieStateManager.java` (registerBookie, transitionToReadOnlyMode).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NoReturn

from labkit.system.metadata.cluster import NoClusterError, check_instance_id
from labkit.system.metadata.registration import Endpoint, register_bookie
from labkit.system.metadata.store import MetadataError, MetadataStore
from labkit.system.trace.recorder import Recorder

_RETRY_S = 0.5


class Registration:
    """The ephemeral node that announces a bookie, in the session of `store`.

    Invariants: from its creation on, a lost session makes it register again; and it never does so
    with a cluster other than that of `instance_id`.  A metadata store without its data gives out
    ledger ids again that this bookie has entries of.  `warn` takes a line for the operator.
    """

    def __init__(
        self,
        store: MetadataStore,
        bookie_id: str,
        instance_id: str,
        is_read_only: Callable[[], bool],
        recorder: Recorder,
        warn: Callable[[str], None],
    ) -> None:
        self._store = store
        self._bookie_id = bookie_id
        self._instance_id = instance_id
        self._is_read_only = is_read_only
        self._recorder = recorder
        self._warn = warn
        self._has_warned = False
        self._endpoints: list[Endpoint] = []
        self._is_due = asyncio.Event()
        self.listen()

    def listen(self) -> None:
        """Learn of lost sessions.

        The rule: before the first registration, as a session may be lost while that is made.
        """
        self._store.on_new_session(self.renew)

    async def register(self, endpoints: Sequence[Endpoint]) -> None:
        """Announce the bookie for the first time.  Raises `MetadataError`.

        The caller has just compared the bookie's cookie with the cluster's.
        """
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

        The bookie meanwhile serves the clients that know it.
        """
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                await check_instance_id(self._store, self._instance_id)
                await self._register()
                self._has_warned = False
            except MetadataError as error:
                # Also "the node exists": a request of the lost session may be carried out late.
                self._is_due.set()
                self._warn_of(error)
                await asyncio.sleep(_RETRY_S)

    def _warn_of(self, error: MetadataError) -> None:
        """Once: the tries go on, in case that the data come back."""
        if isinstance(error, NoClusterError) and not self._has_warned:
            self._has_warned = True
            self._warn(
                f"{self._bookie_id} is not registered, and takes no new ledgers: {error}; bring the"
                " metadata store's data back, or stop this bookie"
            )

    async def _register(self) -> None:
        await register_bookie(
            self._store, self._bookie_id, self._endpoints, read_only=self._is_read_only()
        )
        self._recorder.record("bookie.registered")
