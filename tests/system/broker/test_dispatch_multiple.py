"""Shared and Key_Shared: an entry is with one consumer, comes again if needed, keys keep order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from labkit.system.broker.dispatch import multiple
from labkit.system.broker.dispatch.hashes import hash_of_key
from labkit.system.broker.dispatch.key_shared import AutoSplitRanges, KeyShared, StickyRanges
from labkit.system.broker.dispatch.multiple import Multiple
from labkit.system.broker.dispatch.shared import Shared
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata
from labkit.system.topic.chain.chain import Position
from tests.system.broker.in_memory import Client, MemoryLedger, batch, key_of, message, surroundings

NewDispatcher = Callable[..., Multiple]


async def settle() -> None:
    """Let the dispatcher's task do what it can."""
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.fixture
async def new_dispatcher() -> AsyncIterator[NewDispatcher]:
    made: list[Multiple] = []

    def make(
        ledger: MemoryLedger,
        choice: Any = None,
        now_ms: Callable[[], int] = lambda: 0,
        cursor: Any = None,
    ) -> Multiple:
        cursor = cursor or ledger.cursor()
        made.append(Multiple(ledger, cursor, choice or Shared(), surroundings(now_ms)))
        return made[-1]

    yield make
    for dispatcher in made:
        dispatcher.stop()


def singles(count: int) -> MemoryLedger:
    return MemoryLedger([message() for _ in range(count)])


def keyed(*keys: str) -> MemoryLedger:
    return MemoryLedger([message(key) for key in keys])


async def test_entries_go_round(new_dispatcher: NewDispatcher) -> None:
    dispatcher, clients = new_dispatcher(singles(9)), [Client() for _ in range(3)]
    for client in clients:
        dispatcher.add(client.consumer())
    await settle()
    assert [client.positions for client in clients] == [
        [(10, 0), (10, 3), (10, 6)],
        [(10, 1), (10, 4), (10, 7)],
        [(10, 2), (10, 5), (10, 8)],
    ]


async def test_a_consumer_without_permits_stops_no_other(new_dispatcher: NewDispatcher) -> None:
    dispatcher, slow, quick = new_dispatcher(singles(300)), Client(), Client()
    dispatcher.add(slow.consumer(permits=2))
    dispatcher.add(quick.consumer(permits=1000))
    await settle()
    assert len(slow.positions) == 2
    assert len(quick.positions) == 298


async def test_the_best_priority_comes_first_and_others_get_what_it_cannot_take(
    new_dispatcher: NewDispatcher,
) -> None:
    dispatcher, best, other = new_dispatcher(singles(10)), Client(), Client()
    dispatcher.add(other.consumer(priority=1))
    dispatcher.add(best.consumer(priority=0, permits=6))
    await settle()
    assert (len(best.positions), len(other.positions)) == (6, 4)


async def test_a_negative_acknowledgement_comes_again_and_is_counted(
    new_dispatcher: NewDispatcher,
) -> None:
    dispatcher, client = new_dispatcher(singles(3)), Client()
    consumer = client.consumer()
    dispatcher.add(consumer)
    await settle()
    for _ in range(2):
        dispatcher.redeliver(consumer, [(10, 1)], 0)
        await settle()
    again = [m.redelivery_count for m in client.received[3:]]
    assert (client.positions[3:], again) == ([(10, 1)] * 2, [1, 2])


async def test_asking_for_everything_brings_what_is_not_acknowledged(
    new_dispatcher: NewDispatcher,
) -> None:
    ledger, client = singles(3), Client()
    cursor = ledger.cursor()
    dispatcher, consumer = new_dispatcher(ledger, cursor=cursor), client.consumer()
    dispatcher.add(consumer)
    await settle()
    cursor.acknowledge([(10, 0)])
    dispatcher.acknowledged(consumer, [(10, 0)])
    dispatcher.redeliver(consumer, [], 0)
    await settle()
    assert client.positions[3:] == [(10, 1), (10, 2)]


async def test_what_another_consumer_has_is_not_given_again(new_dispatcher: NewDispatcher) -> None:
    dispatcher, first, second = new_dispatcher(singles(2)), Client(), Client()
    dispatcher.add(first.consumer())
    mine = second.consumer()
    dispatcher.add(mine)
    await settle()
    dispatcher.redeliver(mine, [(10, 0)], 0)
    await settle()
    assert (first.positions, second.positions) == ([(10, 0)], [(10, 1)])


