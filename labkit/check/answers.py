"""What a bookie's answer must wait for, judged although a killed bookie's last rows may be lost.

The rows of a live bookie come over a connection and in order.  An answer that nothing on the bookie
leads to is therefore a broken promise only when a later row of that bookie has come; if it was
killed before, the row that is missing may have died with it.
"""

from labkit.check.facts import Facts
from labkit.check.promise import Check
from labkit.trace.events import Event

_TOLD_BY_OTHERS = ("node.paused", "node.resumed", "node.started")
"""The cluster reports these of a bookie: they do not come over its connection."""


class AnswerCheck(Check):
    """Base of the checks on answers of bookies."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._suspects: list[tuple[Event, str, str]] = []

    def suspect(self, event: Event, bookie: str, reason: str) -> None:
        """Nothing of the bookie led to its answer, unless a row was lost."""
        self._suspects.append((event, bookie, reason))

    def finish(self) -> None:
        """Look for the next row of the bookie behind each suspicious answer."""
        for event, bookie, reason in self._suspects:
            rows = (each for each in self.facts.after(event) if each.node == bookie)
            following = next((row for row in rows if row.kind not in _TOLD_BY_OTHERS), None)
            if following is None or following.kind == "node.killed":
                self.doubt(f"{bookie} tells nothing any more after event {event.seq}")
            else:
                self.broke(event, reason, following)
                return
