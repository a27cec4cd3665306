"""The story of a topic that brokers serve: two brokers, a producer p, and the reader at the end."""

from zlib import crc32

from labkit.system.check import EPILOGUE
from labkit.system.trace.answers import (
    AllAcknowledged,
    EntryAcknowledged,
    MessageContent,
    MessageDelivered,
    MessageGiven,
    MessageRead,
    MessageReceived,
    StartedOver,
    TopicUnloaded,
    Trimmed,
)
from tests.system.check.story import Story

TOPIC = "persistent://public/default/t"
M, N, P = "broker0", "broker1", "p"


class Topic(Story):
    """A topic with deduplication, served by broker0; its ledgers go by numbers."""

    def __init__(self, *, deduplicated: bool = True) -> None:
        super().__init__(whole=False)
        if deduplicated:
            self.tell(M, "deduplication.rebuilt", ledger=-1, size=0, note=TOPIC)
        self.serve(M)

    def serve(self, broker: str) -> "Topic":
        self.tell(broker, "topic.opened", ledger=-1, note=TOPIC)
        return self

    def stop(self) -> "Topic":
        """The first broker closes the topic."""
        self.tell(M, "topic.closed", ledger=-1, note=TOPIC)
        return self

    def die(self) -> "Topic":
        """The first broker's process ends."""
        self.tell(M, "node.killed", ledger=-1)
        return self

    def unload(self, broker: str = M) -> "Topic":
        """The broker says that it has unloaded the topic."""
        self.answers.append(TopicUnloaded(len(self.rows), broker, TOPIC))
        return self

    def roll(self, broker: str, ledger: int) -> "Topic":
        """The broker begins a ledger."""
        self.tell(broker, "ledger.rolled", ledger=ledger, note=f"{TOPIC}: opened")
        return self

    def ack(self, *receipts: tuple[int, int, int]) -> "Topic":  # type: ignore[override]
        """Sequence id, ledger, entry."""
        for number, ledger, entry in receipts:
            self.tell(P, "message.acked", entry, ledger=ledger, note=f"{TOPIC} p {number}")
        return self

    def find(self, *messages: tuple[int, int, int], whole: bool = True) -> "Topic":
        self.tell(EPILOGUE, "epilogue.started", ledger=-1)
        for number, ledger, entry in messages:
            self.tell(EPILOGUE, "message.found", entry, ledger=ledger, note=f"{TOPIC} p {number}")
        if whole:
            self.tell(EPILOGUE, "topic.read", ledger=-1, size=len(messages), note=TOPIC)
        return self

    def keeps(self, payload: str, given: str = "") -> "Topic":
        """Message 0 is given to its producer, and read in the end with this payload."""
        if given:
            self.answers.append(MessageGiven(len(self.rows), content_of(given)))
        self.find(KEPT[0])
        self.answers.append(MessageRead(len(self.rows) - 1, content_of(payload), 7, 0))
        return self

    def deliver(
        self,
        *messages: tuple[int, int, int],
        broker: str = M,
        to: str = "c",
        in_order: bool = True,
        durable: bool = True,
        key: str = "",
        connection: int = 1,
        waited: int = 0,
    ) -> "Topic":
        """Messages, by their numbers, from these places; they came that many answers before."""
        for number, ledger, entry in messages:
            content = content_of("one", number)
            who, came = (to, broker, "s", in_order, durable), len(self.answers) - waited
            line = key, connection
            got = MessageDelivered(len(self.rows), came, *who, *line, content, ledger, entry, 0)
            self.answers.append(got)
        return self

    def receive(self, *messages: tuple[int, int, int]) -> "Topic":
        """A consumer in the owner's process gets messages, by their numbers, from these places."""
        for number, ledger, entry in messages:
            content = content_of("one", number)
            got = MessageReceived(len(self.rows), P, 0, content, ledger, entry)
            self.answers.append(got)
        return self

    def store(self, *messages: tuple[int, int, int]) -> "Topic":  # type: ignore[override]
        """The reader at the end gets these."""
        for number, ledger, entry in messages:
            content = content_of("one", number)
            self.answers.append(MessageRead(len(self.rows), content, ledger, entry))
        return self

    def accept(
        self, ledger: int, entry: int, broker: str = M, *, batch_index: int = -1, age: int = 0
    ) -> "Topic":
        """The broker takes the acknowledgement of the entry, or of a message of its batch.  `age`:
        how many events ago it was sent.
        """
        where, at = (ledger, entry, batch_index), len(self.rows)
        self.answers.append(EntryAcknowledged(at, at - age, "c", broker, TOPIC, "s", *where))
        return self

    def trim(self, *ledgers: int) -> "Topic":
        """The topic's chain is stored without these ledgers."""
        self.answers.append(Trimmed(len(self.rows), TOPIC, ledgers))
        return self

    def start_over(self, *, is_done: bool) -> "Topic":
        """The consumer asks for the first message, or hears that it will get it."""
        self.answers.append(StartedOver(len(self.rows), TOPIC, "s", is_done))
        return self

    def pass_over(self, ledger: int, entry: int, broker: str = M) -> "Topic":
        """The broker says that the subscription has acknowledged all up to the entry."""
        at = len(self.rows)
        self.answers.append(AllAcknowledged(at, at, broker, TOPIC, "s", ledger, entry))
        return self

    def put_in(self, entry: int, broker: str) -> "Topic":
        self.push(entry, broker).tell(broker, "batch.stored", entry, note=TOPIC)
        return self


def content_of(payload: str, number: int = 0) -> MessageContent:
    return MessageContent(TOPIC, P, number, len(payload), f"{crc32(payload.encode()):08x}")


KEPT = (0, 7, 0), (1, 7, 1), (2, 8, 0)
