"""The auditor's rules: when missing bookies count as lost, and which ledgers are affected.

In BookKeeper: `replication/Auditor.submitAuditTask`, `replication/BookieLedgerIndexer.java`.
"""

from collections.abc import Collection, Iterable, Mapping

from labkit.system.model.ledger import LedgerMetadata


def when_to_audit(missing: Mapping[str, float], delay_s: float, now_s: float) -> float | None:
    """Return when to mark the ledgers of missing bookies, or None if no bookie is missing.

    `missing` maps each missing bookie to the time from which its absence is measured. A single
    missing bookie may be restarting, so it has `delay_s` seconds to re-register. Two or more count
    as lost immediately, because some entries may have only one copy left. So the delay does not
    help if two bookies restart at the same time.
    """
    if not missing:
        return None
    if len(missing) > 1:
        return now_s
    return min(missing.values()) + delay_s


def lost_bookies_by_ledger(
    ledgers: Iterable[tuple[int, LedgerMetadata]], not_lost: Collection[str]
) -> dict[int, list[str]]:
    """Return the sorted lost bookies of each ledger that lists any in one of its ensembles.
    A bookie is lost if it is not in `not_lost`.
    """
    found: dict[int, list[str]] = {}
    for ledger_id, metadata in ledgers:
        listed = {bookie for segment in metadata.segments for bookie in segment.ensemble}
        if lost := sorted(listed.difference(not_lost)):
            found[ledger_id] = lost
    # As in BookKeeper, the ledgers of one bookie are marked before those of the next one.
    return dict(sorted(found.items(), key=lambda item: item[1][0]))
