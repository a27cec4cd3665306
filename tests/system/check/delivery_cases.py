"""The same for consumers of topics."""

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
        ("topic.opened", -1),
        (),
        ("p got message 2 of p", "8:0", "message 1 of p was next"),
        Topic().receive(*KEPT),
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
        KeysKeepTheirOrder,
        # Another key, another consumer, another connection, and a message that comes again.
        Topic()
        .deliver(KEPT[1], key="a", in_order=False)
        .deliver(KEPT[0], key="b", in_order=False)
        .deliver(KEPT[0], key="a", to="d", in_order=False)
        .deliver(KEPT[2], KEPT[1], key="a", in_order=False)
        .deliver(KEPT[0], key="a", connection=2, in_order=False),
        Topic().deliver(KEPT[1], KEPT[0], key="a", in_order=False),
        ("topic.opened", -1),
        (),
        ("message 0 of p", "to c", "7:0, after message 1 of p", "7:1"),
        Topic().deliver(KEPT[1], KEPT[0], in_order=False),
    ),
    Case(
        UnloadedTopicsAreClosed,
        Topic().stop().unload().serve(M).die().unload().unload(N),
        Topic().unload(),
        ("topic.opened", -1),
        (),
        (M, TOPIC, "still serves"),
        Topic().unload(N),
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
        NoMessageIsSkipped,
        Topic().deliver(KEPT[0]).serve(N).deliver(*KEPT).pass_over(8, 0, N).find(*KEPT),
        Topic().deliver(KEPT[0]).serve(N).pass_over(8, 0, N).find(*KEPT),
        ("message.found", 1),
        (),
        ("message 1 of p", "7:1", "to s", "8:0"),
        # A broker that was cut off from the metadata store speaks of what it knew.
        Topic().deliver(KEPT[0]).serve(N).pass_over(8, 0, M).find(*KEPT),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        Topic().deliver(KEPT[0]).accept(7, 0).serve(N).deliver(KEPT[0], broker=N),
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
        Topic().deliver(KEPT[0], durable=False).pass_over(7, 0).find(*KEPT),
        Topic().deliver(KEPT[1], durable=False).pass_over(7, 1).find(*KEPT),
        ("message.found", 0),
        (),
        ("message 0 of p", "7:0", "to s", "7:1"),
        # A topic keeps nothing for a reader.
        Topic().ack(*KEPT).deliver(KEPT[0], durable=False).trim(7).find(KEPT[2]),
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
        # It came twice more, once before the broker took the first acknowledgement and once after.
        Topic().accept(7, 0).deliver(KEPT[0], waited=1),
        Topic().accept(7, 0).deliver(KEPT[0], waited=1).accept(7, 0).deliver(KEPT[0], waited=1),
        ("topic.opened", -1),
        (),
        (M, "message 0 of p", "to c again", "7:0"),
        Topic().accept(7, 0),
    ),
    Case(
        AcknowledgedIsNotDeliveredAgain,
        # It was sent again before the broker took the acknowledgement, and waited.
        Topic().deliver(KEPT[0]).accept(7, 0).deliver(KEPT[0], waited=1),
        Topic().deliver(KEPT[0]).accept(7, 0).accept(7, 1).deliver(KEPT[0], waited=1),
        ("topic.opened", -1),
        (),
        (M, "message 0 of p", "to c again", "7:0"),
        Topic().accept(7, 0),
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
        AcknowledgedIsNotDeliveredAgain,
        # It was sent before the broker crashed, and its answer came after the broker was back.
        Topic().serve(M).accept(7, 0, age=1).deliver(KEPT[0]),
        Topic().serve(M).accept(7, 0).deliver(KEPT[0]),
        ("topic.opened", -1),
        (),
        (M, "message 0 of p", "to c again", "7:0"),
        Topic().accept(7, 0),
    ),
]
