"""What a bookie must do before it answers, judged although a killed bookie's last rows may be lost.

The rows of a live bookie arrive over a connection, in order.  An answer without its cause on the
bookie is therefore a broken promise only when a later row of that bookie has arrived; if the bookie
was killed before that, the missing row may have died with it.
"""

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event

_TOLD_BY_OTHERS = ("node.paused", "node.resumed", "node.started")
"""Events that the cluster reports for a bookie: they do not arrive over its connection."""


class AnswerCheck(Check):
    """Base of the checks on answers of bookies."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._suspects: list[tuple[Event, str, str]] = []

    def suspect(self, event: Event, bookie: str, reason: str) -> None:
        """Suspect an answer that has no cause on its bookie, unless a row was lost."""
        self._suspects.append((event, bookie, reason))

    def finish(self) -> None:
        """Look for the bookie's next row after each suspicious answer."""
        for event, bookie, reason in self._suspects:
            rows = (each for each in self.facts.after(event) if each.node == bookie)
            following = next((row for row in rows if row.kind not in _TOLD_BY_OTHERS), None)
            if following is None or following.kind == "node.killed":
                self.doubt(f"{bookie} reports nothing after event {event.seq}")
            else:
                self.broke(event, reason, following)
                return
