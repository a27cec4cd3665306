"""Quorum coverage: whether enough bookies have answered to know what all of them could know.

In BookKeeper: `RoundRobinDistributionSchedule.RRQuorumCoverageSet`.
"""

from collections.abc import Collection


def is_covered(
    known: Collection[int], ensemble_size: int, write_quorum: int, ack_quorum: int
) -> bool:
    """Whether no entry can have been acknowledged by bookies of which none answered.

    `known` are the places that answered, "no such entry" included; errors and silence leave a place
    unknown.  Covered means: in each write set fewer than Qa places are unknown.
    """
    return all(
        sum((first + i) % ensemble_size not in known for i in range(write_quorum)) < ack_quorum
        for first in range(ensemble_size)
    )
