"""Promises to the consumers of a topic: messages arrive in order and without gaps, and are not
redelivered once they have been acknowledged.

The checks use the answers that the simulated consumers record. A subscription that is reset to its
first message starts over: all messages are delivered again.

In Pulsar: `PersistentSubscription.java`, `ManagedCursorImpl.java`; Pulsar has no such checks.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable
from typing import TypeAlias

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check
from labkit.system.check.promises.messages import Message, message_in, message_of
from labkit.system.trace.answers import (
    AllAcknowledged,
    EntryAcknowledged,
    MessageDelivered,
    MessageRead,
    MessageReceived,
    StartedOver,
    Trimmed,
)
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on

_Subscription: TypeAlias = tuple[str, str]
"""The topic and the name of the subscription."""

_AckKey: TypeAlias = tuple[str, str, int, int, int]
"""The consumer, the broker, and the position (ledger, entry and batch index)."""

_Numbered: TypeAlias = tuple[int, EntryAcknowledged]


def _of(delivered: MessageDelivered) -> _Subscription:
    return delivered.message.topic, delivered.subscription


class _InOrder(Check):
    """Base class of the order checks, which ignore redeliveries."""

    def stream_of(self, answer: MessageDelivered) -> Hashable:
        """Return the stream that the delivery belongs to, or None to ignore the delivery."""
        raise NotImplementedError

    def finish(self) -> None:
        last: dict[Hashable, MessageDelivered] = {}
        seen: defaultdict[Hashable, set[tuple[int, int, int]]] = defaultdict(set)
        for answer in self.facts.answers_of(MessageDelivered):
            stream = self.stream_of(answer)
            if stream is None or answer.position in seen[stream]:
                continue
            seen[stream].add(answer.position)
            before = last.get(stream, answer)
            if answer.position >= before.position:
                self.report_kept()
            else:
                self.report_broken(
                    answer,
                    f"{answer.broker} delivered to {answer.consumer} {message_in(answer)}, stored"
                    f" as {answer.ledger}:{answer.entry}, after {message_in(before)}, stored as"
                    f" {before.ledger}:{before.entry}",
                )
            last[stream] = answer


class DeliveriesKeepTheOrder(_InOrder):
    """Consumers of an Exclusive or Failover subscription receive messages in topic order, not
    counting redeliveries.
    """

    def stream_of(self, answer: MessageDelivered) -> Hashable:
        return _of(answer) if answer.in_order else None


class KeysKeepTheirOrder(_InOrder):
    """A consumer of a Key_Shared subscription receives the messages of each key in topic order
    while it stays connected, not counting redeliveries.

    A broker assigns a key to a consumer only when no other consumer has unacknowledged messages
    with this key. So each earlier message with this key has either been acknowledged already, or is
    received by this consumer first.
    """

    def stream_of(self, answer: MessageDelivered) -> Hashable:
        stream = *_of(answer), answer.consumer, answer.connection, answer.key
        return stream if answer.key else None


class OwnersConsumersGetAllInOrder(Check):
    """A consumer in the process that owns a topic receives all messages of the topic in order."""

    def finish(self) -> None:
        stored: defaultdict[str, list[Message]] = defaultdict(list)
        for read in self.facts.answers_of(MessageRead):
            stored[read.message.topic].append(message_in(read))
        counts: Counter[tuple[str, int]] = Counter()
        for got in self.facts.answers_of(MessageReceived):
            consumer = got.consumer, got.since
            self._judge(got, stored[got.message.topic][counts[consumer] :])
            counts[consumer] += 1

    def _judge(self, got: MessageReceived, left: list[Message]) -> None:
        # `left` lists the messages that the consumer has yet to receive.
        message = message_in(got)
        if not left:
            self.report_doubt(f"The trace does not show where {message} is stored")
        elif message == left[0]:
            self.report_kept()
        else:
            self.report_broken(
                got,
                f"{got.consumer} got {message} from its own topic, stored as"
                f" {got.ledger}:{got.entry}, but {left[0]} was next",
            )


class _Deliveries:
    """Deliveries to each subscription, both since its creation and since it last started over."""

    def __init__(self) -> None:
        self.delivered: defaultdict[_Subscription, set[tuple[int, int]]] = defaultdict(set)
        self._since: dict[_Subscription, set[tuple[int, int]]] = {}
        """Deliveries since a request to start over that has not been answered yet."""
        self._started: dict[_Subscription, int] = {}
        """The number of events before the last answer to a request to start over."""
        self.ever: defaultdict[_Subscription, set[tuple[int, int]]] = defaultdict(set)
        """All deliveries since the subscription was created."""
        self.first: dict[_Subscription, tuple[int, int]] = {}
        """For each durable subscription: the lowest position delivered since it last started over.
        """

    def add(self, answer: MessageDelivered) -> None:
        subscription, position = _of(answer), (answer.ledger, answer.entry)
        self.ever[subscription].add(position)
        if answer.durable:
            self.first[subscription] = min(position, self.first.get(subscription, position))
        for delivered in (self.delivered[subscription], self._since.get(subscription)):
            if delivered is not None:
                delivered.add(position)

    def start_over(self, answer: StartedOver) -> None:
        subscription = answer.topic, answer.subscription
        self.first.pop(subscription, None)
        if not answer.is_done:
            self._since.setdefault(subscription, set())
        elif subscription in self._since:
            self.delivered[subscription] = self._since.pop(subscription)
            self._started[subscription] = answer.at

    def is_since_start(self, upto: AllAcknowledged) -> bool:
        """Return whether the position was requested after the subscription last started over."""
        return upto.asked > self._started.get((upto.topic, upto.subscription), -1)


class NoMessageIsSkipped(Check):
    """Every message up to a subscription's mark-delete position was delivered to one of its
    consumers.

    The same is true of every message in a ledger that the topic has trimmed. After a subscription
    has started over, earlier deliveries no longer count. The check ignores the positions that a
    broker reports after another broker has begun to serve the topic, because they may be out of
    date.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._found: defaultdict[str, list[Event]] = defaultdict(list)
        self._acked: defaultdict[str, list[Event]] = defaultdict(list)
        self._opened: defaultdict[str, list[Event]] = defaultdict(list)

    @on("topic.opened")
    def opened(self, event: Event) -> None:
        self._opened[event.topic].append(event)

    @on("message.acked")
    def acked(self, event: Event) -> None:
        self._acked[message_of(event).topic].append(event)

    @on("message.found")
    def found(self, event: Event) -> None:
        self._found[message_of(event).topic].append(event)

    def finish(self) -> None:
        deliveries = _Deliveries()
        for answer in self.facts.answers:
            if isinstance(answer, MessageDelivered):
                deliveries.add(answer)
            elif isinstance(answer, StartedOver):
                deliveries.start_over(answer)
            elif isinstance(answer, AllAcknowledged):
                if self._is_owners(answer) and deliveries.is_since_start(answer):
                    self._judge(answer, deliveries.delivered[answer.topic, answer.subscription])
            elif isinstance(answer, Trimmed):
                self._judge_trim(answer, deliveries)

    def _is_owners(self, upto: AllAcknowledged) -> bool:
        """Return whether no other broker has begun to serve the topic since this one did."""
        opened = [event for event in self._opened[upto.topic] if event.seq < upto.at]
        return not opened or opened[-1].node == upto.broker

    def _judge_trim(self, trimmed: Trimmed, deliveries: _Deliveries) -> None:
        """Check that each trimmed message was delivered, starting with the subscription's first
        message.
        """
        for (topic, name), first in deliveries.first.items():
            for event in self._acked[topic] if topic == trimmed.topic else ():
                position = event.ledger, event.entry
                if event.ledger not in trimmed.ledgers or position < first:
                    continue
                if position in deliveries.ever[topic, name]:
                    self.report_kept()
                else:
                    self.report_broken(
                        event,
                        f"{message_of(event)}, stored as {event.ledger}:{event.entry}, was trimmed"
                        f" with its ledger, but was not delivered to {name}",
                    )

    def _judge(self, upto: AllAcknowledged, delivered: set[tuple[int, int]]) -> None:
        for event in self._found[upto.topic]:
            position = event.ledger, event.entry
            if position > (upto.ledger, upto.entry):
                continue
            if position in delivered:
                self.report_kept()
            else:
                self.report_broken(
                    event,
                    f"{message_of(event)}, stored as {event.ledger}:{event.entry}, was not"
                    f" delivered to {upto.subscription}, which has acknowledged everything up to"
                    f" {upto.ledger}:{upto.entry}",
                )


