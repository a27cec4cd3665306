"""Promises that a topic makes to its producers, and promises about the owners of the topic.

The epilogue reads the topic, and reports each stored message as `message.found`.

In Pulsar: `PersistentTopic.java`, `MessageDeduplication.java`; Pulsar has no such checks.
"""

from collections import defaultdict
from typing import NamedTuple

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check
from labkit.system.trace.answers import (
    MessageDelivered,
    MessageGiven,
    MessageRead,
    MessageReceived,
    Trimmed,
)
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on


class Message(NamedTuple):
    topic: str
    producer: str
    sequence_id: int

    def __str__(self) -> str:
        return f"message {self.sequence_id} of {self.producer}"


def message_of(event: Event) -> Message:
    return Message(event.topic, event.producer, event.sequence_id)


def message_in(answer: MessageGiven | MessageRead | MessageReceived | MessageDelivered) -> Message:
    content = answer.message
    return Message(content.topic, content.producer, content.sequence_id)


class _MessageCheck(Check):
    """Collects the producers' receipts and the positions of each stored message, in order."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.acked: dict[Message, Event] = {}
        self.found: defaultdict[Message, list[Event]] = defaultdict(list)
        self.read: dict[str, Event] = {}
        self._is_over = False
        self.deduplicated: set[str] = set()
        """Topics whose broker rejects duplicates."""

    @on("deduplication.rebuilt")
    def begins_to_deduplicate(self, event: Event) -> None:
        self.deduplicated.add(event.topic)

    @on("epilogue.started")
    def over(self, _: Event) -> None:
        # If a receipt arrives later, the message may have been stored after the topic was read.
        self._is_over = True

    @on("message.acked")
    def message_acked(self, event: Event) -> None:
        if not self._is_over:
            self.acked.setdefault(message_of(event), event)

    @on("message.found")
    def message_found(self, event: Event) -> None:
        self.found[message_of(event)].append(event)

    @on("topic.read")
    def topic_read(self, event: Event) -> None:
        self.read[event.topic] = event

    def acked_and_read(self) -> list[tuple[Message, Event]]:
        """Return the messages that have a receipt, except messages in trimmed ledgers. Report
        doubts.
        """
        trimmed, acked = self.trimmed(), []
        for message, event in self.acked.items():
            gone = trimmed[message.topic]
            if message.topic not in self.read:
                self.report_doubt(f"{message.topic} was not read after the receipt for {message}")
            elif event.ledger < 0 and gone and message not in self.found:
                self.report_doubt(
                    f"The receipt for {message}, which may be trimmed, has no MessageID"
                )
            elif event.ledger not in gone:
                acked.append((message, event))
        return acked

    def trimmed(self) -> defaultdict[str, set[int]]:
        """Return the ledgers that each topic trimmed after all subscriptions had consumed them."""
        found: defaultdict[str, set[int]] = defaultdict(set)
        for answer in self.facts.answers_of(Trimmed):
            found[answer.topic].update(answer.ledgers)
        return found


class AcknowledgedMessagesAreKept(_MessageCheck):
    """If a producer has a receipt for a message, the message is in the topic, no matter which
    broker serves the topic.
    """

    def finish(self) -> None:
        for message, event in self.acked_and_read():
            if message in self.found:
                self.report_kept()
            else:
                self.report_broken(
                    event,
                    f"{message} has a receipt, but was not found when {message.topic} was read",
                    self.read[message.topic],
                )


class MessagesAreStoredOnce(_MessageCheck):
    """With deduplication, a message is stored only once in its topic, no matter how often its
    producer sent it.
    """

    def finish(self) -> None:
        for message, (first, *others) in self.found.items():
            if message.topic not in self.deduplicated:
                continue
            if not others:
                self.report_kept()
            for duplicate in others:
                self.report_broken(
                    duplicate,
                    f"{message} is stored as {duplicate.ledger}:{duplicate.entry}, although it was"
                    f" already stored as {first.ledger}:{first.entry}",
                    first,
                )


class ProducersOrderIsKept(_MessageCheck):
    """The messages of a producer are stored in the topic in the order of their sequence ids, not
    counting duplicates.
    """

    def finish(self) -> None:
        last: dict[tuple[str, str], tuple[Message, Event]] = {}
        for message, (event, *_) in self.found.items():
            key = message.topic, message.producer
            before, previous = last.get(key, (message, event))
            if message.sequence_id >= before.sequence_id:
                self.report_kept()
            else:
                self._out_of_order(message, event, before, previous)
            last[key] = message, event

    def _out_of_order(
        self, message: Message, event: Event, before: Message, previous: Event
    ) -> None:
        if self.trimmed()[message.topic] and message.topic not in self.deduplicated:
            self.report_doubt(f"{message} may be a duplicate whose original was trimmed")
        else:
            self.report_broken(
                event,
                f"{message} is stored as {event.ledger}:{event.entry}, after message"
                f" {before.sequence_id}, which is stored as {previous.ledger}:{previous.entry}",
                previous,
            )


class MessagesKeepTheirContent(Check):
    """Each message is stored with the payload that was given to its producer, and consumers receive
    it with that payload.

    The check uses the answers that the simulated clients and the epilogue record.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._given: dict[Message, MessageGiven] = {}
        self._stored: defaultdict[tuple[int, int], set[Message]] = defaultdict(set)

    def finish(self) -> None:
        for answer in self.facts.answers:
            if isinstance(answer, MessageGiven):
                self._given.setdefault(message_in(answer), answer)
            elif isinstance(answer, MessageRead):
                self._stored[answer.ledger, answer.entry].add(message_in(answer))
                self._judge(answer, "is stored")
        for answer in self.facts.answers:
            if isinstance(answer, MessageReceived | MessageDelivered):
                self._judge(answer, "was delivered")
                self._judge_position(answer)

    def _judge(self, got: MessageRead | MessageReceived | MessageDelivered, how: str) -> None:
        message = message_in(got)
        given = self._given.get(message)
        where = f"{message} {how} as {got.ledger}:{got.entry}"
        if given is None:
            self.report_broken(got, f"{where}, but was not given to any producer")
        elif given.message != got.message:
            self.report_broken(
                got,
                f"{where} with a payload other than the one given to its producer",
            )
        else:
            self.report_kept()

    def _judge_position(self, got: MessageReceived | MessageDelivered) -> None:
        message, stored = message_in(got), self._stored[got.ledger, got.entry]
        if stored and message not in stored:
            self.report_broken(
                got,
                f"{message} was delivered as {got.ledger}:{got.entry}, but that entry contains"
                f" {' and '.join(map(str, sorted(stored)))}",
            )


