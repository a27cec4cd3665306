"""Entries whose delivery is delayed: kept back until they are due, and then delivered."""

import asyncio

import pytest

from labkit.system.broker.dispatch import multiple
from labkit.system.broker.dispatch.delayed import Delayed
from labkit.system.broker.dispatch.multiple import Multiple
from labkit.system.broker.dispatch.shared import Shared
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata
from tests.system.broker.in_memory import Client, MemoryLedger, message, surroundings


async def settle() -> None:
    """Let the dispatcher's task do what it can."""
    for _ in range(100):
        await asyncio.sleep(0)


def delayed_message(due_ms: int) -> bytes:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=1, deliver_at_time=due_ms
    )
    head = metadata.SerializeToString()
    return len(head).to_bytes(4, "big") + head + b"x"


async def test_a_delayed_entry_is_kept_back_and_stops_no_other() -> None:
    ledger, client = MemoryLedger([delayed_message(60), message()]), Client()
    now_ms = 50
    dispatcher = Multiple(ledger, ledger.cursor(), Shared(), surroundings(lambda: now_ms))
    dispatcher.add(client.consumer())
    await settle()
    assert client.positions == [(10, 1)]
    now_ms = 60
    dispatcher.wake()
    await settle()
    assert client.positions == [(10, 1), (10, 0)]
    dispatcher.stop()


async def test_what_is_due_is_delivered_without_another_reason() -> None:
    ledger, client = MemoryLedger([delayed_message(60)]), Client()
    now_ms = 58
    dispatcher = Multiple(ledger, ledger.cursor(), Shared(), surroundings(lambda: now_ms))
    dispatcher.add(client.consumer())
    await settle()
    now_ms = 60
    async with asyncio.timeout(10):
        while not client.positions:  # noqa: ASYNC110 - the alarm rings by itself
            await asyncio.sleep(0.001)
    assert client.positions == [(10, 0)]
    dispatcher.stop()


def test_what_is_due_comes_in_the_order_in_which_it_is_due() -> None:
    delayed = Delayed()
    delayed.add(30, (1, 0), 5)
    delayed.add(10, (1, 1), 6)
    delayed.add(20, (1, 2), 7)
    assert delayed.next_due_ms() == 10
    assert delayed.take_due(9, 9) == []
    assert delayed.take_due(20, 9) == [((1, 1), 6), ((1, 2), 7)]
    assert delayed.next_due_ms() == 30
    assert delayed.take_due(99, 9) == [((1, 0), 5)]
    assert delayed.next_due_ms() is None


async def test_more_entries_than_one_turn_takes_become_due_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(multiple, "MAX_DUE", 3)
    ledger, client, now_ms = MemoryLedger([delayed_message(60)] * 10), Client(), 50
    dispatcher = Multiple(ledger, ledger.cursor(), Shared(), surroundings(lambda: now_ms))
    dispatcher.add(client.consumer())
    await settle()
    assert client.positions == []
    now_ms = 60
    dispatcher.wake()
    await settle()
    assert client.positions == [(10, number) for number in range(10)]
    dispatcher.stop()
