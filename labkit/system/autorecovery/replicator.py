"""Repairs a fragment: first copies its entries (`fragment_copy`), then updates the metadata.

In BookKeeper: `client/LedgerFragmentReplicator.java`, `BookKeeperAdmin.replicateLedgerFragment`.
"""

from collections.abc import Mapping

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.fragment_copy import RateLimit, copy_fragment
from labkit.system.autorecovery.fragments import Fragment, UnderreplicatedFragment, replace_bookies
from labkit.system.autorecovery.ledger_view import LedgerView, missing_copies
from labkit.system.client.context import ClientContext
from labkit.system.client.ensemble import with_replacements
from labkit.system.client.reads import BookieReads
from labkit.system.model.errors import BKMetadataVersionException, BKNotEnoughBookiesException


class LedgerFragmentReplicator:
    """Replaces the missing copies of a fragment with copies on other bookies.

    If there are too few bookies, it repairs as many copies as possible, and restores copies on
    writable bookies that lost them. BookKeeper repairs nothing in that case.

    Invariants: The metadata lists a bookie only after the bookie has durably stored all its copies.
    When copies are restored on a bookie that lost them, those that every check reads are stored
    last, after all others.
    """

    def __init__(self, context: ClientContext, config: AutoRecoveryConfig) -> None:
        self._context = context
        self._window_size = config.rereplication_entry_batch_size
        self._rate = RateLimit(config.replication_rate_by_bytes)

    async def replicate(self, ledger: LedgerView, underreplicated: UnderreplicatedFragment) -> None:
        """Repair a closed fragment.

        Raises `EntryUnreadableException`, the first error reported by a target, or
        `BKNotEnoughBookiesException` if there were not enough bookies for all missing copies.
        """
        assert underreplicated.fragment.closed, "its writer may still add to it"
        targets = await self.choose_targets(underreplicated)
        returning = {
            index: name for index, name in targets.items() if name in underreplicated.bookies
        }
        new = {index: name for index, name in targets.items() if index not in returning}
        # Try new bookies first: a bookie that gets copies back may fail again and end the repair.
        for some in filter(None, (new, returning)):
            await self.copy(ledger, underreplicated, some)
            await self.publish(ledger.ledger_id, underreplicated, some)
        left = [
            bookie for index, bookie in underreplicated.bookie_at.items() if index not in targets
        ]
        if left:
            raise BKNotEnoughBookiesException(
                f"not enough writable bookies to replace the copies of {', '.join(left)}"
            )

    async def move(
        self, ledger: LedgerView, fragment: Fragment, targets: Mapping[int, str]
    ) -> None:
        """Move the copies at the ensemble indexes of `targets`. Raises errors like `replicate`."""
        leaving = UnderreplicatedFragment(fragment, tuple(targets))
        await self.copy(ledger, leaving, targets)
        await self.publish(ledger.ledger_id, leaving, targets)

    async def can_read(
        self, ledger: LedgerView, underreplicated: UnderreplicatedFragment, entry_id: int
    ) -> bool:
        reads = BookieReads(ledger.ledger_id, ledger.metadata, self._context)
        for bookie in underreplicated.sources(entry_id):
            if not await missing_copies(reads, bookie, [entry_id]):
                return True
        return False

    # The steps of a repair, which a subclass may run in a different order

    async def choose_targets(self, underreplicated: UnderreplicatedFragment) -> dict[int, str]:
        """Choose a bookie for as many of the ensemble indexes with missing copies as possible.

        `client/placement` chooses among the writable bookies outside the ensemble. If there are too
        few, a writable bookie that lost copies gets them back.
        """
        ensemble, watcher = list(underreplicated.fragment.ensemble), self._context.watcher
        write_quorum = underreplicated.fragment.write_quorum
        writable = await watcher.writable()
        unwritable = {
            n: name for n, name in underreplicated.bookie_at.items() if name not in writable
        }
        retriable = {n: name for n, name in underreplicated.bookie_at.items() if name in writable}
        # Replace unwritable bookies first, because writable ones can get their copies back.
        targets = await watcher.replacements(ensemble, unwritable, write_quorum)
        if retriable:
            ensemble = list(with_replacements(ensemble, targets))
            # Even if the bookies replaced above are writable again, use them only as a last resort.
            last_choice = list(unwritable.values())
            others = await watcher.replacements(ensemble, retriable, write_quorum, last_choice)
            targets = {**targets, **retriable, **others}
        return targets

    async def copy(
        self,
        ledger: LedgerView,
        underreplicated: UnderreplicatedFragment,
        targets: Mapping[int, str],
    ) -> None:
        await copy_fragment(
            ledger, underreplicated, targets, self._context, self._rate, self._window_size
        )

    async def publish(
        self, ledger_id: int, underreplicated: UnderreplicatedFragment, targets: Mapping[int, str]
    ) -> None:
        """Put the targets into the metadata. They must already have stored their copies."""
        ensemble, first = underreplicated.fragment.ensemble, underreplicated.fragment.first
        replaced = {ensemble[at]: new for at, new in targets.items() if ensemble[at] != new}
        if not replaced or await self._replace(ledger_id, first, replaced):
            bookies = (*targets.values(),)
            self._context.recorder.record("fragment.replicated", ledger_id, first, bookies=bookies)

    async def _replace(self, ledger_id: int, first: int, replaced: Mapping[str, str]) -> bool:
        """Return False if the segment no longer contains any of the old bookies."""
        manager = self._context.manager
        while True:
            metadata, version = await manager.read(ledger_id)
            updated = replace_bookies(metadata, first, replaced)
            if updated is None:
                return False
            try:
                await manager.write(ledger_id, updated, version)
            except BKMetadataVersionException:
                continue
            ensemble = updated.ensemble_at(first)
            self._context.recorder.record("ensemble.set", ledger_id, first, ensemble=ensemble)
            return True
