"""The end of a writer that waits too long for its acknowledgements.

A silent bookie is given up after `request_timeout_s`, and another one takes its place; an add may
go from bookie to bookie in this way for long.  This bounds the whole of it, for callers who
would rather begin a new ledger.

In BookKeeper: `LedgerHandle.monitorPendingAddOps`, `PendingAddOp.maybeTimeout`.
"""

import asyncio
from collections import deque

from labkit.system.client.context import ClientConfig
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import BKAddEntryQuorumTimeoutException

_CHECKS = 8
"""Checks in one timeout: adds are not timed one by one, so one may take an eighth longer."""


class AddEntryQuorumTimeout:
    """Watches one writer, from its creation to its end.

    An entry that has its acknowledgements, and waits for one in front of it or for an ensemble
    change, is not late.
    """

    def __init__(self, writer: LedgerWriter, config: ClientConfig) -> None:
        self._writer = writer
        self._timeout_s = config.add_entry_quorum_timeout_s
        self._pushed: deque[int] = deque(maxlen=_CHECKS + 1)
        """How far adds were pushed at the last checks, the newest at the end."""

    def start(self) -> None:
        """Begin; it ends with the writer."""
        asyncio.get_running_loop().call_later(self._timeout_s / _CHECKS, self._check)

    def _check(self) -> None:
        """End the writer if an add is late; else check again soon."""
        if self._writer.is_ended:
            return
        self._pushed.append(self._writer.last_add_pushed)
        oldest = self._writer.oldest_unacknowledged()
        is_too_early = len(self._pushed) <= _CHECKS
        if is_too_early or oldest is None or oldest.entry_id > self._pushed[0]:
            self.start()
            return
        needed, has = self._writer.metadata.ack_quorum, oldest.acked.bit_count()
        ensemble = ", ".join(self._writer.metadata.segments[-1].ensemble)
        self._writer.end(
            BKAddEntryQuorumTimeoutException(
                f"ledger {self._writer.ledger_id}: entry {oldest.entry_id} has {has} of {needed}"
                f" acknowledgements after {self._timeout_s:g} s; look at {ensemble}, and go on in a"
                " new ledger"
            )
        )
