"""The same for the messages of topics that brokers serve."""

from labkit.system.check.messages import (
    AcknowledgedMessagesAreKept,
    MessagesAreStoredOnce,
    MessagesKeepTheirContent,
    OneOwnerStores,
    ProducersOrderIsKept,
    ReceiptsNameTheirMessages,
)
from labkit.system.check.promises.chain import MessageIdsGrow
from tests.system.check.cases import Case
from tests.system.check.topic import KEPT, TOPIC, M, N, Topic

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
        MessagesKeepTheirContent,
        Topic().keeps("one", given="one").receive(KEPT[0]),
        Topic().keeps("one", given="one").receive((1, 7, 0)),
        ("topic.read", -1),
        (),
        ("message 1 of p was delivered as 7:0", "no producer"),
        Topic().find(*KEPT),
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
