"""Repairing a fragment: first its copies (`fragment_copy`), then the metadata that promises them.

In BookKeeper: `client/LedgerFragmentReplicator.java`, `BookKeeperAdmin.replicateLedgerFragment`.
"""

from collections.abc import Mapping

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.fragment_copy import copy_fragment
from labkit.system.autorecovery.fragments import Fragment, Underreplicated, with_replaced
from labkit.system.autorecovery.ledger_view import LedgerView, missing_copies
from labkit.system.client.context import ClientContext
from labkit.system.client.ensemble import with_replacements
from labkit.system.client.reads import BookieReads
from labkit.system.model.errors import BKMetadataVersionException, BKNotEnoughBookiesException


class LedgerFragmentReplicator:
    """Replaces a fragment's missing copies, on other bookies.

    With too few bookies it does what it can, and lets bookies that only lost copies keep their
    places; BookKeeper's then does nothing.

    Invariant: the metadata names a bookie only when it has, durably, every copy it should have.
    A repair that ends half way leaves the metadata unchanged, and is repeated from its start.
    """

    def __init__(self, context: ClientContext, config: AutoRecoveryConfig) -> None:
        self._context = context
        self._config = config

    async def replicate(self, ledger: LedgerView, short: Underreplicated) -> None:
        """Repair a fragment that is closed.

        Raises `EntryUnreadableException`, and what the bookies answer, with the metadata
        unchanged.  Raises `BKNotEnoughBookiesException` when some of its places could not be
        repaired.
        """
        assert short.fragment.closed, "its writer may still add to it"
        targets = await self.choose_targets(short)
        back = {place: name for place, name in targets.items() if name in short.bookies}
        new = {place: name for place, name in targets.items() if place not in back}
        # New bookies first: copies that go back to a doubtful one may fail and end the repair.
        for some in filter(None, (new, back)):
            await self.copy(ledger, short, some)
            await self.publish(ledger.ledger_id, short, some)
        left = [bookie for place, bookie in _places(short).items() if place not in targets]
        if left:
            raise BKNotEnoughBookiesException(
                f"the copies of {', '.join(left)} need as many other bookies that take writes, and"
                " there are no more"
            )

    async def move(
        self, ledger: LedgerView, fragment: Fragment, targets: Mapping[int, str]
    ) -> None:
        """Give the copies at these places to other bookies.  Raises as `replicate` does."""
        leaving = Underreplicated(fragment, tuple(targets))
        await self.copy(ledger, leaving, targets)
        await self.publish(ledger.ledger_id, leaving, targets)

    async def can_read(self, ledger: LedgerView, short: Underreplicated, entry_id: int) -> bool:
        """Whether an entry that was unreadable before can be read now."""
        reads = BookieReads(ledger.ledger_id, ledger.metadata, self._context)
        for bookie in short.sources(entry_id):
            if not await missing_copies(reads, bookie, [entry_id]):
                return True
        return False

    # Steps of a repair, which a subclass may take in another order

    async def choose_targets(self, short: Underreplicated) -> dict[int, str]:
        """A replacement for each place, or for as many places as there are bookies.

        A writable bookie that lost copies is replaced, too; when there are not enough others, it
        gets its own copies again.
        """
        ensemble, watcher = list(short.fragment.ensemble), self._context.watcher
        write_quorum = short.fragment.write_quorum
        writable = await watcher.writable()
        gone = {place: name for place, name in _places(short).items() if name not in writable}
        there = {place: name for place, name in _places(short).items() if name in writable}
        # Bookies that are gone come first: those still there can have their copies again.
        targets = await watcher.replacements(ensemble, gone, write_quorum)
        if there:
            ensemble = list(with_replacements(ensemble, targets))
            others = await watcher.replacements(ensemble, there, write_quorum, [*gone.values()])
            targets |= there | others
        return targets

    async def copy(
        self, ledger: LedgerView, short: Underreplicated, targets: Mapping[int, str]
    ) -> None:
        """Store the missing copies on the targets, durably."""
        await copy_fragment(ledger, short, targets, self._context, self._config)

    async def publish(
        self, ledger_id: int, short: Underreplicated, targets: Mapping[int, str]
    ) -> None:
        """Let the metadata name the targets, which have their copies."""
        ensemble, first = short.fragment.ensemble, short.fragment.first
        replaced = {ensemble[at]: new for at, new in targets.items() if ensemble[at] != new}
        if not replaced or await self._replace(ledger_id, first, replaced):
            note = ",".join(targets.values())
            self._context.recorder.record("fragment.replicated", ledger_id, first, note=note)

    # Inside

    async def _replace(self, ledger_id: int, first: int, replaced: Mapping[str, str]) -> bool:
        """Put the new bookies into the metadata, whatever else has changed there meanwhile; False
        if none of the old ones is left there.
        """
        manager = self._context.manager
        while True:
            metadata, version = await manager.read(ledger_id)
            updated = with_replaced(metadata, first, replaced)
            if updated is None:
                return False
            try:
                await manager.write(ledger_id, updated, version)
            except BKMetadataVersionException:
                continue
            ensemble = ",".join(updated.ensemble_at(first))
            self._context.recorder.record("ensemble.set", ledger_id, first, note=ensemble)
            return True


def _places(short: Underreplicated) -> dict[int, str]:
    return dict(zip(short.places, short.bookies, strict=True))
