"""The replicas check counts the copies of every entry, and reports missing ones.

It asks each bookie which entries of a ledger it has. If a bookie does not return the list, the
check reads the entries one by one. BookKeeper treats them as missing.

In BookKeeper: `replication/AuditorReplicasCheckTask.java`.
"""

from collections import Counter

from labkit.system.autorecovery.fragments import entries_to_test, fragments_of
from labkit.system.autorecovery.ledger_view import missing_copies, view_ledger
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reads import BookieReads
from labkit.system.model.availability import AvailabilityOfEntries
from labkit.system.model.errors import PROVES_ABSENCE, BKException


async def check_replicas(client: BookKeeper, ledger_id: int) -> None:
    ledger = await view_ledger(client, ledger_id)
    if not ledger.is_closed:
        return
    reads = BookieReads(ledger_id, ledger.metadata, client.context)
    missing: Counter[int] = Counter()
    listed: dict[str, AvailabilityOfEntries | None] = {}
    for fragment in fragments_of(ledger.metadata, ledger.last_confirmed):
        for index, bookie in enumerate(fragment.ensemble):
            entry_ids = entries_to_test(fragment, index, 100, lambda _: 0)
            if entry_ids and bookie not in listed:
                listed[bookie] = await _list(client, bookie, ledger_id)
            stored = listed.get(bookie)
            if stored is not None:
                missing.update(entry for entry in entry_ids if entry not in stored)
            else:
                missing.update([*await missing_copies(reads, bookie, entry_ids)])
    if missing:
        write_quorum, ack_quorum = ledger.metadata.write_quorum, ledger.metadata.ack_quorum
        copies = [write_quorum - count for count in missing.values()]
        below_ack_quorum = sum(0 < count < ack_quorum for count in copies)
        below_write_quorum = sum(ack_quorum <= count < write_quorum for count in copies)
        why = (
            f"entries without a copy: {copies.count(0)}, with fewer than Qa:"
            f" {below_ack_quorum}, with fewer than Qw: {below_write_quorum}"
        )
        client.recorder.record(
            "replicas.missing", ledger_id, size=below_write_quorum, explanation=why
        )


async def _list(client: BookKeeper, bookie: str, ledger_id: int) -> AvailabilityOfEntries | None:
    channel = client.context.bookie_client.get_v3(bookie)
    try:
        return await channel.list_of_entries(ledger_id)
    except PROVES_ABSENCE:
        return AvailabilityOfEntries(())
    except BKException:
        return None
