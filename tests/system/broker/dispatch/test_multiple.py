"""Tests for Shared and Key_Shared dispatch: which consumer receives an entry, when it is
redelivered, and that each key stays in order.
"""

import asyncio
from typing import Any

import pytest

from labkit.system.broker.dispatch import multiple
from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.delayed import DelayedEntries
from labkit.system.broker.dispatch.hashes import hash_of_key
from labkit.system.broker.dispatch.key_shared import (
    AutoSplitRanges,
    KeySharedSelector,
    StickyRanges,
)
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata
from labkit.system.topic.chain.chain_reader import StoredEntry
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from tests.system.broker.in_memory import (
    Client,
    Dispatchers,
    MemoryLedger,
    batch,
    key_of,
    message,
    settle,
)
from tests.until import until


def singles(count: int) -> MemoryLedger:
    return MemoryLedger([message() for _ in range(count)])


def keyed(*keys: str) -> MemoryLedger:
    return MemoryLedger([message(key) for key in keys])


def entry(**fields: Any) -> bytes:
    """Return an entry with these metadata fields."""
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, **fields)
    head = metadata.SerializeToString()
    return len(head).to_bytes(4, "big") + head + b"x"


def in_order(ranges: AutoSplitRanges | StickyRanges | None = None) -> KeySharedSelector:
    return KeySharedSelector(ranges or AutoSplitRanges(), keeps_order=True)


def keys_of(*consumers: Consumer) -> list[str]:
    """Return a key for each consumer, assuming that the consumers join in this order."""
    ranges = AutoSplitRanges()
    for consumer in consumers:
        ranges.add(consumer)
    return [key_of(ranges, consumer) for consumer in consumers]


def numbers(client: Client) -> list[int]:
    """Return the ids of the entries that the client has received from ledger 10."""
    assert {ledger_id for ledger_id, _ in client.positions} <= {10}
    return [entry_id for _, entry_id in client.positions]


# Shared


@pytest.mark.promise("Shared: consumers receive messages in turn, and each message once")
async def test_entries_go_round(dispatchers: Dispatchers) -> None:
    dispatcher, clients = dispatchers.multiple(singles(9)), [Client() for _ in range(3)]
    for client in clients:
        dispatcher.add(client.consumer())
    await settle()
    assert [numbers(client) for client in clients] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


@pytest.mark.promise("A consumer without permits does not block the others")
async def test_a_consumer_without_permits_stops_no_other(dispatchers: Dispatchers) -> None:
    dispatcher, slow, quick = dispatchers.multiple(singles(300)), Client(), Client()
    dispatcher.add(slow.consumer(permits=2))
    dispatcher.add(quick.consumer(permits=1000))
    await settle()
    assert (len(slow.positions), len(quick.positions)) == (2, 298)


@pytest.mark.parametrize("reads_again", [False, True])
async def test_a_consumer_that_does_not_read_stops_no_other(
    dispatchers: Dispatchers, reads_again: bool
) -> None:
    dispatcher = dispatchers.multiple(singles(6))
    reading, silent = Client(), Client(is_writable=False)
    dispatcher.add(silent.consumer("silent"))
    dispatcher.add(reading.consumer("reading", permits=4))
    await settle()
    assert numbers(reading) == [0, 1, 2, 3]
    silent.is_writable = reads_again
    dispatcher.wake()
    await settle()
    assert numbers(silent) == ([4, 5] if reads_again else [])


async def test_the_best_priority_comes_first_and_others_get_what_it_cannot_take(
    dispatchers: Dispatchers,
) -> None:
    dispatcher, best, other = dispatchers.multiple(singles(10)), Client(), Client()
    dispatcher.add(other.consumer(priority=1))
    dispatcher.add(best.consumer(priority=0, permits=6))
    await settle()
    assert (len(best.positions), len(other.positions)) == (6, 4)


@pytest.mark.promise(
    "After a negative acknowledgement or a timeout, a message is redelivered with a "
    "redelivery count"
)
async def test_a_negative_acknowledgement_comes_again_and_is_counted(
    dispatchers: Dispatchers,
) -> None:
    dispatcher, client = dispatchers.multiple(singles(3)), Client()
    consumer = client.consumer()
    dispatcher.add(consumer)
    await settle()
    for _ in range(2):
        dispatcher.redeliver(consumer, [(10, 1)], 0)
        await settle()
    again = [m.redelivery_count for m in client.received[3:]]
    assert (numbers(client)[3:], again) == ([1, 1], [1, 2])


