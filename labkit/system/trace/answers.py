"""Records of the values that the calls of a simulated workload returned, kept with the run's
events.

Events are reported by the system, whereas answers are the values that its callers received. `at` is
the number of events that had been recorded when the call returned, so events whose `seq` is less
than `at` happened before the return.
"""

from typing import NamedTuple, TypeAlias


class Content(NamedTuple):
    """An entry's id, and the size in bytes and checksum of its payload."""

    entry: int
    size: int
    checksum: str


class AddReturned(NamedTuple):
    """An add returned the entry id in `content`, whose other fields describe what was added."""

    at: int
    node: str
    ledger: int
    content: Content


class EntriesRead(NamedTuple):
    """A read of entries `first` to `last` returned `contents`."""

    at: int
    node: str
    ledger: int
    first: int
    last: int
    contents: tuple[Content, ...]


class MessageContent(NamedTuple):
    """A message; `size` (in bytes) and `checksum` describe its payload."""

    topic: str
    producer: str
    sequence_id: int
    size: int
    checksum: str


class MessageGiven(NamedTuple):
    """A caller passed this message to its producer."""

    at: int
    message: MessageContent


class MessageRead(NamedTuple):
    """At the end of the run, the reader that checks the topic read this message from this entry."""

    at: int
    message: MessageContent
    ledger: int
    entry: int


class MessageReceived(NamedTuple):
    """A consumer in the process that owns the topic received this message from this entry.

    `since` is the number of events that were recorded before the consumer started.
    """

    at: int
    consumer: str
    since: int
    message: MessageContent
    ledger: int
    entry: int


class MessageDelivered(NamedTuple):
    """A consumer of the subscription received this message, from this entry, through `broker`.

    came: the number of answers that were recorded before the message reached the consumer.
    in_order: whether the subscription type guarantees the order of the topic.
    key: the message's key, if the subscription type guarantees the order of each key's messages.
    connection: the number of the consumer's connection.
    """

    at: int
    came: int
    consumer: str
    broker: str
    subscription: str
    in_order: bool
    durable: bool
    key: str
    connection: int
    message: MessageContent
    ledger: int
    entry: int
    batch_index: int

    @property
    def position(self) -> tuple[int, int, int]:
        """The position of the message in its topic: ledger, entry and batch index."""
        return self.ledger, self.entry, self.batch_index


class EntryAcknowledged(NamedTuple):
    """A broker informed a consumer that it had accepted the acknowledgement of the message at
    `batch_index` in this entry, or of the whole entry if `batch_index` is -1.

    `asked` is the number of events that were recorded before the consumer sent the acknowledgement.
    """

    at: int
    asked: int
    consumer: str
    broker: str
    topic: str
    subscription: str
    ledger: int
    entry: int
    batch_index: int


class StartedOver(NamedTuple):
    """A client requested that the subscription be reset to its first message. `is_done` is true
    once the reset is complete.
    """

    at: int
    topic: str
    subscription: str
    is_done: bool


class AllAcknowledged(NamedTuple):
    """A broker reported that all messages up to this entry have been acknowledged in the
    subscription.

    `asked` is the number of events that were recorded before the request.
    """

    at: int
    asked: int
    broker: str
    topic: str
    subscription: str
    ledger: int
    entry: int


class Trimmed(NamedTuple):
    """These ledgers, the first ones of a topic, were removed from the topic's list of ledgers."""

    at: int
    topic: str
    ledgers: tuple[int, ...]


class TopicUnloaded(NamedTuple):
    """A broker informed an administrator that the topic had been unloaded."""

    at: int
    broker: str
    topic: str


class StepOutlastedRun(NamedTuple):
    """A client was still working on this step at the end of the run.

    has_ended: whether the step ended within `waited_s` seconds after all faults had been repaired.
    """

    at: int
    node: str
    step: str
    waited_s: float
    has_ended: bool


class MarksFound(NamedTuple):
    """The ledgers that were still marked as under-replicated `waited_s` seconds after all faults
    had been repaired.
    """

    at: int
    waited_s: float
    ledgers: tuple[int, ...]


Answer: TypeAlias = (
    AddReturned
    | EntriesRead
    | MessageGiven
    | MessageRead
    | MessageReceived
    | MessageDelivered
    | EntryAcknowledged
    | StartedOver
    | AllAcknowledged
    | Trimmed
    | TopicUnloaded
    | StepOutlastedRun
    | MarksFound
)
