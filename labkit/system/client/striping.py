"""Striping: determines which bookies of an ensemble store an entry.

In BookKeeper: `client/RoundRobinDistributionSchedule.java`.
"""

from functools import cache


def write_set(entry_id: int, ensemble_size: int, write_quorum: int) -> tuple[int, ...]:
    """Return the ensemble indices of the bookies that store the entry, in read order.

    They depend only on the entry id: the round-robin order does not restart when the ensemble
    changes.
    """
    return _write_sets(ensemble_size, write_quorum)[entry_id % ensemble_size]


@cache
def _write_sets(ensemble_size: int, write_quorum: int) -> list[tuple[int, ...]]:
    """Return the write sets of entries 0 to E - 1; later entries repeat the same pattern."""
    return [
        tuple((entry_id + i) % ensemble_size for i in range(write_quorum))
        for entry_id in range(ensemble_size)
    ]
