"""The replicas check: counts the copies of every entry and reports; it repairs nothing.

A bookie is asked for the list of the ledger's entries that it has (protocol version 3).  One that
does not give it is asked for the entries themselves, where BookKeeper takes them for missing.

In BookKeeper: `replication/AuditorReplicasCheckTask.java`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from labkit.system.autorecovery.fragments import entries_to_test, fragments_of
from labkit.system.autorecovery.ledger_view import LedgerView, missing_copies, view_ledger
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reads import BookieReads
from labkit.system.model.availability import AvailabilityOfEntries
from labkit.system.model.errors import PROVES_ABSENCE, BKException

_AT_ONCE = 100
"""Entries that one bookie is asked for together: it has clients to serve."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """How many entries have no copy, fewer than Qa, and fewer than Qw copies."""

    without_replica: int
    below_ack_quorum: int
    below_write_quorum: int


def shortage_of(missing: Mapping[int, int], write_quorum: int, ack_quorum: int) -> Shortage:
    """Sum up a ledger; `missing` has for each entry how many of its Qw copies are missing."""
    copies = [write_quorum - count for count in missing.values()]
    return Shortage(
        sum(count == 0 for count in copies),
        sum(0 < count < ack_quorum for count in copies),
        sum(ack_quorum <= count < write_quorum for count in copies),
    )


class ReplicasCheck:
    """Asks every bookie which of the entries that it should have it really has."""

    def __init__(self, client: BookKeeper) -> None:
        self._client = client

    async def check(self, ledger_id: int) -> None:
        """Count a closed ledger's copies, and report if there are too few.

        Raises `BKNoSuchLedgerExistsOnMetadataServerException`.
        """
        ledger = await view_ledger(self._client, ledger_id)
        if not ledger.is_closed:
            return
        missing: Counter[int] = Counter()
        listed: dict[str, AvailabilityOfEntries | None] = {}
        for fragment in fragments_of(ledger.metadata, ledger.last_confirmed):
            for place, bookie in enumerate(fragment.ensemble):
                entry_ids = entries_to_test(fragment, place, 100, lambda _: 0)
                if entry_ids and bookie not in listed:
                    listed[bookie] = await self._list(bookie, ledger_id)
                stored = listed.get(bookie)
                if stored is not None:
                    missing.update(entry for entry in entry_ids if entry not in stored)
                else:
                    missing.update(await self._not_read(ledger, bookie, entry_ids))
        if missing:
            sizes = ledger.metadata.write_quorum, ledger.metadata.ack_quorum
            short = shortage_of(missing, *sizes)
            note = (
                f"entries without a copy: {short.without_replica}, with fewer than Qa:"
                f" {short.below_ack_quorum}, with fewer than Qw: {short.below_write_quorum}"
            )
            self._client.recorder.record("replicas.missing", ledger_id, note=note)

    async def _list(self, bookie: str, ledger_id: int) -> AvailabilityOfEntries | None:
        """The bookie's list of its entries; None if it does not give one."""
        try:
            return await self._client.context.bookies.get_v3(bookie).list_of_entries(ledger_id)
        except PROVES_ABSENCE:
            return AvailabilityOfEntries(())
        except BKException:
            return None

    async def _not_read(self, ledger: LedgerView, bookie: str, entry_ids: list[int]) -> list[int]:
        reads = BookieReads(ledger.ledger_id, ledger.metadata, self._client.context)
        missing: list[int] = []
        for at in range(0, len(entry_ids), _AT_ONCE):
            missing += await missing_copies(reads, bookie, entry_ids[at : at + _AT_ONCE])
        return missing
