"""Promises of a topic to its consumers: order, no gap, and nothing again that was acknowledged.

Judged by what the simulated consumers note beside the events.

In Pulsar: `PersistentSubscription.java`, `ManagedCursorImpl.java`; it has no such checks.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable
from typing import TypeAlias

from labkit.system.check.facts import Facts
from labkit.system.check.handlers import on
from labkit.system.check.messages import Message, message_in, message_of
from labkit.system.check.promise import Check
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

_Subscription: TypeAlias = tuple[str, str]
"""A topic and the name of the subscription."""

_Acknowledged: TypeAlias = tuple[str, str, int, int, int]
"""The consumer, the broker, and the place: ledger, entry and index in the batch."""

_Numbered: TypeAlias = tuple[int, EntryAcknowledged]


def _of(delivered: MessageDelivered) -> _Subscription:
    return delivered.message.topic, delivered.subscription


class _InOrder(Check):
    """Messages that are delivered in one line come in the order of the topic; one that comes again
    does not count.
    """

    def line_of(self, answer: MessageDelivered) -> Hashable:
        """What keeps its order; None: the delivery is not judged."""
        raise NotImplementedError

    def finish(self) -> None:
        """Compare the place of each message with those before it."""
        last: dict[Hashable, MessageDelivered] = {}
        seen: defaultdict[Hashable, set[tuple[int, int, int]]] = defaultdict(set)
        for answer in self.facts.answers:
            line = self.line_of(answer) if isinstance(answer, MessageDelivered) else None
            if line is None or not isinstance(answer, MessageDelivered):
                continue
            place = answer[-3:]
            if place in seen[line]:
                continue
            self.judged += 1
            seen[line].add(place)
            before = last.get(line, answer)
            if place < before[-3:]:
                self.broke(
                    self.facts.before(answer),
                    f"{answer.broker} delivered {message_in(answer)} to {answer.consumer}, stored"
                    f" as {answer.ledger}:{answer.entry}, after {message_in(before)}, stored as"
                    f" {before.ledger}:{before.entry}",
                )
            last[line] = answer


class DeliveriesKeepTheOrder(_InOrder):
    """Consumers of an Exclusive or a Failover subscription get messages in the order of the topic;
    one that comes again does not count.
    """

    def line_of(self, answer: MessageDelivered) -> Hashable:
        """The whole subscription, whichever consumer is active."""
        return _of(answer) if answer.in_order else None


class KeysKeepTheirOrder(_InOrder):
    """A consumer of a Key_Shared subscription gets the messages of a key in the order of the topic
    for as long as it is connected; one that comes again does not count.

    A consumer gets a key only when no other one has unacknowledged messages of the key, so it never
    gets one that is earlier than those that it was delivered before.
    """

    def line_of(self, answer: MessageDelivered) -> Hashable:
        """The key's messages on one connection of a consumer."""
        return (
            (*_of(answer), answer.consumer, answer.connection, answer.key) if answer.key else None
        )


class OwnersConsumersGetAllInOrder(Check):
    """A consumer in the process that owns a topic gets all messages of the topic in their order."""

    def finish(self) -> None:
        """Compare what each consumer got with what is stored at the end."""
        stored: defaultdict[str, list[Message]] = defaultdict(list)
        for answer in self.facts.answers:
            if isinstance(answer, MessageRead):
                stored[answer.message.topic].append(message_in(answer))
        counts: Counter[tuple[str, int]] = Counter()
        for answer in self.facts.answers:
            if isinstance(answer, MessageReceived):
                consumer = answer.consumer, answer.since
                self._judge(answer, stored[answer.message.topic][counts[consumer] :])
                counts[consumer] += 1

    def _judge(self, got: MessageReceived, left: list[Message]) -> None:
        """`left`: what the consumer must get, from this message on."""
        message = message_in(got)
        if not left:
            self.doubt(f"the trace does not hold that {message} is stored")
            return
        self.judged += 1
        if message != left[0]:
            self.broke(
                self.facts.before(got),
                f"{got.consumer} got {message} from its own topic, stored as"
                f" {got.ledger}:{got.entry}, and {left[0]} was next",
            )


