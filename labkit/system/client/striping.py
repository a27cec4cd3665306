"""Striping: which bookies of an ensemble store an entry.

In BookKeeper: `client/RoundRobinDistributionSchedule.java`.
"""

from functools import cache


def write_set(entry_id: int, ensemble_size: int, write_quorum: int) -> tuple[int, ...]:
    """Places in the ensemble of the bookies that store the entry, in the order of asking.

    The absolute entry id counts, not the place within a segment: the round does not start again
    when the ensemble changes.
    """
    return _write_sets(ensemble_size, write_quorum)[entry_id % ensemble_size]


@cache
def _write_sets(ensemble_size: int, write_quorum: int) -> list[tuple[int, ...]]:
    """The write sets of the first E entries; after them they repeat."""
    return [
        tuple((entry_id + i) % ensemble_size for i in range(write_quorum))
        for entry_id in range(ensemble_size)
    ]
