"""Test cases for the checks that concern the messages of topics served by brokers."""

from labkit.system.check.promises.chain import MessageIdsGrow
from labkit.system.check.promises.messages import (
    AcknowledgedMessagesAreKept,
    MessagesAreStoredOnce,
    MessagesKeepTheirContent,
    OneOwnerStores,
    ProducersOrderIsKept,
    ReceiptsNameTheirMessages,
)
from tests.system.check.cases import Case
from tests.system.check.topic import KEPT, TOPIC, M, N, Topic

MESSAGE_CASES = [
    Case(
        AcknowledgedMessagesAreKept,
        Topic().ack(*KEPT).trim(7).find(KEPT[2]),
        Topic().ack(*KEPT).trim(7).find(),
        # The receipt for a duplicate message contains no MessageID.
        Topic().ack((0, -1, -1)).trim(7).find(),
        ("message 2 of p", TOPIC),
        led=("topic.read",),
        at=("message.acked", 0),
    ),
    Case(
        AcknowledgedMessagesAreKept,
        Topic().ack(*KEPT).find(*KEPT),
        Topic().ack(*KEPT).find(*KEPT[:2]),
        Topic().ack(*KEPT).find(*KEPT[:1], whole=False),
        ("message 2 of p", TOPIC),
        led=("topic.read",),
        at=("message.acked", 0),
    ),
    Case(
        AcknowledgedMessagesAreKept,
        Topic().ack((0, -1, -1)).find(KEPT[0]),
        Topic().ack((0, -1, -1)).find(),
        # A message that is acknowledged during the final read may be too late for the reader to
        # find it.
        Topic().find().ack((5, 9, 0)),
        ("message 0 of p",),
        led=("topic.read",),
        at=("message.acked", -1),
    ),
    Case(
        MessagesAreStoredOnce,
        Topic().find(*KEPT),
        Topic().find(*KEPT, (1, 8, 1)),
        Topic(deduplicated=False).find(*KEPT, (1, 8, 1)),
        ("message 1 of p", "8:1", "7:1"),
        led=("message.found",),
        at=("message.found", 1),
    ),
    Case(
        ProducersOrderIsKept,
        Topic().find(*KEPT, (1, 8, 1), (3, 8, 2)),
        Topic().find((0, 7, 0), (2, 7, 1), (1, 8, 0)),
        Topic().ack(*KEPT),
        ("message 1 of p", "8:0", "message 2", "7:1"),
        led=("message.found",),
        at=("message.found", 0),
    ),
    Case(
        ProducersOrderIsKept,
        Topic().trim(6).find(*KEPT),
        Topic().trim(6).find((2, 7, 0), (1, 7, 1)),
        # The message may have been stored first in the trimmed ledger.
        Topic(deduplicated=False).trim(6).find((2, 7, 0), (1, 7, 1)),
        ("message 1 of p", "7:1", "message 2", "7:0"),
        led=("message.found",),
        at=("message.found", 1),
    ),
    Case(
        ReceiptsNameTheirMessages,
        Topic().ack(*KEPT).find(*KEPT),
        Topic().ack((0, 7, 1)).find(*KEPT),
        Topic().ack((0, -1, -1)).find(*KEPT),
        ("message 0 of p", "7:1", "7:0"),
        led=("message.found",),
        at=("message.acked", 1),
    ),
    Case(
        MessagesKeepTheirContent,
        Topic().keeps("one", given="one"),
        Topic().keeps("two", given="one"),
        Topic().find(*KEPT),
        ("message 0 of p", "7:0", "payload other than"),
        at=("message.found", 0),
    ),
    Case(
        MessagesKeepTheirContent,
        Topic().keeps("one", given="one"),
        Topic().keeps("one"),
        Topic().find(*KEPT),
        ("message 0 of p", "not given to any producer"),
        at=("message.found", 0),
    ),
    Case(
        MessagesKeepTheirContent,
        Topic().keeps("one", given="one").deliver(KEPT[0]),
        Topic().keeps("one", given="one").deliver((1, 7, 0)),
        Topic().find(*KEPT),
        ("message 1 of p was delivered as 7:0", "not given to any producer"),
    ),
    Case(
        MessagesKeepTheirContent,
        Topic().keeps("one", given="one").receive(KEPT[0]),
        Topic().keeps("one", given="one").receive((1, 7, 0)),
        Topic().find(*KEPT),
        ("message 1 of p was delivered as 7:0", "not given to any producer"),
    ),
    Case(
        OneOwnerStores,
        Topic().put_in(0, M).push(1, M).serve(N).tell(M, "batch.stored", 1, topic=TOPIC),  # type: ignore[attr-defined]
        Topic().put_in(0, M).serve(N).put_in(1, M),
        Topic(),
        (M, N, "7:1", TOPIC),
        led=("add.pushed", "topic.opened"),
    ),
    Case(
        OneOwnerStores,
        # The first owner was paused, and reports late that it serves the topic.
        Topic().roll(M, 7).roll(N, 8).serve(N).serve(M).put_in(1, N),
        Topic().roll(M, 7).serve(M).roll(N, 8).serve(N).put_in(1, M),
        Topic(),
        (M, N, "7:1", TOPIC),
        led=("add.pushed", "topic.opened"),
    ),
    Case(
        MessageIdsGrow,
        Topic().ack((0, 7, 0), (1, 7, 0), (2, -1, -1), (3, 8, 0)),
        Topic().ack((0, 8, 0), (1, 7, 5)),
        Topic().ack((0, -1, -1)),
        ("p got the receipt 7:5", "8:0"),
        led=("message.acked",),
    ),
]
