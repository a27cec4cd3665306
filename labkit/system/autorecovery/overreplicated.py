"""Ledgers that a bookie need not keep: they were copied to others while it was away.

    b0 goes    its ledgers are copied to b3, and their metadata name b3 in its place
    b0 is back with copies that no reader asks for: garbage

So a bookie looks now and then at the metadata of what it stores.  A ledger that is closed and names
it in no ensemble may go, unless a worker is about to copy it here again: that shows in a lock, in
entries that came lately (the bookie knows those), or in a mark, which also says that copies are
scarce.  BookKeeper looks at the lock alone, and so can delete what its admin's `recover`, which
takes no lock, has just copied (#4668).

In BookKeeper: `bookie/ScanAndCompareGarbageCollector.java` (removeOverReplicatedledgers).
"""

from collections.abc import Awaitable, Callable, Sequence

from labkit.system.autorecovery.random_port import Draw
from labkit.system.autorecovery.underreplication import (
    CompatibilityException,
    LedgerUnderreplicationManager,
)
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.store import MetadataError, MetadataSession, MetadataStore
from labkit.system.model.errors import (
    BKMetadataSerializationException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState


def is_overreplicated(metadata: LedgerMetadata, bookie: str) -> bool:
    """Whether the bookie need not have anything of the ledger, for good.

    A ledger that is not closed may get a new ensemble at any time, with this bookie in it.
    """
    is_closed = metadata.state is LedgerState.CLOSED
    return is_closed and not any(bookie in segment.ensemble for segment in metadata.segments)


class OverreplicatedLedgers:
    """Finds the closed ledgers of one bookie whose metadata no longer name it.

    Invariant: a ledger is dropped only while its lock is held, on metadata read after the lock was
    taken: a worker that put the bookie into the metadata held the lock before, and is done.
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

    async def drop(self, ledger_ids: Sequence[int], drop: Callable[[int], None]) -> None:
        """Call `drop` for those of the ledgers that the bookie need not keep, one by one.

        Raises `MetadataError` when the metadata store does not answer, and then stops calling it.
        """
        # Checked without locks first: there are many ledgers, and few of them go.
        found = [each for each in ledger_ids if await self._is_overreplicated(self._ledgers, each)]
        if found:
            session = await self._begin_session()
            try:
                await self._drop_locked(session, found, drop)
            except (CompatibilityException, BKMetadataSerializationException) as error:
                raise MetadataError(str(error)) from error
            finally:
                # Ends also a lock whose answer was lost, so that it may or may not have been taken.
                await session.stop()

    async def _drop_locked(
        self, session: MetadataSession, ledger_ids: Sequence[int], drop: Callable[[int], None]
    ) -> None:
        locks = LedgerUnderreplicationManager(
            session, self._bookie, self._draw, self._wall_clock_ms
        )
        ledgers = LedgerManager(session)
        is_lost = False

        def lose() -> None:
            nonlocal is_lost
            is_lost = True

        # The locks go with the session, and then a worker may take them.
        session.on_new_session(lose)
        await locks.prepare()
        for ledger_id in ledger_ids:
            if await locks.lock(ledger_id):
                is_marked = await locks.find(ledger_id) is not None
                may_go = await self._is_overreplicated(ledgers, ledger_id) and not is_marked
                if is_lost:
                    return
                if may_go:
                    drop(ledger_id)
                await locks.release(ledger_id)

    async def _is_overreplicated(self, ledgers: LedgerManager, ledger_id: int) -> bool:
        """False also if unknown; a deleted ledger is left to garbage collection."""
        try:
            metadata, _ = await ledgers.read(ledger_id)
        except (
            BKNoSuchLedgerExistsOnMetadataServerException,
            BKMetadataSerializationException,
        ):
            return False
        return is_overreplicated(metadata, self._bookie)
