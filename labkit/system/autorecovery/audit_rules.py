"""The auditor's rules: when missing bookies count as lost, and which ledgers are affected.

In BookKeeper: `replication/Auditor.submitAuditTask`, `replication/BookieLedgerIndexer.java`.
"""

from collections.abc import Collection, Iterable, Mapping

from labkit.system.model.ledger import LedgerMetadata


def when_to_audit(missing: Mapping[str, float], delay_s: float, now_s: float) -> float | None:
    """Return when to mark the ledgers of missing bookies, or None if no bookie is missing.

    `missing` maps each missing bookie to the time from which its absence is measured. A single
    bookie may be restarting, so it has `delay_s` to come back. Two or more count as lost at once,
    because an entry may have only one copy left. As a result, the delay does not help if two
    bookies restart at the same time.
    """
    if not missing:
        return None
    if len(missing) > 1:
        return now_s
    return min(missing.values()) + delay_s


def ledgers_by_bookie(ledgers: Iterable[tuple[int, LedgerMetadata]]) -> dict[str, list[int]]:
    """Map each bookie to the ledgers that list it in any of their ensembles."""
    index: dict[str, list[int]] = {}
    for ledger_id, metadata in ledgers:
        bookies = dict.fromkeys(b for segment in metadata.segments for b in segment.ensemble)
        for bookie in bookies:
            index.setdefault(bookie, []).append(ledger_id)
    return index


def lost_bookies_by_ledger(
    index: Mapping[str, list[int]], not_lost: Collection[str]
) -> dict[int, list[str]]:
    """Return the lost bookies, sorted, of each ledger whose metadata lists any.

    `index` is the result of `ledgers_by_bookie`; a bookie in it is lost unless `not_lost` contains
    it.
    """
    missed: dict[int, list[str]] = {}
    for bookie in sorted(index):
        if bookie not in not_lost:
            for ledger_id in index[bookie]:
                missed.setdefault(ledger_id, []).append(bookie)
    return missed
