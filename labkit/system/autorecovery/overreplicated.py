"""Finds over-replicated ledgers, which were copied elsewhere while a bookie was away.

    b0 leaves     its ledgers are copied to b3, and their metadata lists b3 instead of b0
    b0 returns    its copies are garbage, because no reader uses them

A bookie periodically reads the metadata of its ledgers. It deletes its copies of a closed ledger if
no ensemble contains the bookie, unless a worker may be copying the ledger to that bookie again.
That is possible if the ledger is locked or marked, or if the bookie has recently received entries
of the ledger. (The bookie itself checks whether it has received entries.) BookKeeper checks only
the lock, so it may delete copies that its `recover` command has just made without a lock (#4668).

In BookKeeper: `bookie/ScanAndCompareGarbageCollector.java` (removeOverReplicatedledgers).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from labkit.system.autorecovery.random_source import Draw
from labkit.system.autorecovery.underreplication import (
    CompatibilityException,
    LedgerUnderreplicationManager,
)
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.store import MetadataError, MetadataSession, MetadataStore
from labkit.system.model.errors import BKException, BKMetadataSerializationException
from labkit.system.model.ledger import LedgerMetadata, LedgerState


def is_overreplicated(metadata: LedgerMetadata, bookie: str) -> bool:
    """Return whether the ledger is closed and no ensemble contains the bookie.

    An open ledger may get a new ensemble with this bookie at any time.
    """
    is_closed = metadata.state is LedgerState.CLOSED
    return is_closed and not any(bookie in segment.ensemble for segment in metadata.segments)


class OverreplicatedLedgers:
    """Invariant: a ledger's copies are deleted only under the ledger's lock, based on metadata that
    was read under the lock. So no worker can add the bookie to the metadata in the meantime.
    """

    def __init__(
        self,
        bookie: str,
        store: MetadataStore,
        begin_session: Callable[[], Awaitable[MetadataSession]],
        draw: Draw,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self._bookie = bookie
        self._ledgers = LedgerManager(store)
        self._begin_session = begin_session
        self._draw = draw
        self._wall_clock_ms = wall_clock_ms

    async def drop(self, ledger_ids: Sequence[int], delete: Callable[[int], None]) -> None:
        """Call `delete` for each of these ledgers that is over-replicated.

        Raises `MetadataError`, and deletes nothing more, if the metadata store does not respond.
        """
        # Lock only the ledgers that look over-replicated; there are usually few of them.
        found = [each for each in ledger_ids if await self._is_overreplicated(self._ledgers, each)]
        if found:
            session = await self._begin_session()
            try:
                await self._drop_locked(session, found, delete)
            except (CompatibilityException, BKMetadataSerializationException) as error:
                raise MetadataError(str(error)) from error
            finally:
                # This also releases the lock if the response to its creation was lost.
                await session.stop()

    async def _drop_locked(
        self, session: MetadataSession, ledger_ids: Sequence[int], delete: Callable[[int], None]
    ) -> None:
        manager = LedgerUnderreplicationManager(
            session, self._bookie, self._draw, self._wall_clock_ms
        )
        ledgers = LedgerManager(session)
        # If the session is lost, its locks are deleted, and workers can acquire them.
        is_lost = asyncio.Event()
        session.on_new_session(is_lost.set)
        await manager.prepare()
        for ledger_id in ledger_ids:
            if await manager.lock(ledger_id):
                is_marked = await session.exists(manager.paths.mark(ledger_id))
                is_unneeded = await self._is_overreplicated(ledgers, ledger_id) and not is_marked
                if is_lost.is_set():
                    return
                if is_unneeded:
                    delete(ledger_id)
                await manager.release(ledger_id)

    async def _is_overreplicated(self, ledgers: LedgerManager, ledger_id: int) -> bool:
        try:
            metadata, _ = await ledgers.read(ledger_id)
        except BKException:
            # The metadata is malformed, the layout has no path for such a large id, or the ledger
            # was deleted, and garbage collection handles it.
            return False
        return is_overreplicated(metadata, self._bookie)
