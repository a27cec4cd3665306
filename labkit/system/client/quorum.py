"""What the answers of some bookies prove about all of them: the decisions of recovery.

Two rules that are easily mixed up: "no such entry" counts as an answer for coverage, and only "no
such entry" counts as a proof that an entry was never acknowledged.  Errors and silence prove
nothing (BookKeeper issue 2908).

In BookKeeper: `RoundRobinDistributionSchedule.RRQuorumCoverageSet`, `client/PendingReadOp.java`.
"""

from collections.abc import Collection, Sequence
from enum import Enum

from labkit.system.model.entry import Entry
from labkit.system.model.errors import PROVES_ABSENCE, BKException


class Verdict(Enum):
    """What is known of an entry: it is there, it cannot have been acknowledged, or neither."""

    FOUND = "found"
    LOST = "lost"
    UNKNOWN = "unknown"


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


def judge(answers: Sequence[Entry | BKException], write_quorum: int, ack_quorum: int) -> Verdict:
    """What the answers of an entry's write set mean for its recovery.

    One copy is enough to find it.  It is lost once the bookies that have not denied it are fewer
    than Qa: then it was never acknowledged.
    """
    if any(isinstance(answer, Entry) for answer in answers):
        return Verdict.FOUND
    denied = sum(isinstance(answer, PROVES_ABSENCE) for answer in answers)
    return Verdict.LOST if denied >= write_quorum - ack_quorum + 1 else Verdict.UNKNOWN


def most_telling(errors: Sequence[BKException]) -> BKException:
    """The error to raise of several: one that proves nothing counts more than "no such entry"."""
    return next((error for error in errors if not isinstance(error, PROVES_ABSENCE)), errors[0])
