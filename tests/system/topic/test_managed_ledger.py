"""Test that a partition whose ledger fails continues in the next ledger without lost or duplicate
messages.
"""

import asyncio

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.topic.topic import Topic
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.repeat import repeated
from tests.system.topic.support import numbered, receive_all

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("rounds", repeated(range(3)))
async def test_a_topic_whose_ledger_is_recovered_loses_and_repeats_no_message(
    cluster: LocalCluster, client: BookKeeper, rounds: int
) -> None:
    topic = await Topic.create(client, f"recovered-{rounds}", partitions=0)
    producer = topic.producer()
    sent = [producer.send(payload) for payload in numbered(0, 300)]
    await sent[0]
    other = await cluster.connect("other")
    for at in range(300, 1500, 300):
        [*_, last] = await topic.ledgers()
        recovering = asyncio.create_task(other.open_ledger(last.ledger_id))
        for _ in range(rounds):
            await asyncio.sleep(0)
        sent += [producer.send(payload) for payload in numbered(at, at + 300)]
        await recovering
    ids = await asyncio.gather(*sent)
    assert ids == sorted(ids)
    assert len(set(ids)) == 1500
    assert len({message_id.ledger_id for message_id in ids}) > 1
    received = await receive_all(topic.consumer())
    assert [message.payload for message in received] == numbered(0, 1500)
    assert [message.message_id for message in received] == ids
    await topic.close()
