"""Test that a partition whose ledger fails continues in the next ledger without lost or duplicate
messages.
"""

import asyncio
from typing import Any

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import in_name_order
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import BKNotEnoughBookiesException
from labkit.system.model.ledger import LedgerState
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.topic import Topic
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.repeat import repeated
from tests.system.topic.support import numbered, receive_all, send_all
from tests.until import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("rounds", repeated(range(3)))
async def test_ledger_that_a_client_recovers_is_left_without_a_lost_or_double_message(
    cluster: LocalCluster, owner: BookKeeper, name: str, rounds: int
) -> None:
    topic = await Topic.create(owner, name, partitions=0)
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


async def test_messages_that_no_ledger_takes_fail_and_so_do_all_later_ones_until_it_is_opened_again(
    cluster: LocalCluster, name: str
) -> None:
    client = await cluster.connect(
        placement=in_name_order, config=ClientConfig(request_timeout_s=0.2)
    )
    config = ManagedLedgerConfig(5, 5, 4)
    topic = await Topic.create(client, name, partitions=0, config=config)
    producer = topic.producer()
    before = await send_all(producer, numbered(0, 3))
    for bookie in ("bookie-1", "bookie-2"):
        await cluster.kill(bookie)
    await client.store.delete("/ledgers/available/bookie-1")
    with pytest.raises(
        BKNotEnoughBookiesException, match=r"needs 5 writable bookies, but there are only [34] "
    ):
        await producer.send(b"too early")
    for bookie in ("bookie-1", "bookie-2"):
        await cluster.restart(bookie)
    with pytest.raises(BKNotEnoughBookiesException):
        await producer.send(b"still too early")
    await topic.close()
    again = await Topic.create(client, name, partitions=0, config=config)
    after = await again.producer().send(b"after")
    assert after.ledger_id > before[-1].ledger_id
    payloads = [message.payload for message in await receive_all(again.consumer())]
    assert payloads == [*numbered(0, 3), b"after"]
    await again.close()


async def test_few_ledgers_are_made_while_killed_bookies_are_still_registered(
    cluster: LocalCluster, client: BookKeeper, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    create_ledger = client.create_ledger

    async def create_and_count(*sizes: int, **options: Any) -> LedgerWriter:
        writer = await create_ledger(*sizes, **options)
        made.append(writer.ledger_id)
        return writer

    config = ManagedLedgerConfig(5, 5, 4)
    topic = await Topic.create(client, name, partitions=0, config=config)
    await topic.producer().send(b"before")
    monkeypatch.setattr(client, "create_ledger", create_and_count)
    await asyncio.gather(*map(cluster.kill, cluster.bookie_names))
    sent = topic.producer().send(b"meanwhile")
    await until(lambda: len(made) >= 4)
    await asyncio.gather(*map(cluster.restart, cluster.bookie_names))
    try:
        await sent
    # While the bookies restarted, one of them was not registered.
    except BKNotEnoughBookiesException:
        await topic.close()
        topic = await Topic.create(client, name, partitions=0, config=config)
        await topic.producer().send(b"meanwhile")
    assert len(made) < 20
    received = await receive_all(topic.consumer())
    assert [message.payload for message in received] == [b"before", b"meanwhile"]
    await topic.close()


async def test_partition_of_a_dead_owner_is_taken_over_with_all_that_was_acknowledged(
    cluster: LocalCluster, owner: BookKeeper, name: str
) -> None:
    dead = await cluster.connect("dead", placement=in_name_order)
    topic = await Topic.create(dead, name, partitions=0)
    ids = await send_all(topic.producer(), numbered(0, 20))
    dead.close()
    new = await Topic.create(owner, name, partitions=0)
    [link, _] = await new.ledgers()
    assert (link.ledger_id, link.entry_count) == (ids[0].ledger_id, 20)
    assert (await owner.ledger_metadata(link.ledger_id)).state is LedgerState.CLOSED
    await send_all(new.producer(), numbered(20, 25))
    received = await receive_all(new.consumer())
    assert [message.payload for message in received] == numbered(0, 25)
    await new.close()