class _Starts:
    """When each subscription last started over."""

    def __init__(self) -> None:
        self._done: dict[_Subscription, int] = {}

    def add(self, answer: StartedOver) -> None:
        """Note one that is done."""
        self._done[answer.topic, answer.subscription] = answer.at

    def is_after(self, subscription: _Subscription, asked: int) -> bool:
        """Whether what was asked then was asked of the subscription as it is since."""
        return asked > self._done.get(subscription, -1)


class _Behind:
    """What was delivered to each subscription since it began."""

    def __init__(self) -> None:
        self.delivered: defaultdict[_Subscription, set[tuple[int, int]]] = defaultdict(set)
        self._since: dict[_Subscription, set[tuple[int, int]]] = {}
        """Since it was to start over: it may have done so before its consumer hears of it."""
        self._starts = _Starts()
        self.ever: defaultdict[_Subscription, set[tuple[int, int]]] = defaultdict(set)
        """The same, since the subscription was first there."""
        self.first: dict[_Subscription, tuple[int, int]] = {}
        """The first place of those that were delivered since the last start of a durable one: its
        topic keeps nothing for another.
        """

    def add(self, answer: MessageDelivered) -> None:
        """Note a delivery."""
        subscription, place = _of(answer), (answer.ledger, answer.entry)
        self.ever[subscription].add(place)
        if answer.durable:
            self.first[subscription] = min(place, self.first.get(subscription, place))
        for delivered in (self.delivered[subscription], self._since.get(subscription)):
            if delivered is not None:
                delivered.add(place)

    def start_over(self, answer: StartedOver) -> None:
        """Forget, once it is done, what was delivered before it was asked for."""
        subscription = answer.topic, answer.subscription
        self.first.pop(subscription, None)
        if not answer.is_done:
            self._since.setdefault(subscription, set())
        elif subscription in self._since:
            self.delivered[subscription] = self._since.pop(subscription)
            self._starts.add(answer)

    def can_judge(self, upto: AllAcknowledged) -> bool:
        """Whether the broker was asked after the last start, so that it speaks of this one."""
        return self._starts.is_after((upto.topic, upto.subscription), upto.asked)


class NoMessageIsSkipped(Check):
    """What a subscription has behind it, every message up to its mark-delete position, was
    delivered to one of its consumers.

    So was what a topic gives up with its first ledgers.  A subscription that starts over has
    nothing behind it.  A broker that has not heard that another one serves the topic speaks of the
    subscription as it was before: that is not judged.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._found: defaultdict[str, list[Event]] = defaultdict(list)
        self._acked: defaultdict[str, list[Event]] = defaultdict(list)
        self._opened: defaultdict[str, list[Event]] = defaultdict(list)

    @on("topic.opened")
    def opened(self, event: Event) -> None:
        """Note which broker serves the topic."""
        self._opened[event.note].append(event)

    @on("message.acked")
    def acked(self, event: Event) -> None:
        """Note where the message was stored, says the producer's receipt."""
        self._acked[message_of(event).topic].append(event)

    @on("message.found")
    def found(self, event: Event) -> None:
        """Note where the reader found the message."""
        self._found[message_of(event).topic].append(event)

    def finish(self) -> None:
        """Compare what was delivered with what is stored."""
        behind = _Behind()
        for answer in self.facts.answers:
            if isinstance(answer, MessageDelivered):
                behind.add(answer)
            elif isinstance(answer, StartedOver):
                behind.start_over(answer)
            elif isinstance(answer, AllAcknowledged):
                if self._is_owners(answer) and behind.can_judge(answer):
                    self._judge(answer, behind.delivered[answer.topic, answer.subscription])
            elif isinstance(answer, Trimmed):
                self._judge_trim(answer, behind)

    def _is_owners(self, upto: AllAcknowledged) -> bool:
        """Whether no broker has begun to serve the topic since this one did."""
        opened = [event for event in self._opened[upto.topic] if event.seq < upto.at]
        return not opened or opened[-1].node == upto.broker

    def _judge_trim(self, trimmed: Trimmed, behind: _Behind) -> None:
        """What was there when a subscription began must have been delivered by now."""
        for (topic, name), first in behind.first.items():
            for event in self._acked[topic] if topic == trimmed.topic else ():
                place = event.ledger, event.entry
                if event.ledger not in trimmed.ledgers or place < first:
                    continue
                self.judged += 1
                if place not in behind.ever[topic, name]:
                    self.broke(
                        event,
                        f"{message_of(event)}, stored as {event.ledger}:{event.entry}, was trimmed"
                        f" with its ledger, and was not delivered to {name}",
                    )

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


