"""Promises of a topic that brokers serve: to its producers, and among its owners.

`message.found` reports what is stored at the end: the topic is read when the run is over.  A
message is identified by its topic, its producer's name and its sequence id.

In Pulsar: `PersistentTopic.java`, `MessageDeduplication.java`; it has no such checks.
"""

from collections import defaultdict
from typing import NamedTuple

from labkit.system.check.facts import Facts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.answers import (
    MessageDelivered,
    MessageGiven,
    MessageRead,
    MessageReceived,
    Trimmed,
)
from labkit.system.trace.events import Event


class Message(NamedTuple):
    """A message's name, which no other one has."""

    topic: str
    producer: str
    sequence_id: int

    def __str__(self) -> str:
        return f"message {self.sequence_id} of {self.producer}"


def message_of(event: Event) -> Message:
    """The message that a `message.acked` or `message.found` is about."""
    topic, producer, sequence_id = event.note.rsplit(" ", 2)
    return Message(topic, producer, int(sequence_id))


def message_in(answer: MessageGiven | MessageRead | MessageReceived | MessageDelivered) -> Message:
    """The message that a caller gave or got."""
    return Message(*answer.message[:3])


class _MessageCheck(Check):
    """The receipts that producers got, and where each message was found, in order."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.acked: dict[Message, Event] = {}
        self.found: defaultdict[Message, list[Event]] = defaultdict(list)
        self.read: dict[str, Event] = {}
        self._is_over = False
        self.deduplicated: dict[str, None] = {}
        """Topics of which a broker refuses messages that it has."""

    @on("deduplication.rebuilt")
    def begins_to_deduplicate(self, event: Event) -> None:
        """Note that the topic is deduplicated."""
        self.deduplicated[event.note] = None

    @on("epilogue.started")
    def over(self, _: Event) -> None:
        """Ignore later receipts: their messages may be stored after the topic was read."""
        self._is_over = True

    @on("message.acked")
    def message_acked(self, event: Event) -> None:
        """Note the producer's receipt."""
        if not self._is_over:
            self.acked.setdefault(message_of(event), event)

    @on("message.found")
    def message_found(self, event: Event) -> None:
        """Note where the reader found the message."""
        self.found[message_of(event)].append(event)

    @on("topic.read")
    def topic_read(self, event: Event) -> None:
        """Note that the reader has read the whole topic."""
        self.read[event.note] = event

    def acked_and_read(self) -> list[tuple[Message, Event]]:
        """The messages with a receipt whose topics were read, except those that went with their
        ledgers; those that are not known leave a doubt.
        """
        trimmed, known = self.trimmed(), []
        for message, event in self.acked.items():
            gone = trimmed[message.topic]
            if message.topic not in self.read:
                self.doubt(f"{message.topic} was not read after {message} had got its receipt")
            elif event.ledger < 0 and gone and message not in self.found:
                self.doubt(f"a receipt names no place of {message}, which may be trimmed")
            elif event.ledger not in gone:
                known.append((message, event))
        return known

    def trimmed(self) -> defaultdict[str, set[int]]:
        """By topic the ledgers that it has given up, since all subscriptions had passed them."""
        found: defaultdict[str, set[int]] = defaultdict(set)
        for answer in self.facts.answers:
            if isinstance(answer, Trimmed):
                found[answer.topic].update(answer.ledgers)
        return found


class AcknowledgedMessagesAreKept(_MessageCheck):
    """A message whose producer has its receipt is in the topic, whichever broker serves it."""

    def finish(self) -> None:
        """Look for each message that has a receipt."""
        for message, event in self.acked_and_read():
            self.judged += 1
            if message not in self.found:
                self.broke(
                    event,
                    f"{message} got its receipt, and was not found when {message.topic} was read",
                    self.read[message.topic],
                )


class MessagesAreStoredOnce(_MessageCheck):
    """With deduplication a message is in its topic once, however often its producer sent it."""

    def finish(self) -> None:
        """Look for messages that were found twice."""
        for message, (first, *others) in self.found.items():
            if message.topic not in self.deduplicated:
                continue
            self.judged += 1
            for again in others:
                self.broke(
                    again,
                    f"{message} is stored as {again.ledger}:{again.entry}, and was stored as"
                    f" {first.ledger}:{first.entry} before",
                    first,
                )