async def test_when_a_consumer_leaves_the_others_get_what_it_had_uncounted(
    new_dispatcher: NewDispatcher,
) -> None:
    ledger, leaving, staying = singles(4), Client(), Client()
    cursor = ledger.cursor()
    dispatcher = new_dispatcher(ledger, cursor=cursor)
    consumer = leaving.consumer()
    dispatcher.add(consumer)
    await settle()
    cursor.acknowledge([(10, 2)])
    dispatcher.acknowledged(consumer, [(10, 2)])
    dispatcher.add(staying.consumer())
    dispatcher.remove(consumer)
    await settle()
    assert staying.positions == [(10, 0), (10, 1), (10, 3)]
    assert {m.redelivery_count for m in staying.received} == {0}


async def test_one_consumer_may_acknowledge_what_another_got(
    new_dispatcher: NewDispatcher,
) -> None:
    ledger, first, second = singles(1), Client(), Client()
    cursor = ledger.cursor()
    dispatcher = new_dispatcher(ledger, cursor=cursor)
    holder, other = first.consumer(), second.consumer(permits=0)
    dispatcher.add(holder)
    dispatcher.add(other)
    await settle()
    cursor.acknowledge([(10, 0)])
    dispatcher.acknowledged(other, [(10, 0)])
    assert holder.pending == {}


async def test_the_chunks_of_a_message_go_to_one_consumer(new_dispatcher: NewDispatcher) -> None:
    chunks = [chunk("large", number) for number in range(3)]
    ledger = MemoryLedger([chunks[0], message(), chunks[1], message(), chunks[2], message()])
    dispatcher, clients = new_dispatcher(ledger), [Client(), Client()]
    members = [client.consumer() for client in clients]
    for member in members:
        dispatcher.add(member)
    await settle()
    assert {(10, 0), (10, 2), (10, 4)} <= set(clients[0].positions)
    assert len(clients[0].positions + clients[1].positions) == 6
    dispatcher.remove(members[0])
    await settle()
    assert sorted(clients[1].positions) == [(10, at) for at in range(6)]


def chunk(uuid: str, number: int) -> bytes:
    """A third of a message."""
    metadata = MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=1, uuid=uuid, chunk_id=number
    )
    metadata.num_chunks_from_msg = 3
    head = metadata.SerializeToString()
    return len(head).to_bytes(4, "big") + head + b"x"


async def test_entries_without_a_ready_consumer_wait_for_permits(
    new_dispatcher: NewDispatcher,
) -> None:
    ledger = MemoryLedger([batch(10) for _ in range(4)])
    dispatcher, client = new_dispatcher(ledger), Client()
    consumer = client.consumer(permits=12)
    dispatcher.add(consumer)
    await settle()
    assert client.positions == [(10, 0), (10, 1)]
    consumer.permits += 28
    dispatcher.wake()
    await settle()
    assert client.positions == [(10, at) for at in range(4)]


async def test_keys_stay_with_their_consumer_in_order(new_dispatcher: NewDispatcher) -> None:
    ranges = AutoSplitRanges()
    clients = [Client(), Client()]
    members = [client.consumer() for client in clients]
    for member in members:
        ranges.add(member)
    mine, theirs = (key_of(ranges, member) for member in members)
    ledger = keyed(*[mine, theirs, theirs, mine] * 5)
    fresh = KeyShared(AutoSplitRanges(), keeps_order=True)
    dispatcher = new_dispatcher(ledger, fresh)
    dispatcher.add(members[0])
    dispatcher.add(members[1])
    await settle()
    expected: list[list[Position]] = [[], []]
    for at in range(20):
        expected[0 if at % 4 in (0, 3) else 1].append((10, at))
    assert [client.positions for client in clients] == expected


async def test_a_consumer_that_joins_gets_a_key_only_when_its_entries_are_acknowledged(
    new_dispatcher: NewDispatcher,
) -> None:
    ranges, old_client, new_client = AutoSplitRanges(), Client(), Client()
    old, new = old_client.consumer(), new_client.consumer()
    ranges.add(old)
    ranges.add(new)
    moving = key_of(ranges, new)
    ledger = keyed(moving, moving)
    cursor = ledger.cursor()
    choice = KeyShared(AutoSplitRanges(), keeps_order=True)
    dispatcher = new_dispatcher(ledger, choice, cursor=cursor)
    dispatcher.add(old)
    await settle()
    assert old_client.positions == [(10, 0), (10, 1)]
    dispatcher.add(new)
    ledger.append(message(moving))
    dispatcher.wake()
    await settle()
    for position in [(10, 0), (10, 1)]:
        assert new_client.positions == []
        cursor.acknowledge([position])
        dispatcher.acknowledged(old, [position])
        await settle()
    assert new_client.positions == [(10, 2)]
    assert old_client.positions == [(10, 0), (10, 1)]