class ReceiptsNameTheirMessages(_MessageCheck):
    """The MessageID in a receipt identifies the stored message; the receipt for a duplicate
    contains no MessageID.
    """

    def finish(self) -> None:
        for message, event in self.acked_and_read():
            positions = [(each.ledger, each.entry) for each in self.found.get(message, ())]
            if event.ledger < 0 or not positions:
                continue
            if (event.ledger, event.entry) in positions:
                self.report_kept()
            else:
                self.report_broken(
                    event,
                    f"{message} got the receipt {event.ledger}:{event.entry}, but is stored as"
                    f" {positions[0][0]}:{positions[0][1]}",
                    self.found[message][0],
                )


class OneOwnerStores(Check):
    """Once a broker has begun to serve a topic, entries that other brokers push afterwards are not
    stored.

    Entries that the previous broker pushed earlier may still be stored, and that broker may learn
    of this late. A broker that was paused may report that it serves the topic although it no longer
    does. Its report is therefore ignored if another broker has already started a newer ledger.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._owners: dict[str, Event] = {}
        self._begun: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """For each topic and broker, the newest ledger that the broker has started."""
        self._pushed: dict[tuple[str, int, int], Event] = {}

    @on("ledger.rolled")
    def rolled(self, event: Event) -> None:
        self._begun[event.topic][event.node] = event.ledger

    @on("topic.opened")
    def opened(self, event: Event) -> None:
        begun = self._begun[event.topic]
        if begun.get(event.node, -1) == max(begun.values(), default=-1):
            self._owners[event.topic] = event

    @on("add.pushed")
    def pushed(self, event: Event) -> None:
        if self._owners:
            self._pushed.setdefault((event.node, event.ledger, event.entry), event)

    @on("batch.stored")
    def stored(self, event: Event) -> None:
        owner = self._owners.get(event.topic)
        if owner is None:
            return
        pushed = self._pushed.get((event.node, event.ledger, event.entry))
        if event.node == owner.node or pushed is None or pushed.seq < owner.seq:
            self.report_kept()
        else:
            self.report_broken(
                event,
                f"{event.node} stored a batch as {event.ledger}:{event.entry} that it pushed after"
                f" {owner.node} had begun to serve {event.topic}",
                pushed,
                owner,
            )
