"""Promises of a topic to its consumers: order, no gap, and nothing again that was acknowledged.

Judged by what the simulated consumers note beside the events.

In Pulsar: `PersistentSubscription.java`, `ManagedCursorImpl.java`; it has no such checks.
"""

from collections import defaultdict
from typing import TypeAlias

from labkit.check.facts import Facts
from labkit.check.handlers import on
from labkit.check.messages import message_of
from labkit.check.promise import Check
from labkit.trace.answers import AllAcknowledged, EntryAcknowledged, MessageDelivered
from labkit.trace.events import Event

_Subscription: TypeAlias = tuple[str, str]
"""A topic and the name of the subscription."""


def _of(delivered: MessageDelivered) -> _Subscription:
    return delivered.message.topic, delivered.subscription


def _named(delivered: MessageDelivered) -> str:
    return f"message {delivered.message.sequence_id} of {delivered.message.producer}"


class DeliveriesKeepTheOrder(Check):
    """Consumers of an Exclusive or a Failover subscription get messages in the order of the topic;
    one that comes again does not count.
    """

    def finish(self) -> None:
        """Compare the place of each message with those before it."""
        last: dict[_Subscription, MessageDelivered] = {}
        seen: defaultdict[_Subscription, set[tuple[int, int, int]]] = defaultdict(set)
        for answer in self.facts.answers:
            if not isinstance(answer, MessageDelivered) or not answer.in_order:
                continue
            place, subscription = answer[-3:], _of(answer)
            if place in seen[subscription]:
                continue
            self.judged += 1
            seen[subscription].add(place)
            before = last.get(subscription, answer)
            if place < before[-3:]:
                self.broke(
                    self.facts.events[answer.at - 1],
                    f"{answer.broker} delivered {_named(answer)} to {answer.consumer}, stored"
                    f" as {answer.ledger}:{answer.entry}, after {_named(before)}, stored as"
                    f" {before.ledger}:{before.entry}",
                )
            last[subscription] = answer


class NoMessageIsSkipped(Check):
    """What a subscription has behind it, every message up to its mark-delete position, was
    delivered to one of its consumers.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._found: defaultdict[str, list[Event]] = defaultdict(list)

    @on("message.found")
    def found(self, event: Event) -> None:
        """Note where the reader found the message."""
        self._found[message_of(event).topic].append(event)

    def finish(self) -> None:
        """Compare what was delivered with what is stored."""
        delivered: defaultdict[_Subscription, set[tuple[int, int]]] = defaultdict(set)
        for answer in self.facts.answers:
            if isinstance(answer, MessageDelivered):
                delivered[_of(answer)].add((answer.ledger, answer.entry))
            elif isinstance(answer, AllAcknowledged):
                self._judge(answer, delivered[answer.topic, answer.subscription])

    def _judge(self, upto: AllAcknowledged, delivered: set[tuple[int, int]]) -> None:
        for event in self._found[upto.topic]:
            place = event.ledger, event.entry
            if place > (upto.ledger, upto.entry):
                continue
            self.judged += 1
            if place not in delivered:
                self.broke(
                    event,
                    f"{message_of(event)}, stored as {event.ledger}:{event.entry}, was not"
                    f" delivered to {upto.subscription}, which has acknowledged all up to"
                    f" {upto.ledger}:{upto.entry}",
                )


class AcknowledgedIsNotDeliveredAgain(Check):
    """A broker that has taken the acknowledgement of an entry does not deliver it again to the same
    consumer, for as long as it serves the topic.

    The next broker may deliver again what was acknowledged last, since cursors are stored a little
    later.  Another consumer may have been sent the entry before.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._opened: dict[tuple[str, str], list[int]] = {}

    @on("topic.opened")
    def opened(self, event: Event) -> None:
        """Note when a broker began to serve the topic."""
        self._opened.setdefault((event.node, event.note), []).append(event.seq)

    def finish(self) -> None:
        """Look for deliveries behind acknowledgements."""
        taken: dict[tuple[str, str, _Subscription, int, int], EntryAcknowledged] = {}
        for answer in self.facts.answers:
            if isinstance(answer, EntryAcknowledged):
                subscription = answer.topic, answer.subscription
                place = answer.ledger, answer.entry
                taken[answer.consumer, answer.broker, subscription, *place] = answer
            elif isinstance(answer, MessageDelivered):
                self.judged += 1
                place = answer.ledger, answer.entry
                before = taken.get((answer.consumer, answer.broker, _of(answer), *place))
                if before is not None:
                    self._judge(answer, before)

    def _judge(self, again: MessageDelivered, before: EntryAcknowledged) -> None:
        opened = self._opened.get((again.broker, again.message.topic), [])
        if not any(before.at <= seq < again.at for seq in opened):
            self.broke(
                self.facts.events[again.at - 1],
                f"{again.broker} delivered {_named(again)} to {again.consumer} again, stored as"
                f" {again.ledger}:{again.entry}, and had taken its acknowledgement before event"
                f" {before.at}",
            )
