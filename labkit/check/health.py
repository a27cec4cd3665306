"""The promise that all others rest on: every error is expected by somebody."""

from labkit.check.handlers import on
from labkit.check.promise import Check
from labkit.trace.events import Event


class EveryErrorIsExpected(Check):
    """No node's code raises an error that nobody catches.

    Only the simulated world sees such errors; a live node's end in its log.
    """

    @on("node.started")
    def started(self, _: Event) -> None:
        """It is watched from now on."""
        self.judged += 1

    @on("node.failed")
    def failed(self, event: Event) -> None:
        """Nobody caught this one."""
        self.broke(event, f"{event.node} raised what nobody catches: {event.note}")
