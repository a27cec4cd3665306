"""What a simulated workload's calls returned, as values beside the events of its run.

Events say what the system's own code reports; these say what its callers get.  `at` is the number
of events before the answer: an event came first if its `seq` is below it.
"""

from typing import NamedTuple, TypeAlias


class Content(NamedTuple):
    """An entry as a caller has it: its id, its payload's bytes and their checksum."""

    entry: int
    size: int
    checksum: str


class AddAnswered(NamedTuple):
    """An add returned the entry id in `content`; the rest of it is what the caller had given."""

    at: int
    node: str
    ledger: int
    content: Content


class EntriesRead(NamedTuple):
    """A read of entries `first` to `last` returned these."""

    at: int
    node: str
    ledger: int
    first: int
    last: int
    contents: tuple[Content, ...]


class MessageContent(NamedTuple):
    """A message's name in its topic, and its payload's bytes and their checksum."""

    topic: str
    producer: str
    sequence_id: int
    size: int
    checksum: str


class MessageGiven(NamedTuple):
    """A caller gave its producer this message to send."""

    at: int
    message: MessageContent


class MessageRead(NamedTuple):
    """The reader at the end got this message, stored as this entry."""

    at: int
    message: MessageContent
    ledger: int
    entry: int


class MessageReceived(NamedTuple):
    """A consumer in the process that owns the topic got this message, stored as this entry.
    `since`: the number of events before the consumer began.
    """

    at: int
    consumer: str
    since: int
    message: MessageContent
    ledger: int
    entry: int


class MessageDelivered(NamedTuple):
    """A consumer of the subscription got this message from that broker, stored as this entry.
    `came`: the number of answers before it arrived; a busy consumer takes it later.
    `in_order`: the subscription's type promises the order of the topic.  `durable`: it stays when
    its consumer leaves, and the topic keeps what it has not acknowledged.  `key`: the message's key
    if the subscription's type promises the order of each key; `connection`: the number of the
    consumer's connection.
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


class EntryAcknowledged(NamedTuple):
    """A broker has told a consumer of the subscription that it took the acknowledgement of this
    entry, or of the one message of it that `batch_index` names (-1: the whole entry).  `asked`: the
    number of events before it was sent.
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
    """The subscription goes back to the first message of the topic: a consumer has asked for that,
    or it is done.
    """

    at: int
    topic: str
    subscription: str
    is_done: bool


class AllAcknowledged(NamedTuple):
    """A broker has said that the subscription has acknowledged all messages up to this entry.
    `asked`: the number of events before the question.
    """

    at: int
    asked: int
    broker: str
    topic: str
    subscription: str
    ledger: int
    entry: int


class Trimmed(NamedTuple):
    """A topic's chain was stored without these ledgers, which had been its first ones."""

    at: int
    topic: str
    ledgers: tuple[int, ...]


class TopicUnloaded(NamedTuple):
    """A broker has told an administrator that the topic is unloaded."""

    at: int
    broker: str
    topic: str


class StepOutlastedRun(NamedTuple):
    """A step had not ended at the end of the run, and its client lived; `has_ended`: whether it
    ended when it had `waited_s` seconds more, with all faults repaired.
    """

    at: int
    node: str
    step: str
    waited_s: float
    has_ended: bool


class MarksFound(NamedTuple):
    """The ledgers that were still marked as short of copies, `waited_s` seconds after the repair of
    all faults.
    """

    at: int
    waited_s: float
    ledgers: tuple[int, ...]


Answer: TypeAlias = (
    AddAnswered
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
