"""Test how a broker's configuration and a namespace's policies affect Pulsar's own client."""

import asyncio
import json

import pulsar
import pytest

from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.policies import policies_path
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.client import connect, receive_all
from tests.system.broker.serving import serving

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.promise(
    "A missing topic is created or reported as missing, depending on the configuration"
)
async def test_missing_topic_is_created_with_partitions(bookies: LocalCluster, topic: str) -> None:
    config = BrokerConfig(default_num_partitions=3)

    def produce(url: str) -> list[pulsar.MessageId]:
        client = connect(url)
        producer = client.create_producer(topic)
        ids = [producer.send(b"x") for _ in range(9)]
        partitions = client.get_topic_partitions(topic)
        client.close()
        assert len(partitions) == 3
        return ids

    async with serving(bookies, config) as broker:
        ids = await asyncio.to_thread(produce, broker.address.service_url)
    assert {message_id.partition() for message_id in ids} == {0, 1, 2}


async def test_topic_that_must_not_be_made_is_not_found(bookies: LocalCluster, topic: str) -> None:
    config = BrokerConfig(allow_auto_topic_creation=False)

    def want(url: str, name: str) -> None:
        client = connect(url)
        with pytest.raises(pulsar.TopicNotFound):
            client.create_producer(name)
        client.close()

    async with serving(bookies, config) as broker:
        await asyncio.to_thread(want, broker.address.service_url, topic)


@pytest.mark.promise(
    "A namespace policy controls whether a message that is sent again is stored once"
)
@pytest.mark.parametrize("enabled", [True, False])
async def test_namespace_may_enable_deduplication(brokers: LocalCluster, enabled: bool) -> None:
    bookkeeper = await brokers.connect()
    namespace = f"public/deduplicated-{enabled}"
    data = json.dumps({"deduplicationEnabled": enabled}).encode()
    await bookkeeper.store.create(policies_path(namespace), data)
    topic = f"persistent://{namespace}/topic"

    def produce() -> None:
        client = connect(brokers.service_url)
        first = client.create_producer(topic, "mine")
        ids = [first.send(str(number).encode(), sequence_id=number) for number in (1, 2, 2, 3)]
        first.close()
        second = client.create_producer(topic, "mine")
        assert second.last_sequence_id() == (3 if enabled else -1)
        ids += [second.send(str(number).encode(), sequence_id=number) for number in (3, 4)]
        doubles = [ids.pop(4), ids.pop(2)]
        stored = [b"1", b"2", b"3", b"4"] if enabled else [b"1", b"2", b"2", b"3", b"3", b"4"]
        received = receive_all(client, topic, len(stored))
        client.close()
        assert [payload for _, payload in received] == stored
        if enabled:
            assert [message_id for message_id, _ in received] == ids
            assert {message_id.ledger_id() for message_id in doubles} == {-1}

    await asyncio.to_thread(produce)
