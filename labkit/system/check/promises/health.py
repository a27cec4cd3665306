"""The promise that all others rest on: no error goes unhandled, or comes without a cause."""

from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event

_DAMAGED = "StorageDamagedException"


class EveryErrorIsExpected(Check):
    """No node's code raises an error that nothing catches, and no bookie finds its files damaged
    when only crashes have happened to them.

    Only the simulated world sees such errors; those of a live node end up in its log.  One that
    ends a task counts if nothing has taken it by the end of its process, or of the run.
    """

    @on("node.started")
    def started(self, _: Event) -> None:
        """Count each start of a node as a test of the promise."""
        self.judged += 1

    @on("node.failed")
    def failed(self, event: Event) -> None:
        """Judge an error that nothing caught."""
        self.broke(event, f"{event.node} raised an error that nothing catches: {event.note}")

    @on("node.killed")
    def ended(self, event: Event) -> None:
        """Judge a bookie that ends since it cannot use what a crash has left."""
        if event.note.startswith(_DAMAGED) and event.node not in self.facts.bad_disks:
            self.broke(event, f"only crashes have happened to {event.node}'s disks: {event.note}")