async def test_asking_for_everything_brings_what_is_not_acknowledged(
    dispatchers: Dispatchers,
) -> None:
    ledger, client = singles(3), Client()
    dispatcher, consumer = dispatchers.multiple(ledger), client.consumer()
    dispatcher.add(consumer)
    await settle()
    dispatcher.cursor.acknowledge([(10, 0)])
    dispatcher.entries_acknowledged(consumer, [(10, 0)])
    dispatcher.redeliver(consumer, [], 0)
    await settle()
    assert numbers(client)[3:] == [1, 2]


async def test_what_another_consumer_has_is_not_given_again(dispatchers: Dispatchers) -> None:
    dispatcher, first, second = dispatchers.multiple(singles(2)), Client(), Client()
    dispatcher.add(first.consumer())
    mine = second.consumer()
    dispatcher.add(mine)
    await settle()
    dispatcher.redeliver(mine, [(10, 0)], 0)
    await settle()
    assert (numbers(first), numbers(second)) == ([0], [1])


@pytest.mark.promise("When a consumer leaves, other consumers receive its unacknowledged messages")
async def test_when_a_consumer_leaves_the_others_get_what_it_had_uncounted(
    dispatchers: Dispatchers,
) -> None:
    dispatcher, leaving, staying = dispatchers.multiple(singles(4)), Client(), Client()
    consumer = leaving.consumer()
    dispatcher.add(consumer)
    await settle()
    dispatcher.cursor.acknowledge([(10, 2)])
    dispatcher.entries_acknowledged(consumer, [(10, 2)])
    dispatcher.add(staying.consumer())
    dispatcher.remove(consumer)
    await settle()
    assert numbers(staying) == [0, 1, 3]
    assert {m.redelivery_count for m in staying.received} == {0}


async def test_one_consumer_may_acknowledge_what_another_got(dispatchers: Dispatchers) -> None:
    dispatcher = dispatchers.multiple(singles(1))
    holder, other = Client().consumer(), Client().consumer(permits=0)
    dispatcher.add(holder)
    dispatcher.add(other)
    await settle()
    dispatcher.cursor.acknowledge([(10, 0)])
    dispatcher.entries_acknowledged(other, [(10, 0)])
    assert holder.pending_acks == {}


async def test_the_chunks_of_a_message_go_to_one_consumer(dispatchers: Dispatchers) -> None:
    chunks = [entry(uuid="large", chunk_id=number, num_chunks_from_msg=3) for number in range(3)]
    ledger = MemoryLedger([chunks[0], message(), chunks[1], message(), chunks[2], message()])
    dispatcher, clients = dispatchers.multiple(ledger), [Client(), Client()]
    members = [client.consumer() for client in clients]
    for member in members:
        dispatcher.add(member)
    await settle()
    assert {0, 2, 4} <= set(numbers(clients[0]))
    assert sorted(numbers(clients[0]) + numbers(clients[1])) == list(range(6))
    dispatcher.remove(members[0])
    await settle()
    assert sorted(numbers(clients[1])) == list(range(6))


@pytest.mark.parametrize("uuid", [b"large", b"\xff"])
async def test_the_chunks_of_a_message_whose_uuid_is_not_valid_utf8_go_to_one_consumer(
    dispatchers: Dispatchers, uuid: bytes
) -> None:
    metadata = entry(uuid="U", num_chunks_from_msg=2)[4:-1]
    metadata = metadata.replace(b"\x01U", bytes([len(uuid)]) + uuid)
    chunk = len(metadata).to_bytes(4, "big") + metadata + b"x"
    dispatcher, clients = dispatchers.multiple(MemoryLedger([chunk, chunk])), [Client(), Client()]
    for client in clients:
        dispatcher.add(client.consumer())
    await settle()
    assert [numbers(client) for client in clients] == [[0, 1], []]


