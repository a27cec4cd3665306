"""The promise that all others rest on: no error goes unhandled."""

from labkit.check.handlers import on
from labkit.check.promise import Check
from labkit.trace.events import Event


class EveryErrorIsExpected(Check):
    """No node's code raises an error that nothing catches.

    Only the simulated world sees such errors; those of a live node end up in its log.
    """

    @on("node.started")
    def started(self, _: Event) -> None:
        """Count each start of a node as a test of the promise."""
        self.judged += 1

    @on("node.failed")
    def failed(self, event: Event) -> None:
        """Judge an error that nothing caught."""
        self.broke(event, f"{event.node} raised an error that nothing catches: {event.note}")
