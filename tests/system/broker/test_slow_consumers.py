"""Test that a consumer whose client does not read does not block others, over real TCP
connections.
"""

import asyncio

import pytest

from labkit.system.broker.broker import Broker
from labkit.system.broker.config import BrokerConfig
from labkit.worlds.live.net import FrameConnection
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.client import connect, receive_all
from tests.system.broker.raw import RawClient
from tests.system.broker.serving import serving
from tests.until import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

MIB = 1024 * 1024
COUNT = 40
LARGE = bytes(MIB)
"""`COUNT` messages of this size exceed the socket buffers of both sides several times."""


def waiting_bytes(broker: Broker) -> int:
    """Return the number of bytes that the broker buffers for clients."""
    wires = [connection.wire for connection in broker.connections]
    return sum(wire.unread_bytes for wire in wires if isinstance(wire, FrameConnection))


@pytest.mark.promise(
    "A consumer whose client does not read does not block the others and takes little memory"
)
async def test_little_is_kept_for_a_client_that_does_not_read_and_the_others_go_on(
    bookies: LocalCluster, topic: str
) -> None:
    def produce(url: str) -> None:
        client = connect(url)
        producer = client.create_producer(topic)
        for _ in range(COUNT):
            producer.send(LARGE)
        client.close()

    def consume(url: str) -> int:
        client = connect(url)
        received = receive_all(client, topic, COUNT)
        client.close()
        return sum(len(payload) for _, payload in received)

    async with serving(bookies, BrokerConfig()) as broker:
        url = broker.address.service_url
        await broker.look_up(topic, authoritative=True)  # Make this broker the owner of the topic.
        await asyncio.to_thread(produce, url)
        await until(lambda: not broker.connections)
        silent = await RawClient.connect(url)
        await silent.subscribe(topic)
        silent.flow()
        [connection] = broker.connections
        await until(lambda: not connection.is_writable)
        assert await asyncio.to_thread(consume, url) == COUNT * MIB
        # The broker sends 4 MiB per turn, plus at most one message.
        assert 0 < waiting_bytes(broker) < 6 * MIB
        entry_ids = [each.message_id.entryId for each in await silent.receive(COUNT)]
        assert entry_ids == list(range(COUNT))
        assert await silent.is_silent()
        silent.close()
