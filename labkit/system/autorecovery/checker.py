"""Finding out which copies of a ledger are missing.

In BookKeeper: `client/LedgerChecker.java`.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from labkit.system.autorecovery.fragments import (
    Fragment,
    Underreplicated,
    entries_to_test,
    fragments_of,
)
from labkit.system.autorecovery.ledger_view import LedgerView, missing_copies
from labkit.system.autorecovery.metadata_silence import SettledBookies
from labkit.system.autorecovery.random_port import Draw
from labkit.system.client.context import ClientContext
from labkit.system.client.reads import BookieReads
from labkit.system.client.striping import write_set
from labkit.system.model.errors import PROVES_ABSENCE, BKException

MissingPlaces = Callable[
    [Fragment, Collection[str], Mapping[int, Sequence[BKException]]], tuple[int, ...]
]
_AT_ONCE = 100
"""Entries that one bookie is asked for together: it has clients to serve."""


class LedgerChecker:
    """Tests the copies of ledgers: those of bookies that are registered, by asking for them.

    BookKeeper's looks only at how a bookie answers; this one verifies the digest, too.
    """

    def __init__(
        self,
        context: ClientContext,
        bookies: SettledBookies,
        percentage: int,
        draw: Draw,
        missing_places: MissingPlaces,
    ) -> None:
        self._context = context
        self._bookies = bookies
        self._percentage = percentage
        self._draw = draw
        self._missing_places = missing_places

    async def check(self, ledger: LedgerView) -> list[Underreplicated]:
        """The fragments of which copies are missing.  Raises `MetadataUnavailableError`.

        If the metadata store fell silent meanwhile, the check is repeated: clients could not find
        bookies then.
        """
        while True:
            registered = (await self._bookies.now()).alive
            silences = self._bookies.silence_count
            short = await self._short(ledger, registered)
            if not short or silences == self._bookies.silence_count:
                return short

    async def _short(
        self, ledger: LedgerView, registered: Collection[str]
    ) -> list[Underreplicated]:
        reads = BookieReads(ledger.ledger_id, ledger.metadata, self._context)
        short = []
        for fragment in await self._fragments(ledger, reads):
            failures = await self._failures(fragment, registered, reads)
            places = self._missing_places(fragment, registered, failures)
            if places:
                short.append(Underreplicated(fragment, places))
        return short

    async def _fragments(self, ledger: LedgerView, reads: BookieReads) -> list[Fragment]:
        """All fragments; the last one of an open ledger may hold more than is known.

        If nothing of it is confirmed yet, its first entry may be there or not.  Only when all
        bookies that should have it deny it, nothing was written there, and nothing is missing.
        """
        *others, last = fragments_of(ledger.metadata, ledger.last_confirmed)
        if ledger.is_closed or last.last >= last.first:
            return [*others, last]
        sizes = len(last.ensemble), last.write_quorum
        answers = await asyncio.gather(
            *(
                missing_copies(reads, last.ensemble[place], [last.first])
                for place in write_set(last.first, *sizes)
            )
        )
        if all(isinstance(failures.get(last.first), PROVES_ABSENCE) for failures in answers):
            return others
        return [*others, replace(last, last=last.first)]

    async def _failures(
        self, fragment: Fragment, registered: Collection[str], reads: BookieReads
    ) -> dict[int, list[BKException]]:
        places = [n for n, bookie in enumerate(fragment.ensemble) if bookie in registered]
        answers = await asyncio.gather(*(self._test(fragment, n, reads) for n in places))
        return dict(zip(places, answers, strict=True))

    async def _test(self, fragment: Fragment, place: int, reads: BookieReads) -> list[BKException]:
        entry_ids = entries_to_test(fragment, place, self._percentage, self._draw)
        failed: list[BKException] = []
        for at in range(0, len(entry_ids), _AT_ONCE):
            some = entry_ids[at : at + _AT_ONCE]
            failed += (await missing_copies(reads, fragment.ensemble[place], some)).values()
        return failed
