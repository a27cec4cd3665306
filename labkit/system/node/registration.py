"""A bookie's registration, which is renewed whenever it may be lost or out of date.

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
    """The ephemeral node that announces a bookie. It belongs to the session of `store`.

    Invariants: Whenever the session is lost after this object has been created, the bookie
    registers again. It registers only with the cluster whose id is `instance_id`. Otherwise, a
    metadata store that has lost its data would assign ledger ids for which this bookie already has
    entries.

    `warn` logs a message for the operator.
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
        """Listen for lost sessions. Call this before the first registration, whose session may also
        be lost.
        """
        self._store.on_new_session(self.renew)

    async def register(self, endpoints: Sequence[Endpoint]) -> None:
        """Register the bookie for the first time. Call this right after checking the bookie's
        cookie, which proves that this is the bookie's cluster. Raises `MetadataError`.
        """
        self._endpoints = list(endpoints)
        self._is_due.clear()
        await self._register()

    def renew(self) -> None:
        """Make `run` register the bookie again, because its session or its mode has changed."""
        self._is_due.set()

    async def run(self) -> NoReturn:
        """Register the bookie again after each call of `renew`, and retry until this succeeds.
        Meanwhile, the bookie serves the clients that already have its address.
        """
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                await check_instance_id(self._store, self._instance_id)
                await self._register()
                self._has_warned = False
            except MetadataError as error:
                # For example, `NodeExistsError` if the store is still executing an earlier request.
                self._is_due.set()
                if isinstance(error, NoClusterError) and not self._has_warned:
                    self._has_warned = True
                    self._warn(
                        f"{self._bookie_id} is not registered, so it gets no new ledgers: {error};"
                        " restore the metadata store's data, or stop this bookie"
                    )
                await asyncio.sleep(_RETRY_S)

    async def _register(self) -> None:
        await register_bookie(
            self._store, self._bookie_id, self._endpoints, read_only=self._is_read_only()
        )
        self._recorder.record("bookie.registered")
