"""Exclusive and Failover: one consumer, everything in order, from the mark-delete position on."""

import asyncio

import pytest

from labkit.system.broker.dispatch.single_active import Exclusive, Failover, SingleActive
from labkit.system.broker.errors import BrokerError
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.trace.recorder import Recorder, Row
from tests.system.broker.in_memory import Client, MemoryLedger, batch, message, surroundings
from tests.until import until


async def settle() -> None:
    """Let the dispatcher's task do what it can."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger([message() for _ in range(3)], [], [message() for _ in range(3)])


ALL = [(10, 0), (10, 1), (10, 2), (12, 0), (12, 1), (12, 2)]


async def test_entries_come_in_order_across_ledgers_once(ledger: MemoryLedger) -> None:
    client = Client()
    dispatcher = SingleActive(ledger, ledger.cursor(), Exclusive(), surroundings())
    dispatcher.add(client.consumer())
    await settle()
    dispatcher.wake()
    await settle()
    assert client.positions == ALL
    dispatcher.stop()


async def test_a_consumer_without_permits_gets_nothing_until_it_gives_some(
    ledger: MemoryLedger,
) -> None:
    client = Client()
    consumer = client.consumer(permits=0)
    dispatcher = SingleActive(ledger, ledger.cursor(), Exclusive(), surroundings())
    dispatcher.add(consumer)
    await settle()
    assert client.positions == []
    consumer.permits += 2
    dispatcher.wake()
    await settle()
    assert client.positions == ALL[:2]
    assert consumer.permits == 0
    dispatcher.stop()


async def test_a_batch_may_push_permits_below_zero_and_they_are_made_good() -> None:
    ledger, client = MemoryLedger([batch(10), batch(10), batch(10)]), Client()
    consumer = client.consumer(permits=1)
    dispatcher = SingleActive(ledger, ledger.cursor(), Exclusive(), surroundings())
    dispatcher.add(consumer)
    await settle()
    assert (client.positions, consumer.permits) == ([(10, 0)], -9)
    consumer.permits += 9
    dispatcher.wake()
    await settle()
    assert client.positions == [(10, 0)]
    consumer.permits += 1
    dispatcher.wake()
    await settle()
    assert client.positions == [(10, 0), (10, 1)]
    dispatcher.stop()


async def test_what_is_acknowledged_is_not_sent(ledger: MemoryLedger) -> None:
    client, cursor = Client(), ledger.cursor((10, 0))
    cursor.acknowledge([(10, 2), (12, 1)])
    dispatcher = SingleActive(ledger, cursor, Exclusive(), surroundings())
    dispatcher.add(client.consumer())
    await settle()
    assert client.positions == [(10, 1), (12, 0), (12, 2)]
    dispatcher.stop()


async def test_of_a_batch_acknowledged_in_part_the_rest_is_marked_and_costs_permits() -> None:
    ledger, client = MemoryLedger([batch(70)]), Client()
    cursor = ledger.cursor()
    left = (1 << 69) | 1
    cursor.acknowledge_batch((10, 0), 128, left)
    consumer = client.consumer(permits=100)
    dispatcher = SingleActive(ledger, cursor, Exclusive(), surroundings())
    dispatcher.add(consumer)
    await settle()
    assert list(client.received[0].ack_set) == [1, 1 << 5]
    assert consumer.permits == 98
    dispatcher.stop()


async def test_a_consumer_that_asks_again_gets_all_unacknowledged_entries(
    ledger: MemoryLedger,
) -> None:
    client, cursor = Client(), ledger.cursor()
    consumer = client.consumer()
    dispatcher = SingleActive(ledger, cursor, Exclusive(), surroundings())
    dispatcher.add(consumer)
    await settle()
    cursor.acknowledge([(10, 0), (10, 2)])
    dispatcher.redeliver(consumer, [(12, 2)], epoch=4)
    await settle()
    again = client.received[len(ALL) :]
    assert client.positions[len(ALL) :] == [(10, 1), (12, 0), (12, 1), (12, 2)]
    assert {m.redelivery_count for m in again} == {0}
    assert {m.consumer_epoch for m in again} == {4}
    dispatcher.stop()


async def test_what_was_read_before_a_rewind_is_not_sent(ledger: MemoryLedger) -> None:
    client, cursor = Client(), ledger.cursor()
    consumer = client.consumer(permits=2)
    dispatcher = SingleActive(ledger, cursor, Exclusive(), surroundings())
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
    dispatcher.stop()


async def test_a_read_that_fails_is_tried_again_and_skips_nothing(ledger: MemoryLedger) -> None:
    client = Client()
    ledger.fails = True
    dispatcher = SingleActive(ledger, ledger.cursor(), Exclusive(), surroundings())
    dispatcher.add(client.consumer())
    await settle()
    assert client.positions == []
    assert len(ledger.reads) > 1
    ledger.fails = False
    await settle()
    assert client.positions == ALL
    dispatcher.stop()


async def test_reads_that_fail_are_reported_with_pauses_that_double_to_the_longest(
    ledger: MemoryLedger,
) -> None:
    events: list[Row] = []
    recorder = Recorder("broker", lambda: 0)
    recorder.listen(events.extend)
    ledger.fails = True
    context = surroundings(pause_ms=1, recorder=recorder)
    dispatcher = SingleActive(ledger, ledger.cursor((10, 1)), Exclusive(), context)
    dispatcher.add(Client().consumer())
    await until(lambda: len(events) >= 4)
    dispatcher.stop()
    assert {(event.kind, event.ledger, event.entry) for event in events} == {
        ("dispatch.delayed", 10, 2)
    }
    assert [event.note for event in events[:4]] == [
        f"sub of topic: no bookie answers; for {pause_s} s"
        for pause_s in (0.001, 0.002, 0.004, 0.004)
    ]


async def test_after_a_failed_read_only_a_consumer_that_asks_is_sooner(
    ledger: MemoryLedger,
) -> None:
    client = Client()
    ledger.fails = True
    context = surroundings(pause_ms=1_000_000)
    dispatcher = SingleActive(ledger, ledger.cursor(), Exclusive(), context)
    dispatcher.add(client.consumer())
    await settle()
    ledger.fails = False
    dispatcher.wake()
    await settle()
    assert client.positions == []
    dispatcher.retry()
    await settle()
    assert client.positions == ALL
    dispatcher.stop()


async def test_a_second_exclusive_consumer_is_refused(ledger: MemoryLedger) -> None:
    dispatcher = SingleActive(ledger, ledger.cursor(), Exclusive(), surroundings())
    dispatcher.add(Client().consumer("first"))
    with pytest.raises(BrokerError, match="'first'") as refused:
        dispatcher.add(Client().consumer("second"))
    assert refused.value.code == ServerError.ConsumerBusy
    dispatcher.stop()


@pytest.mark.parametrize(
    ("partition", "names", "active"),
    [
        (-1, ["b", "a", "c"], "a"),
        (0, ["b", "a", "c"], "a"),
        (1, ["b", "a", "c"], "b"),
        (5, ["b", "a", "c"], "c"),
    ],
)
def test_partitions_are_spread_over_failover_consumers(
    partition: int, names: list[str], active: str
) -> None:
    connected = [Client().consumer(name) for name in names]
    assert Failover(partition).active(connected).name == active


def test_only_failover_consumers_of_the_best_priority_become_active() -> None:
    connected = [Client().consumer(name, priority=p) for name, p in [("a", 1), ("b", 0), ("c", 0)]]
    chosen = [Failover(partition).active(connected).name for partition in (0, 1, 2)]
    assert chosen == ["b", "c", "b"]


async def test_when_the_active_consumer_leaves_the_next_gets_what_is_left(
    ledger: MemoryLedger,
) -> None:
    clients = {"a": Client(), "b": Client()}
    dispatcher = SingleActive(ledger, ledger.cursor(), Failover(-1), surroundings())
    first, second = (clients[name].consumer(name) for name in "ab")
    dispatcher.add(first)
    dispatcher.add(second)
    await settle()
    assert (clients["a"].positions, clients["b"].positions) == (ALL, [])
    dispatcher.cursor.acknowledge([(10, 0), (10, 1)])
    dispatcher.remove(first)
    await settle()
    assert clients["b"].positions == ALL[2:]
    assert clients["a"].told_active == [True]
    assert clients["b"].told_active == [False, True]
    dispatcher.stop()


async def test_a_consumer_with_a_better_name_takes_over(ledger: MemoryLedger) -> None:
    clients = {"a": Client(), "b": Client()}
    dispatcher = SingleActive(ledger, ledger.cursor(), Failover(-1), surroundings())
    dispatcher.add(clients["b"].consumer("b"))
    dispatcher.add(clients["a"].consumer("a"))
    assert clients["b"].told_active == [True, False]
    assert clients["a"].told_active == [True]
    await settle()
    assert clients["a"].positions == ALL
    dispatcher.stop()