class _Acknowledgements:
    """The acknowledgements that brokers have accepted since the subscription last started over,
    each with its index in the list of answers.
    """

    def __init__(self) -> None:
        self._of: dict[_Subscription, dict[_AckKey, list[_Numbered]]] = {}
        self._starting_over: Counter[_Subscription] = Counter()
        """How many requests to start over have not been answered yet."""
        self._started: dict[_Subscription, int] = {}
        """The number of events before the last answer to a request to start over."""

    def add(self, number: int, answer: EntryAcknowledged) -> None:
        """Keep the acknowledgement, unless the subscription may have started over after the
        consumer sent it.
        """
        subscription = answer.topic, answer.subscription
        is_since_start = answer.asked > self._started.get(subscription, -1)
        if is_since_start and not self._starting_over[subscription]:
            key = answer.consumer, answer.broker, answer.ledger, answer.entry, answer.batch_index
            accepted = self._of.setdefault(subscription, {})
            accepted.setdefault(key, []).append((number, answer))

    def start_over(self, answer: StartedOver) -> None:
        subscription = answer.topic, answer.subscription
        self._of.pop(subscription, None)
        self._starting_over[subscription] += -1 if answer.is_done else 1
        if answer.is_done:
            self._started[subscription] = answer.at

    def find(self, delivery: MessageDelivered) -> EntryAcknowledged | None:
        """Return the last acknowledgement that had been confirmed to the consumer when the message
        arrived.
        """
        accepted = self._of.get(_of(delivery), {})
        entry = delivery.consumer, delivery.broker, delivery.ledger, delivery.entry
        for key in ((*entry, -1), (*entry, delivery.batch_index)):
            for number, answer in reversed(accepted.get(key, [])):
                if number < delivery.came:
                    return answer
        return None