@pytest.mark.parametrize("metadata", [b"\xff\xff", b"", b"\x0a\x01p"])
async def test_an_entry_whose_metadata_cannot_be_decoded_is_acknowledged_instead_of_sent(
    dispatchers: Dispatchers, metadata: bytes
) -> None:
    corrupt = len(metadata).to_bytes(4, "big") + metadata + b"x"
    ledger, client = MemoryLedger([corrupt, message(), corrupt]), Client()
    events: list[Event] = []
    recorder = Recorder("broker", lambda: 0)
    recorder.listen(events.extend)
    dispatcher = dispatchers.multiple(ledger, recorder=recorder)
    dispatcher.add(client.consumer())
    await settle()
    assert numbers(client) == [1]
    assert [dispatcher.cursor.is_acknowledged((10, entry_id)) for entry_id in range(3)] == [
        True,
        False,
        True,
    ]
    assert [(event.kind, event.entry) for event in events] == [
        ("entry.discarded", 0),
        ("entry.discarded", 2),
    ]


async def test_entries_without_a_ready_consumer_wait_for_permits(dispatchers: Dispatchers) -> None:
    dispatcher = dispatchers.multiple(MemoryLedger([batch(10) for _ in range(4)]))
    client = Client()
    consumer = client.consumer(permits=12)
    dispatcher.add(consumer)
    await settle()
    assert numbers(client) == [0, 1]
    consumer.permits += 28
    dispatcher.wake()
    await settle()
    assert numbers(client) == [0, 1, 2, 3]


async def test_an_entry_whose_read_fails_still_waits(dispatchers: Dispatchers) -> None:
    ledger, client = singles(3), Client()
    dispatcher, consumer = dispatchers.multiple(ledger), client.consumer()
    dispatcher.add(consumer)
    await settle()
    ledger.fails = True
    dispatcher.redeliver(consumer, [], 0)
    await settle()
    assert sorted(dispatcher.waiting) == [(10, 0), (10, 1), (10, 2)]
    ledger.fails = False
    dispatcher.retry()
    await settle()
    assert numbers(client)[3:] == [0, 1, 2]


async def test_a_trimmed_entry_is_no_longer_waited_for(dispatchers: Dispatchers) -> None:
    ledger, client = MemoryLedger([message()], [message()]), Client()
    dispatcher, consumer = dispatchers.multiple(ledger), client.consumer()
    dispatcher.add(consumer)
    await settle()
    ledger.chain.replace(ledger.chain.stored_ledgers[1:])
    ledger.chain.open_entry_count = 1
    dispatcher.redeliver(consumer, [(10, 0), (11, 0)], 0)
    await settle()
    assert client.positions == [(10, 0), (11, 0), (11, 0)]
    assert not dispatcher.waiting


