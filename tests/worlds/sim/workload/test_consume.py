"""In the simulated world, each message is delivered to consumers until it is acknowledged."""

from dataclasses import replace

import pytest

from labkit.system.check import Outcome, check_all
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.trace.answers import AllAcknowledged, EntryAcknowledged, MessageDelivered
from labkit.worlds.sim.scenario.faults import Crash, Fault, Partition, Reset, Unload
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.publish import Publish
from tests.worlds.sim.runs import run_safely

CLUSTER = Cluster(session_timeout_ms=500, brokers=2)
PUBLISH = Publish(messages=12, every_ms=5)
IN_BATCHES = replace(PUBLISH, batch_size=4)
PROMISES = {"DeliveriesKeepTheOrder", "NoMessageIsSkipped", "AcknowledgedIsNotDeliveredAgain"}
EACH = (
    Consume(messages=12),
    Consume(messages=12, is_cumulative=True, ack_every=5),
    Consume(messages=12, subscription_type="Failover", consumers=3),
    Consume(messages=12, subscription_type="Shared", consumers=2, permits=1),
    Consume(messages=12, subscription_type="Key_Shared", consumers=3, ack_every=4),
    Consume(messages=12, subscription_type="Shared", consumers=3, entries_per_connection=2),
    Consume(messages=12, is_cumulative=True, ack_every=2, acks_parts=True),
    Consume(messages=12, subscription_type="Shared", consumers=2, acks_parts=True),
    Consume(messages=12, subscription_type="Failover", consumers=2, redeliver_every=3),
    Consume(messages=12, subscription_type="Key_Shared", consumers=2, redeliver_every=3),
    Consume(messages=12, subscription_type="Shared", consumers=3, start_over_after=6),
    Consume(messages=12, start_over_after=6, start_over_by="unsubscribe"),
    Consume(messages=12, reader=True, entries_per_connection=3, ack_every=2),
    Consume(messages=12, reader=True, start_over_after=6, redeliver_every=4),
)


def consumed(consume: Consume, *faults: Fault, publish: Publish = PUBLISH) -> Trace:
    """Run the step to its end and check that no promise is broken."""
    trace = run_safely(Scenario(CLUSTER, (publish, consume), faults))
    ends = [(e.step, e.detail) for e in trace.events if e.kind == "step.ended"]
    assert (str(consume), "done") in ends
    return trace


def delivered(trace: Trace) -> list[int]:
    """Return the sequence ids of all deliveries, in order."""
    answers = trace.answers
    return [each.message.sequence_id for each in answers if isinstance(each, MessageDelivered)]


@pytest.mark.sampled
@pytest.mark.parametrize("consume", EACH, ids=repr)
def test_consumers_of_each_type_get_each_message_while_its_broker_comes_and_goes(
    consume: Consume,
) -> None:
    for faults in ((), (Crash("broker1", down_ms=100, when=On("batch.stored", 5)),)):
        for publish in (PUBLISH, IN_BATCHES):
            trace = consumed(consume, *faults, publish=publish)
            assert set(delivered(trace)) == set(range(12))


def test_keys_are_shared_in_order_by_consumers_that_come_and_go() -> None:
    leaving = Consume(
        messages=12,
        subscription_type="Key_Shared",
        consumers=3,
        entries_per_connection=3,
        permits=2,
    )
    trace = consumed(leaving, publish=replace(PUBLISH, keys=2))
    keys = {each.key for each in trace.answers if isinstance(each, MessageDelivered)}
    assert keys == {"k0", "k1"}
    [verdict] = [each for each in check_all(trace) if each.name == "KeysKeepTheirOrder"]
    assert verdict.outcome is Outcome.VALID


def test_an_unloaded_topic_is_opened_again_for_its_clients() -> None:
    unloads = [Unload(broker, when=On("batch.stored", 5)) for broker in ("broker0", "broker1")]
    trace = consumed(EACH[0], *unloads)
    assert set(delivered(trace)) == set(range(12))
    kinds = [e.kind for e in trace.events if e.kind in ("topic.opened", "topic.closed")]
    assert kinds[:3] == ["topic.opened", "topic.closed", "topic.opened"]
    [verdict] = [each for each in check_all(trace) if each.name == "UnloadedTopicsAreClosed"]
    assert verdict.outcome is Outcome.VALID


