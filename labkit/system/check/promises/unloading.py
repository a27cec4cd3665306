"""The promise of a broker to an administrator who unloads a topic.

In Pulsar: `PersistentTopicsBase.internalUnloadTopic`; Pulsar has no such check.
"""

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check
from labkit.system.trace.answers import TopicUnloaded
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on


class UnloadedTopicsAreClosed(Check):
    """When a broker reports that a topic is unloaded, no part of the topic is still open there, so
    the topic can be deleted, or opened elsewhere.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._changes: dict[tuple[str, str], list[Event]] = {}

    @on("topic.opened", "topic.closed", "topic.ended")
    def changed(self, event: Event) -> None:
        self._changes.setdefault((event.node, event.topic), []).append(event)

    @on("node.killed")
    def killed(self, event: Event) -> None:
        for (node, _), changes in self._changes.items():
            if node == event.node:
                changes.append(event)

    def finish(self) -> None:
        for answer in self.facts.answers_of(TopicUnloaded):
            changes = self._changes.get((answer.broker, answer.topic), [])
            before = [event for event in changes if event.seq < answer.at]
            if not before:
                continue
            if before[-1].kind != "topic.opened":
                self.report_kept()
            else:
                self.report_broken(
                    answer,
                    f"{answer.broker} reported that {answer.topic} is unloaded, but still"
                    " serves it",
                )
