"""The same for topics that brokers serve: two brokers, a producer p, and the reader at the end."""

from zlib import crc32

from labkit.check import EPILOGUE
from labkit.check.chain import MessageIdsGrow
from labkit.check.deliveries import (
    AcknowledgedIsNotDeliveredAgain,
    DeliveriesKeepTheOrder,
    NoMessageIsSkipped,
)
from labkit.check.messages import (
    AcknowledgedMessagesAreKept,
    MessagesAreStoredOnce,
    MessagesKeepTheirContent,
    OneOwnerStores,
    ProducersOrderIsKept,
    ReceiptsNameTheirMessages,
)
from labkit.trace.answers import (
    AllAcknowledged,
    EntryAcknowledged,
    MessageContent,
    MessageDelivered,
    MessageGiven,
    MessageRead,
    StartedOver,
    Trimmed,
)
from tests.check.cases import Case
from tests.check.story import Story

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
        self, *messages: tuple[int, int, int], broker: str = M, to: str = "c", in_order: bool = True
    ) -> "Topic":
        """Messages, by their numbers, from these places."""
        for number, ledger, entry in messages:
            content = content_of("one", number)
            got = MessageDelivered(
                len(self.rows), to, broker, "s", in_order, content, ledger, entry, 0
            )
            self.answers.append(got)
        return self

    def accept(self, ledger: int, entry: int, broker: str = M, *, batch_index: int = -1) -> "Topic":
        """The broker takes the acknowledgement of the entry, or of a message of its batch."""
        where, at = (ledger, entry, batch_index), len(self.rows)
        self.answers.append(EntryAcknowledged(at, at, "c", broker, TOPIC, "s", *where))
        return self

    def trim(self, *ledgers: int) -> "Topic":
        """The topic's chain is stored without these ledgers."""
        self.answers.append(Trimmed(len(self.rows), TOPIC, ledgers))
        return self

    def start_over(self, *, is_done: bool) -> "Topic":
        """The consumer asks for the first message, or hears that it will get it."""
        self.answers.append(StartedOver(len(self.rows), TOPIC, "s", is_done))
        return self

    def pass_over(self, ledger: int, entry: int) -> "Topic":
        """The subscription has acknowledged all up to the entry."""
        at = len(self.rows)
        self.answers.append(AllAcknowledged(at, at, TOPIC, "s", ledger, entry))
        return self

    def put_in(self, entry: int, broker: str) -> "Topic":
        self.push(entry, broker).tell(broker, "batch.stored", entry, note=TOPIC)
        return self


def content_of(payload: str, number: int = 0) -> MessageContent:
    return MessageContent(TOPIC, P, number, len(payload), f"{crc32(payload.encode()):08x}")


KEPT = (0, 7, 0), (1, 7, 1), (2, 8, 0)

