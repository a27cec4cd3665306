"""Failover: several consumers, one of them active; when it leaves, the next takes over.

Ordered by priority (the lowest number first), then by name.  The partitions of a topic are spread
over the consumers of the best priority: of three, the second is active for partitions 1, 4, 7.  For
a topic without partitions it is the first (Pulsar's newer brokers draw it from the topic's hash).

In Pulsar: `AbstractDispatcherSingleActiveConsumer.pickAndScheduleActiveConsumer`.
"""

from collections.abc import Sequence

from labkit.system.broker.dispatch.consumer import Consumer


class Failover:
    """Chooses a consumer for the topic with partition index `partition`, -1 for none."""

    announces = True

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def admit(self, consumer: Consumer, connected: Sequence[Consumer]) -> None:
        """Every consumer may join."""

    def active(self, connected: Sequence[Consumer]) -> Consumer:
        """The consumer that gets the entries."""
        ordered = sorted(connected, key=_priority_and_name)
        best = [each for each in ordered if each.priority == ordered[0].priority]
        return best[max(self._partition, 0) % len(best)]


def _priority_and_name(consumer: Consumer) -> tuple[int, str]:
    return consumer.priority, consumer.name
