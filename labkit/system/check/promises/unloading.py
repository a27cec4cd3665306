"""The promise of a broker to an administrator who unloads a topic.

In Pulsar: `PersistentTopicsBase.internalUnloadTopic`; it has no such check.
"""

from labkit.system.check.facts import Facts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.answers import TopicUnloaded
from labkit.system.trace.events import Event


class UnloadedTopicsAreClosed(Check):
    """When a broker says that a topic is unloaded, it no longer serves the topic: what is done
    next, such as deleting it or opening it elsewhere, finds nothing of it still open.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._changes: dict[tuple[str, str], list[Event]] = {}

    @on("topic.opened", "topic.closed", "topic.ended")
    def changed(self, event: Event) -> None:
        """Note when a broker begins to serve the topic, and when it stops."""
        topic = event.note.partition(": ")[0]
        self._changes.setdefault((event.node, topic), []).append(event)

    @on("node.killed")
    def killed(self, event: Event) -> None:
        """Note that a broker serves nothing any more."""
        for (node, _), changes in self._changes.items():
            if node == event.node:
                changes.append(event)

    def finish(self) -> None:
        """Look at the topic's last change before each answer."""
        for answer in self.facts.answers:
            if not isinstance(answer, TopicUnloaded):
                continue
            changes = self._changes.get((answer.broker, answer.topic), [])
            before = [event for event in changes if event.seq < answer.at]
            if before:
                self.judged += 1
                if before[-1].kind == "topic.opened":
                    self.broke(
                        self.facts.before(answer),
                        f"{answer.broker} said that {answer.topic} is unloaded, and still serves"
                        f" it since event {before[-1].seq}",
                    )
