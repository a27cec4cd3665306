"""Striping: which bookies of an ensemble store an entry.

In BookKeeper: `client/RoundRobinDistributionSchedule.java`.
"""


def write_set(entry_id: int, ensemble_size: int, write_quorum: int) -> tuple[int, ...]:
    """Places in the ensemble of the bookies that store the entry, in the order of asking.

    The absolute entry id counts, not the place within a segment: the round does not start again
    when the ensemble changes.
    """
    return tuple((entry_id + i) % ensemble_size for i in range(write_quorum))
