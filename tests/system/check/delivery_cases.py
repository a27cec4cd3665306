"""Test cases for the checks that concern consumers of topics."""

from labkit.system.check.promises.deliveries import (
    AcknowledgedIsNotDeliveredAgain,
    DeliveriesKeepTheOrder,
    KeysKeepTheirOrder,
    NoMessageIsSkipped,
    OwnersConsumersGetAllInOrder,
)
from labkit.system.check.promises.unloading import UnloadedTopicsAreClosed
from tests.system.check.cases import Case
from tests.system.check.topic import KEPT, TOPIC, M, N, Topic

DELIVERY_CASES = [
    Case(
        OwnersConsumersGetAllInOrder,
        Topic().receive(*KEPT[:2]).store(*KEPT),
        Topic().receive(KEPT[0], KEPT[2]).store(*KEPT),
        Topic().receive(*KEPT),
        ("p got message 2 of p", "8:0", "message 1 of p was next"),
    ),
    Case(
        DeliveriesKeepTheOrder,
        Topic().deliver(*KEPT[:2], *KEPT),
        Topic().deliver(KEPT[1], KEPT[0]),
        Topic().deliver(KEPT[1], KEPT[0], in_order=False),
        ("message 0 of p", "to c", "7:0, after message 1 of p", "7:1"),
    ),
    Case(
        KeysKeepTheirOrder,
        # These deliveries have a different key, consumer or connection, or are redeliveries.
        Topic()
        .deliver(KEPT[1], key="a", in_order=False)
        .deliver(KEPT[0], key="b", in_order=False)
        .deliver(KEPT[0], key="a", to="d", in_order=False)
        .deliver(KEPT[2], KEPT[1], key="a", in_order=False)
        .deliver(KEPT[0], key="a", connection=2, in_order=False),
        Topic().deliver(KEPT[1], KEPT[0], key="a", in_order=False),
        Topic().deliver(KEPT[1], KEPT[0], in_order=False),
        ("message 0 of p", "to c", "7:0, after message 1 of p", "7:1"),
    ),
    Case(
        UnloadedTopicsAreClosed,
        Topic().stop().unload().serve(M).die().unload().unload(N),
        Topic().unload(),
        Topic().unload(N),
        (M, TOPIC, "still serves it"),
    ),
    Case(
        NoMessageIsSkipped,
        Topic().deliver(*KEPT).pass_over(8, 0).find(*KEPT),
        Topic().deliver(KEPT[0], KEPT[2]).pass_over(8, 0).find(*KEPT),
        Topic().deliver(KEPT[0]).pass_over(7, -1).find(*KEPT),
        ("message 1 of p", "7:1", "to s", "8:0"),
        at=("message.found", 1),
    ),
    Case(
        NoMessageIsSkipped,
        Topic().deliver(KEPT[0]).serve(N).deliver(*KEPT).pass_over(8, 0, N).find(*KEPT),
        Topic().deliver(KEPT[0]).serve(N).pass_over(8, 0, N).find(*KEPT),
        # A broker that was cut off from the metadata store may report an outdated position.
        Topic().deliver(KEPT[0]).serve(N).pass_over(8, 0, M).find(*KEPT),
        ("message 1 of p", "7:1", "to s", "8:0"),
        at=("message.found", 1),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        Topic().deliver(KEPT[0]).accept(7, 0).serve(N).deliver(KEPT[0], broker=N),
        Topic().deliver(KEPT[0]).accept(7, 0).deliver(KEPT[0]),
        Topic().accept(7, 0),
        (M, "redelivered message 0 of p", "to c", "7:0"),
    ),
    Case(
        NoMessageIsSkipped,
        Topic().ack(*KEPT).deliver(*KEPT[:2]).trim(7).find(KEPT[2]),
        Topic().ack(*KEPT).deliver(KEPT[0]).trim(7).find(KEPT[2]),
        # The subscription started after this message.
        Topic().ack(*KEPT).deliver(KEPT[2]).trim(7).find(KEPT[2]),
        ("message 1 of p", "7:1", "trimmed with its ledger", "to s"),
        at=("message.acked", 1),
    ),
    Case(
        NoMessageIsSkipped,
        Topic().deliver(KEPT[0], durable=False).pass_over(7, 0).find(*KEPT),
        Topic().deliver(KEPT[1], durable=False).pass_over(7, 1).find(*KEPT),
        # A topic retains no messages for a reader.
        Topic().ack(*KEPT).deliver(KEPT[0], durable=False).trim(7).find(KEPT[2]),
        ("message 0 of p", "7:0", "to s", "7:1"),
        at=("message.found", 0),
    ),
    Case(
        NoMessageIsSkipped,
        # A consumer may receive all redelivered messages before the response to the seek arrives.
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
        # The broker was asked before the subscription started over, so it may report the older
        # position.
        Topic()
        .deliver(*KEPT)
        .start_over(is_done=False)
        .start_over(is_done=True)
        .pass_over(8, 0)
        .find(*KEPT),
        ("message 0 of p", "7:0", "to s", "8:0"),
        at=("message.found", 0),
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
        Topic().accept(7, 0).start_over(is_done=False).start_over(is_done=True),
        (M, "redelivered message 0 of p", "to c", "7:0"),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        # The acknowledgement was sent before the subscription started over, but the response
        # arrived later.
        Topic().start_over(is_done=False).start_over(is_done=True).accept(7, 0).deliver(KEPT[0]),
        Topic().accept(7, 0).deliver(KEPT[0]),
        Topic().accept(7, 0),
        (M, "redelivered message 0 of p", "to c", "7:0"),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        Topic().accept(7, 0, batch_index=1).deliver(KEPT[0]),
        Topic().accept(7, 0, batch_index=0).deliver(KEPT[0]),
        Topic().accept(7, 0, batch_index=0),
        (M, "redelivered message 0 of p", "to c", "7:0"),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        # In the broken run, a redelivery arrived after the broker had accepted the acknowledgement.
        Topic().accept(7, 0).deliver(KEPT[0], waited=1),
        Topic().accept(7, 0).deliver(KEPT[0], waited=1).accept(7, 0).deliver(KEPT[0], waited=1),
        Topic().accept(7, 0),
        (M, "redelivered message 0 of p", "to c", "7:0"),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        # In the valid run, the redelivery arrived before the broker accepted the acknowledgement.
        Topic().deliver(KEPT[0]).accept(7, 0).deliver(KEPT[0], waited=1),
        Topic().deliver(KEPT[0]).accept(7, 0).accept(7, 1).deliver(KEPT[0], waited=1),
        Topic().accept(7, 0),
        (M, "redelivered message 0 of p", "to c", "7:0"),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        # Another broker served the topic in between, and the cursor's position had not been stored
        # yet.
        Topic().deliver(KEPT[0]).accept(7, 0).serve(M).deliver(KEPT[0]),
        Topic().deliver(KEPT[0]).accept(7, 0).serve(N).deliver(KEPT[0]),
        Topic().accept(7, 0),
        (M, "redelivered message 0 of p", "to c", "7:0"),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        # The acknowledgement was sent before the broker crashed; the response arrived after its
        # restart.
        Topic().serve(M).accept(7, 0, age=1).deliver(KEPT[0]),
        Topic().serve(M).accept(7, 0).deliver(KEPT[0]),
        Topic().accept(7, 0),
        (M, "redelivered message 0 of p", "to c", "7:0"),
    ),
]
