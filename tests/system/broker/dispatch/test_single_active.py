"""Tests for Exclusive and Failover dispatch: one consumer receives all entries in order, starting
after the mark-delete position.
"""

import pytest

from labkit.system.broker.dispatch.single_active import choose_active
from labkit.system.broker.errors import BrokerError
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from tests.system.broker.in_memory import (
    Client,
    Dispatchers,
    MemoryLedger,
    batch,
    message,
    settle,
    surroundings,
)
from tests.until import until


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger([message() for _ in range(3)], [], [message() for _ in range(3)])


ALL = [(10, 0), (10, 1), (10, 2), (12, 0), (12, 1), (12, 2)]


async def test_a_consumer_gets_entries_once_in_order_while_it_has_permits_and_reads(
    dispatchers: Dispatchers, ledger: MemoryLedger
) -> None:
    client = Client(is_writable=False)
    consumer = client.consumer(permits=2)
    dispatcher = dispatchers.single(ledger)
    dispatcher.add(consumer)
    await settle()
    assert (client.positions, ledger.reads) == ([], [])
    client.is_writable = True
    dispatcher.wake()
    await settle()
    assert (client.positions, consumer.permits) == (ALL[:2], 0)
    consumer.permits += 100
    for _ in range(2):
        dispatcher.wake()
        await settle()
        assert client.positions == ALL


@pytest.mark.promise("Permits count messages, add up, and may become negative")
async def test_a_batch_may_push_permits_below_zero_and_they_are_made_good(
    dispatchers: Dispatchers,
) -> None:
    client = Client()
    consumer = client.consumer(permits=1)
    dispatcher = dispatchers.single(MemoryLedger([batch(10), batch(10), batch(10)]))
    dispatcher.add(consumer)
    await settle()
    assert (client.positions, consumer.permits) == ([(10, 0)], -9)
    for permits, count in ((9, 1), (1, 2)):
        consumer.permits += permits
        dispatcher.wake()
        await settle()
        assert client.positions == [(10, number) for number in range(count)]


async def test_what_is_acknowledged_is_not_sent(
    dispatchers: Dispatchers, ledger: MemoryLedger
) -> None:
    client, cursor = Client(), ledger.cursor((10, 0))
    cursor.acknowledge([(10, 2), (12, 1)])
    dispatchers.single(ledger, cursor).add(client.consumer())
    await settle()
    assert client.positions == [(10, 1), (12, 0), (12, 2)]


async def test_after_an_entry_that_cannot_be_decoded_the_next_ones_are_sent(
    dispatchers: Dispatchers,
) -> None:
    ledger, client = MemoryLedger([b"not a message", message()]), Client()
    dispatcher = dispatchers.single(ledger)
    dispatcher.add(client.consumer(permits=1))
    await settle()
    assert client.positions == [(10, 1)]
    assert dispatcher.cursor.mark_delete == (10, 0)


async def test_of_a_batch_acknowledged_in_part_the_rest_is_marked_and_costs_permits(
    dispatchers: Dispatchers,
) -> None:
    ledger, client = MemoryLedger([batch(70)]), Client()
    cursor = ledger.cursor()
    cursor.acknowledge_batch((10, 0), 128, (1 << 69) | 1)
    consumer = client.consumer(permits=100)
    dispatchers.single(ledger, cursor).add(consumer)
    await settle()
    assert list(client.received[0].ack_set) == [1, 1 << 5]
    assert consumer.permits == 98


async def test_a_consumer_that_asks_again_gets_all_unacknowledged_entries(
    dispatchers: Dispatchers, ledger: MemoryLedger
) -> None:
    client, cursor = Client(), ledger.cursor()
    consumer = client.consumer()
    dispatcher = dispatchers.single(ledger, cursor)
    dispatcher.add(consumer)
    await settle()
    cursor.acknowledge([(10, 0), (10, 2)])
    dispatcher.redeliver(consumer, [(12, 2)], epoch=4)
    await settle()
    again = client.received[len(ALL) :]
    assert client.positions[len(ALL) :] == [(10, 1), (12, 0), (12, 1), (12, 2)]
    assert {(m.redelivery_count, m.consumer_epoch) for m in again} == {(0, 4)}