LEAVING = Consume(messages=12, entries_per_connection=2)
READER = replace(LEAVING, reader=True, ack_every=5)
OVER = Consume(messages=12, start_over_after=9)
BATCHES_AGAIN = [*range(8), 6, 7, *range(8, 12), 10, 11]


@pytest.mark.parametrize(
    ("consume", "publish", "order"),
    [
        pytest.param(EACH[0], PUBLISH, [*range(12)], id="a calm run: each message once"),
        pytest.param(
            *(replace(LEAVING, acks_parts=True), IN_BATCHES, BATCHES_AGAIN),
            id="a batch acknowledged in part: the rest again",
        ),
        pytest.param(OVER, PUBLISH, [*range(9), *range(12)], id="a seek: everything again"),
        pytest.param(
            *(replace(OVER, start_over_by="unsubscribe"), PUBLISH, [*range(9), *range(12)]),
            id="a new subscription: everything again",
        ),
        pytest.param(READER, PUBLISH, [*range(12)], id="a reader: behind the last message"),
        pytest.param(READER, IN_BATCHES, [*range(12)], id="a reader of batches: the same"),
    ],
)
def test_consumers_get_messages_in_this_order(
    consume: Consume, publish: Publish, order: list[int]
) -> None:
    assert delivered(consumed(consume, publish=publish)) == order


@pytest.mark.parametrize(
    "consume",
    [
        pytest.param(replace(LEAVING, entries_per_connection=4), id="left unacknowledged"),
        pytest.param(Consume(messages=12, redeliver_every=4), id="given back"),
        pytest.param(
            Consume(messages=12, subscription_type="Shared", redeliver_every=4),
            id="given back by a shared subscription",
        ),
    ],
)
def test_only_what_was_not_acknowledged_is_delivered_again(consume: Consume) -> None:
    order = delivered(consumed(consume))
    assert [number for number in range(12) if order.count(number) > 1] == [3, 6, 9]


def test_a_consumer_that_is_cut_off_goes_on_where_its_acknowledgements_end() -> None:
    cut = Partition(("broker1",), ("c",), "both", 3000, At(60))
    trace = consumed(EACH[0], cut, Reset("broker1", "c", At(3100)))
    assert set(delivered(trace)) == set(range(12))


def test_a_consumer_ends_when_the_topic_has_nothing_else() -> None:
    trace = consumed(Consume(messages=99))
    passed = [each for each in trace.answers if isinstance(each, AllAcknowledged)]
    assert len(passed) == 5
    acknowledged = [each for each in trace.answers if isinstance(each, EntryAcknowledged)]
    last = max((each.ledger, each.entry) for each in acknowledged)
    assert {each[-2:] for each in passed} == {last}
    judged = {each.name for each in check_all(trace) if each.outcome is Outcome.VALID}
    assert judged >= PROMISES


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"consumers": 2}, "allows only one consumer"),
        ({"subscription_type": "Shared", "is_cumulative": True}, "does not support cumulative"),
        ({"subscription_type": "exclusive"}, "one of Exclusive, Failover"),
        ({"entries_per_connection": 1}, "use 2 or more"),
        ({"permits": 0}, "from 1 to"),
        ({"redeliver_every": 2, "ack_every": 2}, "must be greater than ack_every"),
        ({"start_over_by": "reset"}, "one of seek, unsubscribe"),
        (
            {
                **{"subscription_type": "Shared", "consumers": 2},
                **{"start_over_after": 1, "start_over_by": "unsubscribe"},
            },
            "sole consumer",
        ),
        ({"subscription": ""}, "non-empty"),
        ({"subscription_type": "Failover", "reader": True}, "Exclusive subscription"),
    ],
)
def test_a_step_that_no_consumer_can_do_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match=words):
        Consume(**fields)  # type: ignore[arg-type]