async def test_a_consumer_that_acknowledges_nothing_gets_no_more_than_can_be_remembered(
    dispatchers: Dispatchers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.system.broker.dispatch.consumer.MAX_UNACKED", 3)
    dispatcher, client, other = dispatchers.multiple(singles(9)), Client(), Client()
    consumer = client.consumer()
    dispatcher.add(consumer)
    await settle()
    assert numbers(client) == [0, 1, 2]
    dispatcher.entries_acknowledged(consumer, [(10, 0)])
    await settle()
    assert numbers(client)[3:] == [3]
    dispatcher.add(other.consumer())
    await settle()
    assert numbers(other) == [4, 5, 6]


async def test_skipped_entries_make_room_for_others(
    dispatchers: Dispatchers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.system.broker.dispatch.consumer.MAX_UNACKED", 3)
    dispatcher, client = dispatchers.multiple(singles(6)), Client()
    consumer = client.consumer()
    dispatcher.add(consumer)
    await settle()
    assert numbers(client) == [0, 1, 2]
    dispatcher.cursor.acknowledge_up_to((10, 1))
    dispatcher.skip()
    assert list(consumer.pending_acks) == [(10, 2)]
    await settle()
    assert numbers(client)[3:] == [3, 4]


# Key_Shared


async def test_skipped_entries_no_longer_keep_a_key_from_its_new_consumer(
    dispatchers: Dispatchers,
) -> None:
    old_client, new_client = Client(), Client()
    old, new = old_client.consumer(), new_client.consumer()
    _, moving = keys_of(old, new)
    ledger = keyed(moving, moving)
    dispatcher = dispatchers.multiple(ledger, in_order())
    dispatcher.add(old)
    await settle()
    dispatcher.add(new)
    dispatcher.redeliver(old, [(10, 0)], 0)
    await settle()
    assert list(dispatcher.waiting) == [(10, 0)]
    dispatcher.cursor.acknowledge_up_to((10, 1))
    dispatcher.skip()
    assert not dispatcher.waiting
    ledger.append(message(moving))
    dispatcher.wake()
    await settle()
    assert numbers(new_client) == [2]


async def test_keys_stay_with_their_consumer_in_order(dispatchers: Dispatchers) -> None:
    clients = [Client(), Client()]
    members = [client.consumer() for client in clients]
    mine, theirs = keys_of(*members)
    dispatcher = dispatchers.multiple(keyed(*[mine, theirs, theirs, mine] * 5), in_order())
    for member in members:
        dispatcher.add(member)
    await settle()
    assert numbers(clients[0]) == [number for number in range(20) if number % 4 in (0, 3)]
    assert numbers(clients[1]) == [number for number in range(20) if number % 4 in (1, 2)]


@pytest.mark.promise("Keys keep their order when a consumer joins")
async def test_a_consumer_that_joins_gets_a_key_only_when_its_entries_are_acknowledged(
    dispatchers: Dispatchers,
) -> None:
    old_client, new_client = Client(), Client()
    old, new = old_client.consumer(), new_client.consumer()
    _, moving = keys_of(old, new)
    ledger = keyed(moving, moving)
    dispatcher = dispatchers.multiple(ledger, in_order())
    dispatcher.add(old)
    await settle()
    assert numbers(old_client) == [0, 1]
    dispatcher.add(new)
    ledger.append(message(moving))
    dispatcher.wake()
    await settle()
    for position in [(10, 0), (10, 1)]:
        assert new_client.positions == []
        dispatcher.cursor.acknowledge([position])
        dispatcher.entries_acknowledged(old, [position])
        await settle()
    assert (numbers(new_client), numbers(old_client)) == ([2], [0, 1])


async def test_later_entries_of_a_key_wait_behind_an_earlier_one(dispatchers: Dispatchers) -> None:
    slow_client, quick_client = Client(), Client()
    slow, quick = slow_client.consumer(permits=1), quick_client.consumer()
    held, free = keys_of(slow, quick)
    dispatcher = dispatchers.multiple(keyed(held, held, free, held, free), in_order())
    dispatcher.add(slow)
    dispatcher.add(quick)
    for permits, got in ((0, [0]), (1, [0, 1]), (5, [0, 1, 3])):
        slow.permits += permits
        dispatcher.wake()
        await settle()
        assert (numbers(slow_client), numbers(quick_client)) == (got, [2, 4])


async def test_a_key_waits_for_its_consumer_that_does_not_read(dispatchers: Dispatchers) -> None:
    reading, silent = Client(), Client(is_writable=False)
    consumers = [client.consumer() for client in (reading, silent)]
    read, unread = keys_of(*consumers)
    dispatcher = dispatchers.multiple(keyed(unread, read, unread, read), in_order())
    for consumer in consumers:
        dispatcher.add(consumer)
    await settle()
    assert (numbers(reading), numbers(silent)) == ([1, 3], [])
    silent.is_writable = True
    dispatcher.wake()
    await settle()
    assert numbers(silent) == [0, 2]


def sticky(client: Client, key: bytes, *, permits: int, idle: Client) -> tuple[Consumer, Consumer]:
    """Return a consumer that is assigned only this key's hash, and one that is assigned all lower
    hashes.
    """
    at = hash_of_key(key)
    return client.consumer(permits=permits, ranges=[(at, at)]), idle.consumer(ranges=[(0, at - 1)])


async def test_no_entry_overtakes_one_of_its_key_when_permits_come_during_a_read(
    dispatchers: Dispatchers,
) -> None:
    client = Client()
    ledger = keyed("k", "k")
    dispatcher = dispatchers.multiple(ledger, in_order(StickyRanges()))
    consumers = sticky(client, b"k", permits=1, idle=Client())
    for consumer in consumers:
        dispatcher.add(consumer)
    await settle()
    ledger.append(message("k"))

    def give_permits() -> None:
        consumers[0].permits = 10

    ledger.before_read = give_permits
    dispatcher.wake()
    await settle()
    assert numbers(client) == [0, 1, 2]


async def test_looking_ahead_ends_when_too_many_wait(
    dispatchers: Dispatchers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiple, "MAX_WAITING", 100)
    idle = Client()
    dispatcher = dispatchers.multiple(keyed(*["k"] * 1000), in_order(StickyRanges()))
    for consumer in sticky(Client(), b"k", permits=0, idle=idle):
        dispatcher.add(consumer)
    await settle()
    assert 100 <= len(dispatcher.waiting) < 300
    assert idle.positions == []


# Consumers that join, leave or return entries during a read


class SlowLedger(MemoryLedger):
    """A ledger whose reads wait until `gate` is set."""

    gate: asyncio.Event | None = None

    async def read(self, start: Position, max_entries: int, max_bytes: int) -> list[StoredEntry]:
        found = await super().read(start, max_entries, max_bytes)
        if self.gate is not None:
            await self.gate.wait()
        return found


class ReadUnderWay:
    """Two consumers on a Key_Shared subscription: `first` has received the first entries of a key,
    and the key's next entry is being read for it.
    """

    def __init__(self, dispatchers: Dispatchers) -> None:
        self.first_client, self.second_client = Client(), Client()
        self.first = self.first_client.consumer("first", permits=2)
        self.second = self.second_client.consumer("second", permits=100)
        key, _ = keys_of(self.first, self.second)
        self.ledger = SlowLedger([message(key, number) for number in range(4)])
        self.dispatcher = dispatchers.multiple(self.ledger, in_order())

    async def begin(self) -> None:
        self.dispatcher.add(self.first)
        self.dispatcher.add(self.second)
        await settle()
        assert numbers(self.first_client) == [0, 1]
        self.ledger.gate = asyncio.Event()
        self.first.permits += 1
        self.dispatcher.retry()
        await settle()

    async def end(self) -> None:
        assert self.ledger.gate is not None
        self.ledger.gate.set()
        await settle()


@pytest.fixture
async def under_way(dispatchers: Dispatchers) -> ReadUnderWay:
    made = ReadUnderWay(dispatchers)
    await made.begin()
    return made


@pytest.mark.promise(
    "Keys keep their order when a consumer leaves or returns entries during a read"
)
async def test_a_consumer_that_leaves_during_a_read_leaves_its_keys_in_order(
    under_way: ReadUnderWay,
) -> None:
    under_way.dispatcher.remove(under_way.first)
    await under_way.end()
    assert numbers(under_way.second_client) == [0, 1, 2, 3]


async def test_an_entry_given_back_during_a_read_of_a_later_one_comes_first(
    under_way: ReadUnderWay,
) -> None:
    under_way.first.permits += 3
    under_way.dispatcher.redeliver(under_way.first, [(10, 0), (10, 1)], 0)
    await under_way.end()
    assert numbers(under_way.first_client)[2:] == [0, 1, 2, 3]


async def test_a_consumer_that_joins_during_a_read_gets_no_key_of_which_another_holds_entries(
    under_way: ReadUnderWay,
) -> None:
    members = [Client() for _ in range(8)]
    for member in members:
        under_way.dispatcher.add(member.consumer())
    await under_way.end()
    assert [member.positions for member in members] == [[]] * 8
    for position in under_way.first_client.positions:
        under_way.dispatcher.cursor.acknowledge([position])
        under_way.dispatcher.entries_acknowledged(under_way.first, [position])
    await settle()
    clients = [under_way.first_client, under_way.second_client, *members]
    assert sorted(number for client in clients for number in numbers(client)) == [0, 1, 2, 3]


# Delayed delivery


@pytest.mark.promise("Delayed messages are delivered when they are due")
async def test_delayed_entries_are_kept_back_stop_no_other_and_come_when_they_are_due(
    dispatchers: Dispatchers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiple, "MAX_DUE_PER_TURN", 3)
    client, now_ms = Client(), 58
    ledger = MemoryLedger([*[entry(deliver_at_time=60)] * 10, message()])
    dispatchers.multiple(ledger, now_ms=lambda: now_ms).add(client.consumer())
    await settle()
    assert numbers(client) == [10]
    now_ms = 60
    # Nothing else wakes the dispatcher.
    await until(lambda: numbers(client) == [10, *range(10)])


def test_what_is_due_comes_in_the_order_in_which_it_is_due() -> None:
    delayed = DelayedEntries()
    for due_ms, position, group in ((30, (1, 0), 5), (10, (1, 1), 6), (20, (1, 2), 7)):
        delayed.add(due_ms, position, group)
    assert delayed.next_due_ms() == 10
    assert delayed.pop_due(9, 9) == []
    assert delayed.pop_due(20, 9) == [((1, 1), 6), ((1, 2), 7)]
    assert delayed.next_due_ms() == 30
    assert delayed.pop_due(99, 9) == [((1, 0), 5)]
    assert delayed.next_due_ms() is None