class ProducersOrderIsKept(_MessageCheck):
    """The messages of a producer are in the topic in the order of their sequence ids; a message
    that comes again does not count.
    """

    def finish(self) -> None:
        """Compare the place of each message with those before it."""
        last: dict[tuple[str, str], tuple[Message, Event]] = {}
        for message, (event, *_) in self.found.items():
            self.judged += 1
            key = message.topic, message.producer
            before, its_event = last.get(key, (message, event))
            if message.sequence_id < before.sequence_id:
                self._out_of_order(message, event, before, its_event)
            last[key] = message, event

    def _out_of_order(
        self, message: Message, event: Event, before: Message, its_event: Event
    ) -> None:
        if self.trimmed()[message.topic] and message.topic not in self.deduplicated:
            self.doubt(f"{message} may have come again, and may be trimmed where it came first")
        else:
            self.broke(
                event,
                f"{message} is stored as {event.ledger}:{event.entry}, after message"
                f" {before.sequence_id} as {its_event.ledger}:{its_event.entry}",
                its_event,
            )


class MessagesKeepTheirContent(Check):
    """Each message is in its topic with the payload that its producer was given, and consumers get
    it from there with that payload.

    Judged by what the simulated clients and the reader at the end note beside the events.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._given: dict[Message, MessageGiven] = {}
        self._stored: defaultdict[tuple[int, int], set[Message]] = defaultdict(set)

    def finish(self) -> None:
        """Compare each message that was read or delivered with the one that was given."""
        for answer in self.facts.answers:
            if isinstance(answer, MessageGiven):
                self._given.setdefault(message_in(answer), answer)
            elif isinstance(answer, MessageRead):
                self._stored[answer.ledger, answer.entry].add(message_in(answer))
                self._judge(answer, "is stored")
        for answer in self.facts.answers:
            if isinstance(answer, MessageReceived | MessageDelivered):
                self._judge(answer, "was delivered")
                self._judge_place(answer)

    def _judge(self, got: MessageRead | MessageReceived | MessageDelivered, how: str) -> None:
        self.judged += 1
        message = message_in(got)
        given = self._given.get(message)
        where = f"{message} {how} as {got.ledger}:{got.entry}"
        if given is None:
            self.broke(self.facts.before(got), f"{where}, and no producer was given it")
        elif given.message != got.message:
            self.broke(
                self.facts.before(got), f"{where} with another payload than its producer was given"
            )

    def _judge_place(self, got: MessageReceived | MessageDelivered) -> None:
        message, stored = message_in(got), self._stored[got.ledger, got.entry]
        if stored and message not in stored:
            self.broke(
                self.facts.before(got),
                f"{message} was delivered as {got.ledger}:{got.entry}, and there"
                f" {' and '.join(map(str, sorted(stored)))} is stored",
            )


class ReceiptsNameTheirMessages(_MessageCheck):
    """The MessageID in a receipt is where the message is; a duplicate's names no place."""

    def finish(self) -> None:
        """Compare each message's place with its receipt."""
        for message, event in self.acked_and_read():
            places = [(each.ledger, each.entry) for each in self.found.get(message, ())]
            if event.ledger < 0 or not places:
                continue
            self.judged += 1
            if (event.ledger, event.entry) not in places:
                self.broke(
                    event,
                    f"{message} got the receipt {event.ledger}:{event.entry}, and is stored as"
                    f" {places[0][0]}:{places[0][1]}",
                    self.found[message][0],
                )


class OneOwnerStores(Check):
    """Once a broker serves a topic, nothing is stored any more that another broker pushes.

    Entries that the previous broker had pushed by then may be stored, and it may hear of that
    late.  A broker that stood still meanwhile may say late that it serves the topic: one whose
    ledger is older than another broker's is not taken for the owner.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._owners: dict[str, Event] = {}
        self._begun: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """By topic and broker: the newest ledger that the broker has begun."""
        self._pushed: dict[tuple[str, int, int], Event] = {}

    @on("ledger.rolled")
    def rolled(self, event: Event) -> None:
        """Note whose ledger is the topic's newest."""
        topic, _, _ = event.note.partition(": ")
        self._begun[topic][event.node] = event.ledger

    @on("topic.opened")
    def opened(self, event: Event) -> None:
        """Note the topic's new owner."""
        begun = self._begun[event.note]
        if begun.get(event.node, -1) == max(begun.values(), default=-1):
            self._owners[event.note] = event

    @on("add.pushed")
    def pushed(self, event: Event) -> None:
        """Note the entries that an owner's writer pushes."""
        if self._owners:
            self._pushed.setdefault((event.node, event.ledger, event.entry), event)

    @on("batch.stored")
    def stored(self, event: Event) -> None:
        """Judge whether the entry is the owner's, or older than its ownership."""
        owner = self._owners.get(event.note)
        if owner is None:
            return
        self.judged += 1
        pushed = self._pushed.get((event.node, event.ledger, event.entry))
        if event.node != owner.node and pushed is not None and pushed.seq > owner.seq:
            self.broke(
                event,
                f"{event.node} stored a batch as {event.ledger}:{event.entry} that it pushed after"
                f" {owner.node} had begun to serve {event.note}",
                pushed,
                owner,
            )
