"""Consumers join, leave and give entries back while entries are read for them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from labkit.system.broker.dispatch.key_shared import AutoSplitRanges, KeyShared
from labkit.system.broker.dispatch.multiple import Multiple
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.chain.chain_reader import StoredEntry
from tests.system.broker.in_memory import Client, MemoryLedger, key_of, message, surroundings


async def settle() -> None:
    """Let the dispatcher's task do what it can."""
    for _ in range(100):
        await asyncio.sleep(0)


class SlowLedger(MemoryLedger):
    """Reads wait until `gate` is set."""

    gate: asyncio.Event | None = None

    async def read(self, start: Position, max_entries: int, max_bytes: int) -> list[StoredEntry]:
        found = await super().read(start, max_entries, max_bytes)
        if self.gate is not None:
            await self.gate.wait()
        return found


class ReadUnderWay:
    """Two consumers share the keys; the first entries of a key of `first` are with it, and the next
    one is being read for it.
    """

    def __init__(self) -> None:
        self.first_client, self.second_client = Client(), Client()
        self.first = self.first_client.consumer("first", permits=2)
        self.second = self.second_client.consumer("second", permits=100)
        ranges = AutoSplitRanges()
        ranges.add(self.first)
        ranges.add(self.second)
        key = key_of(ranges, self.first)
        self.ledger = SlowLedger([message(key, number) for number in range(4)])
        self.cursor = self.ledger.cursor()
        choice = KeyShared(AutoSplitRanges(), keeps_order=True)
        self.dispatcher = Multiple(self.ledger, self.cursor, choice, surroundings())

    async def begin(self) -> None:
        self.dispatcher.add(self.first)
        self.dispatcher.add(self.second)
        await settle()
        assert self.first_client.positions == [(10, 0), (10, 1)]
        self.ledger.gate = asyncio.Event()
        self.first.permits += 1
        self.dispatcher.retry()
        await settle()

    async def end(self) -> None:
        assert self.ledger.gate is not None
        self.ledger.gate.set()
        await settle()


@pytest.fixture
async def under_way() -> AsyncIterator[ReadUnderWay]:
    made = ReadUnderWay()
    await made.begin()
    yield made
    made.dispatcher.stop()


async def test_a_consumer_that_leaves_during_a_read_leaves_its_keys_in_order(
    under_way: ReadUnderWay,
) -> None:
    under_way.dispatcher.remove(under_way.first)
    await under_way.end()
    assert under_way.second_client.positions == [(10, number) for number in range(4)]


async def test_an_entry_given_back_during_a_read_of_a_later_one_comes_first(
    under_way: ReadUnderWay,
) -> None:
    under_way.first.permits += 3
    under_way.dispatcher.redeliver(under_way.first, [(10, 0), (10, 1)], 0)
    await under_way.end()
    assert under_way.first_client.positions[2:] == [(10, number) for number in range(4)]


async def test_a_consumer_that_joins_during_a_read_gets_no_key_of_which_another_holds_entries(
    under_way: ReadUnderWay,
) -> None:
    members = [Client() for _ in range(8)]
    for member in members:
        under_way.dispatcher.add(member.consumer())
    await under_way.end()
    assert [member.positions for member in members] == [[]] * 8
    for position in under_way.first_client.positions:
        under_way.cursor.acknowledge([position])
        under_way.dispatcher.acknowledged(under_way.first, [position])
    await settle()
    clients = [under_way.first_client, under_way.second_client, *members]
    everything = sorted(position for client in clients for position in client.positions)
    assert everything == [(10, number) for number in range(4)]
