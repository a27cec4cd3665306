"""Consumers whose clients do not read what they were sent."""

import asyncio

import pytest

from labkit.system.broker.dispatch.key_shared import AutoSplitRanges, KeyShared
from labkit.system.broker.dispatch.multiple import Multiple
from labkit.system.broker.dispatch.shared import Shared
from labkit.system.broker.dispatch.single_active import Exclusive, SingleActive
from tests.system.broker.in_memory import Client, MemoryLedger, key_of, message, surroundings


async def settle() -> None:
    """Let the dispatcher's task do what it can."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_a_client_that_does_not_read_gets_nothing_until_it_does() -> None:
    ledger, client = MemoryLedger([message() for _ in range(3)]), Client(is_writable=False)
    dispatcher = SingleActive(ledger, ledger.cursor(), Exclusive(), surroundings())
    dispatcher.add(client.consumer())
    await settle()
    assert (client.positions, ledger.reads) == ([], [])
    client.is_writable = True
    dispatcher.wake()
    await settle()
    assert client.positions == [(10, 0), (10, 1), (10, 2)]
    dispatcher.stop()


@pytest.mark.parametrize("reads_again", [False, True])
async def test_a_consumer_that_does_not_read_stops_no_other(reads_again: bool) -> None:
    ledger = MemoryLedger([message() for _ in range(6)])
    dispatcher = Multiple(ledger, ledger.cursor(), Shared(), surroundings())
    reading, silent = Client(), Client(is_writable=False)
    dispatcher.add(silent.consumer("silent"))
    dispatcher.add(reading.consumer("reading", permits=4))
    await settle()
    assert reading.positions == [(10, number) for number in range(4)]
    silent.is_writable = reads_again
    dispatcher.wake()
    await settle()
    assert silent.positions == ([(10, 4), (10, 5)] if reads_again else [])
    dispatcher.stop()


async def test_a_key_waits_for_its_consumer_that_does_not_read() -> None:
    ledger, ranges = MemoryLedger([]), AutoSplitRanges()
    choice = KeyShared(ranges, keeps_order=True)
    dispatcher = Multiple(ledger, ledger.cursor(), choice, surroundings())
    reading, silent = Client(), Client(is_writable=False)
    consumers = [client.consumer() for client in (reading, silent)]
    for consumer in consumers:
        dispatcher.add(consumer)
    read, unread = (key_of(ranges, consumer) for consumer in consumers)
    for key in (unread, read, unread, read):
        ledger.append(message(key))
    dispatcher.wake()
    await settle()
    assert (reading.positions, silent.positions) == ([(10, 1), (10, 3)], [])
    silent.is_writable = True
    dispatcher.wake()
    await settle()
    assert silent.positions == [(10, 0), (10, 2)]
    dispatcher.stop()
