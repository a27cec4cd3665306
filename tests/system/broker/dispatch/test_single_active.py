"""Tests for Exclusive and Failover dispatch that `dispatch_single_active.txt` cannot show."""

import pytest

from labkit.system.broker.dispatch.single_active import choose_active
from tests.system.broker.in_memory import Client, Dispatchers, MemoryLedger, message, settle


async def test_an_entry_that_cannot_be_decoded_is_skipped(
    dispatchers: Dispatchers,
) -> None:
    ledger, client = MemoryLedger([b"not a message", message()]), Client()
    dispatcher = dispatchers.single(ledger)
    dispatcher.add(client.consumer(permits=1))
    await settle()
    assert client.positions == [(10, 1)]
    assert dispatcher.cursor.mark_delete == (10, 0)


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
def test_failover_spreads_partitions(
    partition: int, consumers: dict[str, int], active: str
) -> None:
    connected = [Client().consumer(name, priority=each) for name, each in consumers.items()]
    assert choose_active(connected, partition).name == active
