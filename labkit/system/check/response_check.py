"""Base class of checks that require a certain event on a bookie before the bookie responds.

The required event is reported by the bookie itself. If the bookie was killed after the response and
reported nothing in between, its report of the required event may also have been lost (see the
package's docstring). In that case, the check reports a doubt, unless the trace is complete.
"""

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event

_REPORTED_BY_CLUSTER = ("node.paused", "node.resumed", "node.started")
"""Kinds of events about a bookie that are reported by the cluster instead of the bookie."""


class ResponseCheck(Check):
    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._suspects: list[tuple[Event, str]] = []

    def suspect(self, event: Event, reason: str) -> None:
        """Note this response of the bookie `event.peer`. `finish` will report it unless the
        required event may have been lost.
        """
        self._suspects.append((event, reason))

    def finish(self) -> None:
        following = self._following()
        for event, reason in self._suspects:
            later = following[event.seq]
            is_silent = later is None or later.kind == "node.killed"
            if is_silent and not self.facts.is_complete:
                self.report_doubt(f"{event.peer} reported nothing after event {event.seq}")
            else:
                self.report_broken(event, reason, later)

    def _following(self) -> dict[int, Event | None]:
        """Return the bookie's next event after each suspect response, keyed by the response's
        `seq`.
        """
        bookies = {event.seq: event.peer for event, _ in self._suspects}
        found: dict[int, Event | None] = {}
        latest: dict[str, Event] = {}
        for event in reversed(self.facts.events if bookies else ()):
            if event.seq in bookies:
                found[event.seq] = latest.get(bookies[event.seq])
            if event.kind not in _REPORTED_BY_CLUSTER:
                latest[event.node] = event
        return found
