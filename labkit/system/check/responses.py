"""Base class of checks that require an event on a bookie before the bookie's response.

The events of a live bookie arrive over one connection, in order. If no later event from the bookie
has arrived, the required event may have been lost when the bookie was killed.
"""

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event

_REPORTED_BY_CLUSTER = ("node.paused", "node.resumed", "node.started")
"""The cluster reports these, not the bookie over its connection."""


class ResponseCheck(Check):
    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._suspects: list[tuple[Event, str, str]] = []

    def suspect(self, event: Event, bookie: str, reason: str) -> None:
        """Report this response in `finish`, unless the required event may have been lost."""
        self._suspects.append((event, bookie, reason))

    def finish(self) -> None:
        for event, bookie, reason in self._suspects:
            events = (later for later in self.facts.after(event) if later.node == bookie)
            following = next(
                (each for each in events if each.kind not in _REPORTED_BY_CLUSTER), None
            )
            if following is None or following.kind == "node.killed":
                self.doubt(f"{bookie} reported nothing after event {event.seq}")
            else:
                self.broke(event, reason, following)
                return