class AcknowledgedIsNotDeliveredAgain(Check):
    """After a broker has accepted an acknowledgement, it does not redeliver the acknowledged entry
    or message to the same consumer while it serves the topic, unless the subscription starts over.

    Other redeliveries are allowed. Brokers store cursors with a delay, so the next broker may
    redeliver the most recently acknowledged messages. Also, before a broker accepts an
    acknowledgement, it may already have sent the entry again, to the same consumer or to another
    one.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._opened: dict[tuple[str, str], list[int]] = {}

    @on("topic.opened")
    def opened(self, event: Event) -> None:
        self._opened.setdefault((event.node, event.topic), []).append(event.seq)

    def finish(self) -> None:
        acknowledged = _Acknowledgements()
        for number, answer in enumerate(self.facts.answers):
            if isinstance(answer, EntryAcknowledged):
                acknowledged.add(number, answer)
            elif isinstance(answer, StartedOver):
                acknowledged.start_over(answer)
            elif isinstance(answer, MessageDelivered):
                self._judge(answer, acknowledged.find(answer))

    def _judge(self, delivery: MessageDelivered, before: EntryAcknowledged | None) -> None:
        opened = self._opened.get((delivery.broker, delivery.message.topic), [])
        # Do not start at `before.at`, because the broker may have responded before it reopened the
        # topic.
        if before is None or any(before.asked <= seq < delivery.at for seq in opened):
            self.report_kept()
        else:
            self.report_broken(
                delivery,
                f"{delivery.broker} redelivered {message_in(delivery)} (stored as"
                f" {delivery.ledger}:{delivery.entry}) to {delivery.consumer}, although it had"
                " already accepted the acknowledgement",
            )
