"""The promise that nodes raise no uncaught exceptions and that crashes corrupt no files."""

from labkit.system.check.promise import Check
from labkit.system.model.errors import StorageDamagedException
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on

_DAMAGED = StorageDamagedException.__name__


class EveryErrorIsExpected(Check):
    """No node raises an uncaught exception, and no bookie finds corrupt files if it has only been
    through crashes.

    Only the simulated world reports uncaught exceptions as events; a live node writes them to its
    log. An exception of a task counts as uncaught if no other task has retrieved it by the end of
    the process or the run.
    """

    @on("node.started")
    def started(self, _: Event) -> None:
        self.report_kept()

    @on("node.failed")
    def failed(self, event: Event) -> None:
        self.report_broken(event, f"{event.node} raised an uncaught exception: {event.explanation}")

    @on("node.killed")
    def ended(self, event: Event) -> None:
        if event.error == _DAMAGED and event.node not in self.facts.bad_disks:
            self.report_broken(
                event,
                f"{event.node} found corrupt files although it had only crashed: {event.error}:"
                f" {event.explanation}",
            )
