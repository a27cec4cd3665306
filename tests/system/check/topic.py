"""The story of a topic, with two brokers that serve it, a producer p, and a reader at the end."""

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
    """A topic with deduplication, served by broker0, whose ledgers are identified by number."""

    def __init__(self, *, deduplicated: bool = True) -> None:
        super().__init__(whole=False)
        if deduplicated:
            self.tell(M, "deduplication.rebuilt", ledger=-1, size=0, topic=TOPIC)
        self.serve(M)

    def serve(self, broker: str) -> None:
        self.tell(broker, "topic.opened", ledger=-1, topic=TOPIC)

    def stop(self) -> None:
        """Close the topic on the first broker."""
        self.tell(M, "topic.closed", ledger=-1, topic=TOPIC)

    def die(self) -> None:
        """Kill the first broker."""
        self.tell(M, "node.killed", ledger=-1)

    def unload(self, broker: str = M) -> None:
        """Report that the broker has unloaded the topic."""
        self.answers.append(TopicUnloaded(len(self.rows), broker, TOPIC))

    def roll(self, broker: str, ledger: int) -> None:
        """Open a new ledger on the broker."""
        self.tell(broker, "ledger.rolled", ledger=ledger, topic=TOPIC, detail="opened")

    def receipts(self, *receipts: tuple[int, int, int]) -> None:
        """Acknowledge messages to the producer; a receipt is a sequence id, a ledger and
        an entry.
        """
        for number, ledger, entry in receipts:
            self.tell(
                P,
                "message.acked",
                entry,
                ledger=ledger,
                topic=TOPIC,
                producer="p",
                sequence_id=number,
            )

    def find(self, *messages: tuple[int, int, int], whole: bool = True) -> None:
        self.tell(EPILOGUE, "epilogue.started", ledger=-1)
        for number, ledger, entry in messages:
            self.tell(
                EPILOGUE,
                "message.found",
                entry,
                ledger=ledger,
                topic=TOPIC,
                producer="p",
                sequence_id=number,
            )
        if whole:
            self.tell(EPILOGUE, "topic.read", ledger=-1, size=len(messages), topic=TOPIC)

    def keeps(self, payload: str, given: str = "") -> None:
        """Read message 0 with this payload at the end; if `given`, the producer sent that
        payload.
        """
        if given:
            self.answers.append(MessageGiven(len(self.rows), content_of(given)))
        self.find(KEPT[0])
        self.answers.append(MessageRead(len(self.rows) - 1, content_of(payload), 7, 0))

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
    ) -> None:
        """Deliver messages that arrived `waited` results ago, given as (number, ledger, entry)."""
        for number, ledger, entry in messages:
            content = content_of("one", number)
            who, came = (to, broker, "s", in_order, durable), len(self.answers) - waited
            line = key, connection
            got = MessageDelivered(len(self.rows), came, *who, *line, content, ledger, entry, 0)
            self.answers.append(got)

    def receive(self, *messages: tuple[int, int, int]) -> None:
        """Let a consumer in the owner's process receive messages, given as (number, ledger,
        entry).
        """
        for number, ledger, entry in messages:
            content = content_of("one", number)
            got = MessageReceived(len(self.rows), P, 0, content, ledger, entry)
            self.answers.append(got)

    def read_back(self, *messages: tuple[int, int, int]) -> None:
        """Let the final reader read these messages, given as (number, ledger, entry)."""
        for number, ledger, entry in messages:
            content = content_of("one", number)
            self.answers.append(MessageRead(len(self.rows), content, ledger, entry))

    def accept(
        self, ledger: int, entry: int, broker: str = M, *, batch_index: int = -1, age: int = 0
    ) -> None:
        """Accept an acknowledgement of the entry, or of one message of its batch. The
        acknowledgement was sent `age` events ago.
        """
        where, at = (ledger, entry, batch_index), len(self.rows)
        self.answers.append(EntryAcknowledged(at, at - age, "c", broker, TOPIC, "s", *where))

    def trim(self, *ledgers: int) -> None:
        """Trim these ledgers from the topic's chain."""
        self.answers.append(Trimmed(len(self.rows), TOPIC, ledgers))

    def start_over(self, *, is_done: bool) -> None:
        """Seek to the first message, or report that the seek is done."""
        self.answers.append(StartedOver(len(self.rows), TOPIC, "s", is_done))

    def pass_over(self, ledger: int, entry: int, broker: str = M) -> None:
        """Report that the subscription has acknowledged everything up to the entry."""
        at = len(self.rows)
        self.answers.append(AllAcknowledged(at, at, broker, TOPIC, "s", ledger, entry))

    def put_in(self, entry: int, broker: str) -> None:
        self.push(entry, broker).tell(broker, "batch.stored", entry, topic=TOPIC)


def content_of(payload: str, number: int = 0) -> MessageContent:
    return MessageContent(TOPIC, P, number, len(payload), f"{crc32(payload.encode()):08x}")


KEPT = (0, 7, 0), (1, 7, 1), (2, 8, 0)