MESSAGE_CASES = [
    Case(
        AcknowledgedMessagesAreKept,
        Topic().ack(*KEPT).trim(7).find(KEPT[2]),
        Topic().ack(*KEPT).trim(7).find(),
        ("message.acked", 0),
        ("topic.read",),
        ("message 2 of p", TOPIC),
        # A receipt of a message that came again names no ledger.
        Topic().ack((0, -1, -1)).trim(7).find(),
    ),
    Case(
        AcknowledgedMessagesAreKept,
        Topic().ack(*KEPT).find(*KEPT),
        Topic().ack(*KEPT).find(*KEPT[:2]),
        ("message.acked", 0),
        ("topic.read",),
        ("message 2 of p", TOPIC),
        Topic().ack(*KEPT).find(*KEPT[:1], whole=False),
    ),
    Case(
        AcknowledgedMessagesAreKept,
        Topic().ack((0, -1, -1)).find(KEPT[0]),
        Topic().ack((0, -1, -1)).find(),
        ("message.acked", -1),
        ("topic.read",),
        ("message 0 of p",),
        # Who gets a receipt while the topic is read may have come too late for the reader.
        Topic().find().ack((5, 9, 0)),
    ),
    Case(
        MessagesAreStoredOnce,
        Topic().find(*KEPT),
        Topic().find(*KEPT, (1, 8, 1)),
        ("message.found", 1),
        ("message.found",),
        ("message 1 of p", "8:1", "7:1"),
        Topic(deduplicated=False).find(*KEPT, (1, 8, 1)),
    ),
    Case(
        ProducersOrderIsKept,
        Topic().find(*KEPT, (1, 8, 1), (3, 8, 2)),
        Topic().find((0, 7, 0), (2, 7, 1), (1, 8, 0)),
        ("message.found", 0),
        ("message.found",),
        ("message 1 of p", "8:0", "message 2", "7:1"),
        Topic().ack(*KEPT),
    ),
    Case(
        ProducersOrderIsKept,
        Topic().trim(6).find(*KEPT),
        Topic().trim(6).find((2, 7, 0), (1, 7, 1)),
        ("message.found", 1),
        ("message.found",),
        ("message 1 of p", "7:1", "message 2", "7:0"),
        # It may have come first in the ledger that is gone.
        Topic(deduplicated=False).trim(6).find((2, 7, 0), (1, 7, 1)),
    ),
    Case(
        ReceiptsNameTheirMessages,
        Topic().ack(*KEPT).find(*KEPT),
        Topic().ack((0, 7, 1)).find(*KEPT),
        ("message.acked", 1),
        ("message.found",),
        ("message 0 of p", "7:1", "7:0"),
        Topic().ack((0, -1, -1)).find(*KEPT),
    ),
    Case(
        MessagesKeepTheirContent,
        Topic().keeps("one", given="one"),
        Topic().keeps("two", given="one"),
        ("message.found", 0),
        (),
        ("message 0 of p", "7:0", "another payload"),
        Topic().find(*KEPT),
    ),
    Case(
        MessagesKeepTheirContent,
        Topic().keeps("one", given="one"),
        Topic().keeps("one"),
        ("message.found", 0),
        (),
        ("message 0 of p", "no producer"),
        Topic().find(*KEPT),
    ),
    Case(
        MessagesKeepTheirContent,
        Topic().keeps("one", given="one").deliver(KEPT[0]),
        Topic().keeps("one", given="one").deliver((1, 7, 0)),
        ("topic.read", -1),
        (),
        ("message 1 of p was delivered as 7:0", "no producer"),
        Topic().find(*KEPT),
    ),
    Case(
        DeliveriesKeepTheOrder,
        Topic().deliver(*KEPT[:2], *KEPT),
        Topic().deliver(KEPT[1], KEPT[0]),
        ("topic.opened", -1),
        (),
        ("message 0 of p", "to c", "7:0, after message 1 of p", "7:1"),
        Topic().deliver(KEPT[1], KEPT[0], in_order=False),
    ),
    Case(
        NoMessageIsSkipped,
        Topic().deliver(*KEPT).pass_over(8, 0).find(*KEPT),
        Topic().deliver(KEPT[0], KEPT[2]).pass_over(8, 0).find(*KEPT),
        ("message.found", 1),
        (),
        ("message 1 of p", "7:1", "to s", "8:0"),
        Topic().deliver(KEPT[0]).pass_over(7, -1).find(*KEPT),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        Topic().deliver(KEPT[0]).accept(7, 0).serve(N).deliver(KEPT[0], broker=N),  # type: ignore[attr-defined]
        Topic().deliver(KEPT[0]).accept(7, 0).deliver(KEPT[0]),
        ("topic.opened", -1),
        (),
        (M, "message 0 of p", "to c again", "7:0"),
        Topic().accept(7, 0),
    ),
    Case(
        NoMessageIsSkipped,
        Topic().ack(*KEPT).deliver(*KEPT[:2]).trim(7).find(KEPT[2]),
        Topic().ack(*KEPT).deliver(KEPT[0]).trim(7).find(KEPT[2]),
        ("message.acked", 1),
        (),
        ("message 1 of p", "7:1", "trimmed with its ledger", "to s"),
        # The subscription began behind it.
        Topic().ack(*KEPT).deliver(KEPT[2]).trim(7).find(KEPT[2]),
    ),
    Case(
        NoMessageIsSkipped,
        # Another consumer hears of the end of its deliveries before this one of the start.
        Topic()
        .start_over(is_done=False)
        .deliver(*KEPT)
        .start_over(is_done=True)
        .ack(KEPT[0])
        .pass_over(8, 0)
        .find(*KEPT),
        Topic()
        .deliver(*KEPT)
        .start_over(is_done=False)
        .start_over(is_done=True)
        .ack(KEPT[0])
        .pass_over(8, 0)
        .find(*KEPT),
        ("message.found", 0),
        (),
        ("message 0 of p", "7:0", "to s", "8:0"),
        # The broker was asked before, and spoke of what was acknowledged then.
        Topic()
        .deliver(*KEPT)
        .start_over(is_done=False)
        .start_over(is_done=True)
        .pass_over(8, 0)
        .find(*KEPT),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        Topic().accept(7, 0).start_over(is_done=False).accept(7, 1).deliver(*KEPT[:2]),
        Topic()
        .start_over(is_done=False)
        .start_over(is_done=True)
        .ack(KEPT[0])
        .accept(7, 0)
        .deliver(KEPT[0]),
        ("message.acked", 0),
        (),
        (M, "message 0 of p", "to c again", "7:0"),
        Topic().accept(7, 0).start_over(is_done=False).start_over(is_done=True),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        # It was sent before the subscription started over, and its answer came late.
        Topic().start_over(is_done=False).start_over(is_done=True).accept(7, 0).deliver(KEPT[0]),
        Topic().accept(7, 0).deliver(KEPT[0]),
        ("topic.opened", -1),
        (),
        (M, "message 0 of p", "to c again", "7:0"),
        Topic().accept(7, 0),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        Topic().accept(7, 0, batch_index=1).deliver(KEPT[0]),
        Topic().accept(7, 0, batch_index=0).deliver(KEPT[0]),
        ("topic.opened", -1),
        (),
        (M, "message 0 of p", "to c again", "7:0"),
        Topic().accept(7, 0, batch_index=0),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        # It was served by another one in between, and what the cursor had was not stored yet.
        Topic().deliver(KEPT[0]).accept(7, 0).serve(M).deliver(KEPT[0]),
        Topic().deliver(KEPT[0]).accept(7, 0).serve(N).deliver(KEPT[0]),
        ("topic.opened", -1),
        (),
        (M, "message 0 of p", "to c again", "7:0"),
        Topic().accept(7, 0),
    ),
    Case(
        OneOwnerStores,
        Topic().put_in(0, M).push(1, M).serve(N).tell(M, "batch.stored", 1, note=TOPIC),  # type: ignore[attr-defined]
        Topic().put_in(0, M).serve(N).put_in(1, M),
        ("batch.stored", 1),
        ("add.pushed", "topic.opened"),
        (M, N, "7:1", TOPIC),
        Topic(),
    ),
    Case(
        OneOwnerStores,
        # The first owner stood still, and says late that it serves the topic.
        Topic().roll(M, 7).roll(N, 8).serve(N).serve(M).put_in(1, N),
        Topic().roll(M, 7).serve(M).roll(N, 8).serve(N).put_in(1, M),
        ("batch.stored", 1),
        ("add.pushed", "topic.opened"),
        (M, N, "7:1", TOPIC),
        Topic(),
    ),
    Case(
        MessageIdsGrow,
        Topic().ack((0, 7, 0), (1, 7, 0), (2, -1, -1), (3, 8, 0)),
        Topic().ack((0, 8, 0), (1, 7, 5)),
        ("message.acked", 5),
        ("message.acked",),
        ("p got the receipt 7:5", "8:0"),
        Topic().ack((0, -1, -1)),
    ),
]
