"""The replicas check: counts the copies of every entry and reports; it repairs nothing.

In BookKeeper: `replication/AuditorReplicasCheckTask.java`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from labkit.autorecovery.copies import Ledger, look_at, missing_copies
from labkit.autorecovery.fragments import Fragment, entries_to_test, fragments_of
from labkit.client.bookkeeper import BookKeeper
from labkit.client.reads import BookieReads

_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Shortage:
    """How many entries have no copy, fewer than Qa, and fewer than Qw copies."""

    without_replica: int
    below_ack_quorum: int
    below_write_quorum: int


def shortage_of(missing: Mapping[int, int], write_quorum: int, ack_quorum: int) -> Shortage:
    """Sum up a ledger; `missing` tells for each entry how many of its Qw copies are missing."""
    copies = [write_quorum - count for count in missing.values()]
    return Shortage(
        sum(count == 0 for count in copies),
        sum(0 < count < ack_quorum for count in copies),
        sum(ack_quorum <= count < write_quorum for count in copies),
    )


class ReplicasCheck:
    """Asks every bookie for every entry that it is to have."""

    def __init__(self, client: BookKeeper) -> None:
        self._client = client

    async def check(self, ledger_id: int) -> None:
        """Count a closed ledger's copies, and report if there are too few.

        Raises `BKNoSuchLedgerExistsOnMetadataServerException`.
        """
        ledger = await look_at(self._client, ledger_id)
        if not ledger.is_closed:
            return
        missing: Counter[int] = Counter()
        for fragment in fragments_of(ledger.metadata, ledger.last_confirmed):
            for place in range(len(fragment.ensemble)):
                missing.update(await self._missing_at(ledger, fragment, place))
        if missing:
            sizes = ledger.metadata.write_quorum, ledger.metadata.ack_quorum
            short = shortage_of(missing, *sizes)
            note = (
                f"entries without a copy: {short.without_replica}, with fewer than Qa:"
                f" {short.below_ack_quorum}, with fewer than Qw: {short.below_write_quorum}"
            )
            self._client.recorder.record("replicas.missing", ledger_id, note=note)

    async def _missing_at(self, ledger: Ledger, fragment: Fragment, place: int) -> list[int]:
        reads = BookieReads(ledger.ledger_id, ledger.metadata, self._client.context)
        entry_ids = entries_to_test(fragment, place, 100, lambda _: 0)
        missing: list[int] = []
        for at in range(0, len(entry_ids), _AT_ONCE):
            some = entry_ids[at : at + _AT_ONCE]
            missing += await missing_copies(reads, fragment.ensemble[place], some)
        return missing
