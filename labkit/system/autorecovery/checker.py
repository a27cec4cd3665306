"""Checks which copies of a ledger are missing.

In BookKeeper: `client/LedgerChecker.java`.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from labkit.system.autorecovery.fragments import (
    Fragment,
    UnderreplicatedFragment,
    entries_to_test,
    fragments_of,
)
from labkit.system.autorecovery.ledger_view import LedgerView, missing_copies
from labkit.system.autorecovery.metadata_silence import SettledBookies
from labkit.system.autorecovery.random_source import Draw
from labkit.system.client.context import ClientContext
from labkit.system.client.reads import BookieReads
from labkit.system.client.striping import write_set
from labkit.system.model.errors import PROVES_ABSENCE, BKException

UnderreplicatedIndexes = Callable[
    [Fragment, Collection[str], Mapping[int, Sequence[BKException]]], tuple[int, ...]
]


class LedgerChecker:
    """Finds missing copies by reading some entries from the registered bookies."""

    def __init__(
        self,
        context: ClientContext,
        bookies: SettledBookies,
        percentage: int,
        draw: Draw,
        underreplicated_indexes: UnderreplicatedIndexes,
    ) -> None:
        self._context = context
        self._bookies = bookies
        self._percentage = percentage
        self._draw = draw
        self._underreplicated_indexes = underreplicated_indexes

    async def check(self, ledger: LedgerView) -> list[UnderreplicatedFragment]:
        """Return the fragments with missing copies. Raises `MetadataUnavailableError`.

        If the metadata store was silent during the check, the client could not look up bookies, so
        missing copies are checked again.
        """
        while True:
            registered = (await self._bookies.now()).alive
            silences = self._bookies.silence_count
            found = await self._check(ledger, registered)
            if not found or silences == self._bookies.silence_count:
                return found

    async def _check(
        self, ledger: LedgerView, registered: Collection[str]
    ) -> list[UnderreplicatedFragment]:
        reads = BookieReads(ledger.ledger_id, ledger.metadata, self._context)
        found = []
        for fragment in await self._fragments(ledger, reads):
            errors = await self._errors(fragment, registered, reads)
            if indexes := self._underreplicated_indexes(fragment, registered, errors):
                found.append(UnderreplicatedFragment(fragment, indexes))
        return found

    async def _fragments(self, ledger: LedgerView, reads: BookieReads) -> list[Fragment]:
        """Return the fragments to check, except the last one if nothing was written to it.

        In an open ledger, the first entry of the last fragment may have been written but not
        confirmed. Such a fragment is checked as if it ended with this entry, unless every bookie
        that should have the entry responds that the entry does not exist.
        """
        *others, last = fragments_of(ledger.metadata, ledger.last_confirmed)
        if ledger.is_closed or last.last >= last.first:
            return [*others, last]
        indexes = write_set(last.first, len(last.ensemble), last.write_quorum)
        missing = await asyncio.gather(
            *(missing_copies(reads, last.ensemble[index], [last.first]) for index in indexes)
        )
        if all(isinstance(errors.get(last.first), PROVES_ABSENCE) for errors in missing):
            return others
        return [*others, replace(last, last=last.first)]

    async def _errors(
        self, fragment: Fragment, registered: Collection[str], reads: BookieReads
    ) -> dict[int, list[BKException]]:
        tested = {
            n: missing_copies(
                reads, bookie, entries_to_test(fragment, n, self._percentage, self._draw)
            )
            for n, bookie in enumerate(fragment.ensemble)
            if bookie in registered
        }
        missing = await asyncio.gather(*tested.values())
        return {n: [*errors.values()] for n, errors in zip(tested, missing, strict=True)}
