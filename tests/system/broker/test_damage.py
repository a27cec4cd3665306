"""Test that a client skips an entry that was damaged before it was stored, and the broker reports
it.
"""

import asyncio

import pytest
from pulsar import InitialPosition

from labkit.system.broker.config import BrokerConfig
from labkit.system.trace.events import Event
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.client import connect, received_payloads, rest
from tests.system.broker.in_memory import message
from tests.system.broker.serving import serving

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.promise("A damaged entry is reported")
async def test_a_damaged_entry_is_skipped_and_reported(bookies: LocalCluster, topic: str) -> None:
    def consume(url: str) -> None:
        client = connect(url)
        consumer = client.subscribe(topic, "sub", initial_position=InitialPosition.Earliest)
        assert received_payloads(consumer, 2) == [b"x", b"x"]
        assert rest(consumer) == []
        client.close()

    async with serving(bookies, BrokerConfig()) as broker:
        told: list[Event] = []
        broker.client.recorder.listen(told.extend)
        await broker.look_up(topic, authoritative=True)
        ledger = (await broker.topic(topic)).ledger
        whole = message()
        stored = [await ledger.append(each) for each in (whole, whole[:-1] + b"y", whole)]
        _, damaged, _ = [await each for each in stored]
        await asyncio.to_thread(consume, broker.address.service_url)
    found = [row for row in told if row.kind == "entry.discarded"]
    assert [(row.ledger, row.entry) for row in found] == [damaged]
    assert "ChecksumMismatch" in found[0].explanation