async def test_what_was_read_before_a_rewind_is_not_sent(
    dispatchers: Dispatchers, ledger: MemoryLedger
) -> None:
    client = Client()
    consumer = client.consumer(permits=2)
    dispatcher = dispatchers.single(ledger)
    dispatcher.add(consumer)
    await settle()

    def rewind_once() -> None:
        ledger.before_read = lambda: None
        dispatcher.redeliver(consumer, [], 1)

    ledger.before_read = rewind_once
    consumer.permits = 100
    dispatcher.wake()
    await settle()
    assert client.positions == ALL[:2] + ALL


@pytest.mark.promise("Failed reads of entries are retried with increasing delays and reported")
async def test_reads_that_fail_are_tried_again_and_reported_with_pauses_that_double(
    dispatchers: Dispatchers, ledger: MemoryLedger
) -> None:
    events: list[Event] = []
    recorder = Recorder("broker", lambda: 0)
    recorder.listen(events.extend)
    ledger.fails = True
    context = surroundings(pause_ms=1, recorder=recorder)
    client = Client()
    dispatchers.single(ledger, ledger.cursor((10, 1)), context=context).add(client.consumer())
    await until(lambda: len(events) >= 4)
    assert client.positions == []
    ledger.fails = False
    await until(lambda: client.positions == ALL[2:])
    assert {(event.kind, event.ledger, event.entry) for event in events} == {
        ("dispatch.delayed", 10, 2)
    }
    assert {(each.subscription, each.topic, each.explanation) for each in events} == {
        ("sub", "topic", "no bookie answers")
    }
    assert [event.seconds for event in events[:4]] == [0.001, 0.002, 0.004, 0.004]


async def test_after_a_failed_read_only_a_consumer_that_asks_is_sooner(
    dispatchers: Dispatchers, ledger: MemoryLedger
) -> None:
    client = Client()
    ledger.fails = True
    dispatcher = dispatchers.single(ledger, context=surroundings(pause_ms=1_000_000))
    dispatcher.add(client.consumer())
    await settle()
    ledger.fails = False
    for ask, expected in ((dispatcher.wake, []), (dispatcher.retry, ALL)):
        ask()
        await settle()
        assert client.positions == expected


async def test_a_second_exclusive_consumer_is_refused(
    dispatchers: Dispatchers, ledger: MemoryLedger
) -> None:
    dispatcher = dispatchers.single(ledger)
    dispatcher.add(Client().consumer("first"))
    with pytest.raises(BrokerError, match="'first'") as refused:
        dispatcher.add(Client().consumer("second"))
    assert refused.value.code == ServerError.ConsumerBusy


@pytest.mark.promise("Failover: partitions are spread by their index")
@pytest.mark.parametrize(
    ("partition", "consumers", "active"),
    [
        (-1, {"b": 0, "a": 0, "c": 0}, "a"),
        (0, {"b": 0, "a": 0, "c": 0}, "a"),
        (1, {"b": 0, "a": 0, "c": 0}, "b"),
        (5, {"b": 0, "a": 0, "c": 0}, "c"),
        # Only consumers of the best priority become active.
        (0, {"a": 1, "b": 0, "c": 0}, "b"),
        (1, {"a": 1, "b": 0, "c": 0}, "c"),
        (2, {"a": 1, "b": 0, "c": 0}, "b"),
    ],
)
def test_partitions_are_spread_over_failover_consumers(
    partition: int, consumers: dict[str, int], active: str
) -> None:
    connected = [Client().consumer(name, priority=each) for name, each in consumers.items()]
    assert choose_active(connected, partition).name == active


@pytest.mark.promise(
    "Failover: the active consumer has the best priority, then the lowest name; its successor "
    "receives every unacknowledged message"
)
async def test_the_best_failover_consumer_takes_over_and_its_successor_gets_what_is_left(
    dispatchers: Dispatchers, ledger: MemoryLedger
) -> None:
    a, b = Client(), Client()
    first, second = a.consumer("a", permits=0), b.consumer("b", permits=0)
    dispatcher = dispatchers.single(ledger, is_exclusive=False)
    for each in (second, first):
        dispatcher.add(each)
    assert (a.told_active, b.told_active) == ([True], [True, False])
    for each in (first, second):
        each.permits = 1000
    dispatcher.wake()
    await settle()
    assert (a.positions, b.positions) == (ALL, [])
    dispatcher.add(Client().consumer("c"))
    dispatcher.cursor.acknowledge([(10, 0), (10, 1)])
    dispatcher.remove(first)
    await settle()
    assert (a.positions, b.positions) == (ALL, ALL[2:])
    assert (a.told_active, b.told_active) == ([True], [True, False, True])