class _Taken:
    """The acknowledgements that brokers have taken since each subscription began, each with its
    number among the answers.
    """

    def __init__(self) -> None:
        self._of: dict[_Subscription, dict[_Acknowledged, list[_Numbered]]] = {}
        self._starting_over: Counter[_Subscription] = Counter()
        """Requests without an answer: what one asks for may still be done later."""
        self._starts = _Starts()

    def add(self, number: int, answer: EntryAcknowledged) -> None:
        """Remember it, unless it may have been taken before the subscription started over."""
        subscription = answer.topic, answer.subscription
        is_of_this_start = self._starts.is_after(subscription, answer.asked)
        if is_of_this_start and not self._starting_over[subscription]:
            what = answer.consumer, answer.broker, answer.ledger, answer.entry, answer.batch_index
            taken = self._of.setdefault(subscription, {})
            taken.setdefault(what, []).append((number, answer))

    def start_over(self, answer: StartedOver) -> None:
        """Forget those of the subscription."""
        subscription = answer.topic, answer.subscription
        self._of.pop(subscription, None)
        self._starting_over[subscription] += -1 if answer.is_done else 1
        if answer.is_done:
            self._starts.add(answer)

    def find(self, again: MessageDelivered) -> EntryAcknowledged | None:
        """The consumer's last acknowledgement of that message, or of its whole entry, that was
        answered when the message arrived.
        """
        taken = self._of.get(_of(again), {})
        entry = again.consumer, again.broker, again.ledger, again.entry
        for what in ((*entry, -1), (*entry, again.batch_index)):
            for number, answer in reversed(taken.get(what, [])):
                if number < again.came:
                    return answer
        return None


class AcknowledgedIsNotDeliveredAgain(Check):
    """A broker that has taken the acknowledgement of an entry, or of a message of a batch, does not
    deliver it again to the same consumer, for as long as it serves the topic and the subscription
    does not start over.

    The next broker may deliver again what was acknowledged last, since cursors are stored a little
    later.  Another consumer may have been sent the entry before; so may the same one, where the
    broker sent the entry again before it took the acknowledgement.
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
        taken = _Taken()
        for number, answer in enumerate(self.facts.answers):
            if isinstance(answer, EntryAcknowledged):
                taken.add(number, answer)
            elif isinstance(answer, StartedOver):
                taken.start_over(answer)
            elif isinstance(answer, MessageDelivered):
                self.judged += 1
                if (before := taken.find(answer)) is not None:
                    self._judge(answer, before)

    def _judge(self, again: MessageDelivered, before: EntryAcknowledged) -> None:
        opened = self._opened.get((again.broker, again.message.topic), [])
        # Not since `before.at`: the broker may have answered before it opened the topic again.
        if not any(before.asked <= seq < again.at for seq in opened):
            self.broke(
                self.facts.before(again),
                f"{again.broker} delivered {message_in(again)} to {again.consumer} again, stored as"
                f" {again.ledger}:{again.entry}, and had taken its acknowledgement before event"
                f" {before.at}",
            )
