"""Ends a writer whose adds do not get enough acknowledgements in time.

A bookie that does not respond within `request_timeout_s` is replaced, and its replacement may not
respond either. This timeout limits the total time, for callers that would rather switch to a new
ledger than wait.

In BookKeeper: `LedgerHandle.monitorPendingAddOps`, `PendingAddOp.maybeTimeout`.
"""

import asyncio
from collections import deque

from labkit.system.client.context import ClientConfig
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import BKAddEntryQuorumTimeoutException

_CHECKS = 8
"""The number of checks per timeout. Adds have no timers of their own, so an add may time out late,
by up to an eighth of the timeout.
"""


class QuorumTimeoutMonitor:
    """Periodically checks whether a writer's adds are overdue, until the writer ends.

    An add is overdue only if it lacks acknowledgements, not if it is waiting for earlier entries or
    for an ensemble change.
    """

    def __init__(self, writer: LedgerWriter, config: ClientConfig) -> None:
        self._writer = writer
        self._timeout_s = config.add_entry_quorum_timeout_s
        self._pushed: deque[int] = deque(maxlen=_CHECKS + 1)
        """LastAddPushed at each of the latest checks. When the deque is full, the first item is one
        timeout old, so all adds up to that entry are overdue.
        """

    def start(self) -> None:
        asyncio.get_running_loop().call_later(self._timeout_s / _CHECKS, self._check)

    def _check(self) -> None:
        if self._writer.is_ended:
            return
        writer = self._writer
        self._pushed.append(writer.last_add_pushed)
        oldest = next((add for add in writer.pending if not writer.has_enough_acks(add)), None)
        is_too_early = len(self._pushed) <= _CHECKS
        if is_too_early or oldest is None or oldest.entry_id > self._pushed[0]:
            self.start()
            return
        needed, acks = writer.metadata.ack_quorum, oldest.acked.bit_count()
        ensemble = ", ".join(writer.ensemble)
        writer.end(
            BKAddEntryQuorumTimeoutException(
                f"ledger {writer.ledger_id}: entry {oldest.entry_id} has {acks} of {needed}"
                f" acknowledgements after {self._timeout_s:g} s; check {ensemble}, and continue in"
                " a new ledger"
            )
        )
