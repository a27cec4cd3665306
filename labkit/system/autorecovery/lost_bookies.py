"""Decisions on bookies that went: when they count as lost, and which ledgers miss them.

In BookKeeper: `replication/Auditor.submitAuditTask`, `replication/BookieLedgerIndexer.java`.
"""

from collections.abc import Collection, Iterable, Mapping

from labkit.system.model.ledger import LedgerMetadata


def when_to_audit(missing: Mapping[str, float], delay_s: float, now_s: float) -> float | None:
    """The time at which to mark the ledgers of the missing bookies; None if none is missing.

    `missing` has the time since which each one is away.  A single one may be restarting: it has
    `delay_s` to come back.  When more than one is away, copies are in danger, so none waits.
    """
    if not missing:
        return None
    if len(missing) > 1:
        return now_s
    return min(missing.values()) + delay_s


def ledgers_of_bookies(ledgers: Iterable[tuple[int, LedgerMetadata]]) -> dict[str, list[int]]:
    """The index from each bookie to the ledgers that name it.

    Every ensemble of every ledger counts, those of open ledgers too.
    """
    index: dict[str, list[int]] = {}
    for ledger_id, metadata in ledgers:
        bookies = dict.fromkeys(b for segment in metadata.segments for b in segment.ensemble)
        for bookie in bookies:
            index.setdefault(bookie, []).append(ledger_id)
    return index


def bookies_missed(
    index: Mapping[str, list[int]], registered: Collection[str]
) -> dict[int, list[str]]:
    """For each ledger that names unregistered bookies: their names."""
    missed: dict[int, list[str]] = {}
    for bookie in sorted(index):
        if bookie not in registered:
            for ledger_id in index[bookie]:
                missed.setdefault(ledger_id, []).append(bookie)
    return missed
