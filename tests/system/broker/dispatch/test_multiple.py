"""Tests for Shared and Key_Shared dispatch that `dispatch_shared.txt` and `dispatch_key_shared.txt`
cannot show: chunks, undecodable entries, limits and delayed delivery.
"""

from typing import Any

import pytest

from labkit.system.broker.dispatch import multiple
from labkit.system.broker.dispatch.key_shared import AutoSplitRanges, KeySharedSelector
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from tests.system.broker.in_memory import (
    Client,
    Dispatchers,
    MemoryLedger,
    key_of,
    message,
    settle,
)
from tests.until import until


def singles(count: int) -> MemoryLedger:
    return MemoryLedger([message() for _ in range(count)])


def entry(**fields: Any) -> bytes:
    """Return an entry with these metadata fields."""
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, **fields)
    head = metadata.SerializeToString()
    return len(head).to_bytes(4, "big") + head + b"x"


def numbers(client: Client) -> list[int]:
    """Return the ids of the entries that the client has received from ledger 10."""
    assert {ledger_id for ledger_id, _ in client.positions} <= {10}
    return [entry_id for _, entry_id in client.positions]


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


async def test_a_consumer_holds_a_bounded_number_of_entries(
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
    dispatcher.cursor.acknowledge_up_to((10, 2))
    dispatcher.skip()
    assert list(consumer.pending_acks) == [(10, 3)]
    await settle()
    assert numbers(client)[4:] == [4, 5]
    dispatcher.add(other.consumer())
    await settle()
    assert numbers(other) == [6, 7, 8]


async def test_no_entries_are_read_ahead_while_too_many_wait(
    dispatchers: Dispatchers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiple, "MAX_WAITING", 100)
    idle, ranges = Client(), AutoSplitRanges()
    consumers = [Client().consumer(permits=0), idle.consumer()]
    for consumer in consumers:
        ranges.add(consumer)
    key = key_of(ranges, consumers[0])
    ledger = MemoryLedger([message(key) for _ in range(1000)])
    selector = KeySharedSelector(AutoSplitRanges(), keeps_order=True)
    dispatcher = dispatchers.multiple(ledger, selector)
    for consumer in consumers:
        dispatcher.add(consumer)
    await settle()
    assert 100 <= len(dispatcher.waiting) < 300
    assert idle.positions == []


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


async def test_delayed_entries_are_delivered_in_the_order_in_which_they_are_due(
    dispatchers: Dispatchers,
) -> None:
    client, now_ms = Client(), 9
    ledger = MemoryLedger([entry(deliver_at_time=due_ms) for due_ms in (30, 10, 20)])
    dispatcher = dispatchers.multiple(ledger, now_ms=lambda: now_ms)
    dispatcher.add(client.consumer())
    due = {9: [], 10: [1], 19: [1], 20: [1, 2], 30: [1, 2, 0]}
    for now_ms, delivered in due.items():  # noqa: B007 - the dispatcher reads the time
        dispatcher.wake()
        await settle()
        assert numbers(client) == delivered
