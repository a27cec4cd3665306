"""Determines what the responses of some bookies prove about the ensemble, mainly for recovery.

There are two rules, which are easily confused:

    coverage   every acknowledged entry is on at least one of the bookies that have responded;
               both an entry and "no such entry" count as responses
    absence    an entry was never acknowledged if so many bookies deny having it that fewer than Qa
               bookies can have it; only explicit denials count

The denials, in `PROVES_ABSENCE`, are "no such entry" and "no such ledger". Under both rules, other
errors and missing responses prove nothing (BookKeeper issue 2908).

In BookKeeper: `RoundRobinDistributionSchedule.RRQuorumCoverageSet`, `client/PendingReadOp.java`.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import TypeVar

from labkit.system.model.entry import Entry
from labkit.system.model.errors import (
    PROVES_ABSENCE,
    BKException,
    BKReadException,
    BKUnauthorizedAccessException,
)
from labkit.system.model.ledger import LedgerMetadata

T = TypeVar("T")


class Verdict(Enum):
    FOUND = "found"
    """At least one bookie has the entry."""
    NEVER_ACKNOWLEDGED = "never acknowledged"
    """The entry cannot have been acknowledged, so the ledger may end at the previous entry."""
    UNKNOWN = "unknown"


def is_covered(
    responded: Collection[int], ensemble_size: int, write_quorum: int, ack_quorum: int
) -> bool:
    """Return whether every write set has fewer than Qa bookies that have not responded. `responded`
    contains the ensemble indices of bookies that returned an entry or denied having one.
    """
    return all(
        sum((first + i) % ensemble_size not in responded for i in range(write_quorum)) < ack_quorum
        for first in range(ensemble_size)
    )


async def collect_until_covered(
    ledger_id: int,
    metadata: LedgerMetadata,
    replies: "asyncio.Queue[tuple[int, T | BKException]]",
    is_denial: Callable[[BKException], bool],
) -> dict[int, T | BKException]:
    """Collect responses from the last ensemble, keyed by ensemble index, until they cover it.

    An error counts as a response only if it `is_denial`. Raises `BKReadException` if too few
    bookies respond, and `BKUnauthorizedAccessException` if one rejects the password.
    """
    ensemble = metadata.segments[-1].ensemble
    sizes = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
    responses: dict[int, T | BKException] = {}
    errors: list[BKException] = []
    for _ in ensemble:
        index, reply = await replies.get()
        if isinstance(reply, BKUnauthorizedAccessException):
            raise reply
        if isinstance(reply, BKException) and not is_denial(reply):
            errors.append(reply)
            continue
        responses[index] = reply
        if is_covered(responses, *sizes):
            return responses
    missing = ", ".join(name for index, name in enumerate(ensemble) if index not in responses)
    raise BKReadException(
        f"cannot read LastAddConfirmed of ledger {ledger_id}: too few bookies responded; no valid"
        f" response from {missing} ({errors[0]})"
    )


def judge(responses: Sequence[Entry | BKException], write_quorum: int, ack_quorum: int) -> Verdict:
    """Judge whether an entry was stored, based on the responses of its write set so far."""
    if any(isinstance(response, Entry) for response in responses):
        return Verdict.FOUND
    denied = sum(isinstance(response, PROVES_ABSENCE) for response in responses)
    if write_quorum - denied < ack_quorum:
        return Verdict.NEVER_ACKNOWLEDGED
    return Verdict.UNKNOWN


def most_informative(errors: Sequence[BKException]) -> BKException:
    """Return the first error that is not a denial, because such an error means that the entry may
    exist. If all errors are denials, return the first one.
    """
    return next((error for error in errors if not isinstance(error, PROVES_ABSENCE)), errors[0])