async def test_later_entries_of_a_key_wait_behind_an_earlier_one(
    new_dispatcher: NewDispatcher,
) -> None:
    slow_client, quick_client = Client(), Client()
    slow, quick = slow_client.consumer(permits=1), quick_client.consumer()
    ranges = AutoSplitRanges()
    ranges.add(slow)
    ranges.add(quick)
    held, free = key_of(ranges, slow), key_of(ranges, quick)
    choice = KeyShared(AutoSplitRanges(), keeps_order=True)
    dispatcher = new_dispatcher(keyed(held, held, free, held, free), choice)
    dispatcher.add(slow)
    dispatcher.add(quick)
    await settle()
    assert slow_client.positions == [(10, 0)]
    assert quick_client.positions == [(10, 2), (10, 4)]
    slow.permits += 1
    dispatcher.wake()
    await settle()
    assert slow_client.positions == [(10, 0), (10, 1)]
    slow.permits += 5
    dispatcher.wake()
    await settle()
    assert slow_client.positions == [(10, 0), (10, 1), (10, 3)]


async def test_no_entry_overtakes_one_of_its_key_when_permits_come_during_a_read(
    new_dispatcher: NewDispatcher,
) -> None:
    slow_client, idle = Client(), Client()
    slow = slow_client.consumer(permits=1)
    at = hash_of_key(b"k")
    slow.hash_ranges = [(at, at)]
    ledger = keyed("k", "k")
    dispatcher = new_dispatcher(ledger, KeyShared(StickyRanges(), keeps_order=True))
    dispatcher.add(slow)
    dispatcher.add(idle.consumer(ranges=[(0, at - 1)]))
    await settle()
    ledger.append(message("k"))

    def give_permits() -> None:
        slow.permits = 10

    ledger.before_read = give_permits
    dispatcher.wake()
    await settle()
    assert slow_client.positions == [(10, 0), (10, 1), (10, 2)]


async def test_an_entry_whose_read_fails_still_waits(new_dispatcher: NewDispatcher) -> None:
    ledger, client = singles(3), Client()
    dispatcher, consumer = new_dispatcher(ledger), client.consumer()
    dispatcher.add(consumer)
    await settle()
    ledger.fails = True
    dispatcher.redeliver(consumer, [], 0)
    await settle()
    assert sorted(dispatcher.waiting) == [(10, 0), (10, 1), (10, 2)]
    ledger.fails = False
    dispatcher.retry()
    await settle()
    assert client.positions[3:] == [(10, 0), (10, 1), (10, 2)]


async def test_looking_ahead_ends_when_too_many_wait(
    new_dispatcher: NewDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiple, "MAX_WAITING", 100)
    at = hash_of_key(b"k")
    idle = Client()
    dispatcher = new_dispatcher(keyed(*["k"] * 1000), KeyShared(StickyRanges(), keeps_order=True))
    dispatcher.add(Client().consumer(permits=0, ranges=[(at, at)]))
    dispatcher.add(idle.consumer(ranges=[(0, at - 1)]))
    await settle()
    assert 100 <= len(dispatcher.waiting) < 300
    assert idle.positions == []


async def test_a_trimmed_entry_is_no_longer_waited_for(
    new_dispatcher: NewDispatcher,
) -> None:
    ledger, client = MemoryLedger([message()], [message()]), Client()
    dispatcher, consumer = new_dispatcher(ledger), client.consumer()
    dispatcher.add(consumer)
    await settle()
    ledger.chain.replace(ledger.chain.links[1:])
    ledger.chain.open_entry_count = 1
    dispatcher.redeliver(consumer, [(10, 0), (11, 0)], 0)
    await settle()
    assert client.positions == [(10, 0), (11, 0), (11, 0)]
    assert not dispatcher.waiting


async def test_a_consumer_that_acknowledges_nothing_gets_no_more_than_can_be_remembered(
    new_dispatcher: NewDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.system.broker.dispatch.consumer.MOST_PENDING", 3)
    dispatcher, client, other = new_dispatcher(singles(9)), Client(), Client()
    consumer = client.consumer()
    dispatcher.add(consumer)
    await settle()
    assert client.positions == [(10, 0), (10, 1), (10, 2)]
    dispatcher.acknowledged(consumer, [(10, 0)])
    await settle()
    assert client.positions[3:] == [(10, 3)]
    dispatcher.add(other.consumer())
    await settle()
    assert other.positions == [(10, 4), (10, 5), (10, 6)]
