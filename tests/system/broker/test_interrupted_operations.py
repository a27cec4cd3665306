"""Tests for multi-step operations during which the broker dies, once before each metadata change.

Another broker then finds the topic unchanged, or can complete the operation.
"""

from contextlib import suppress

import pytest

from labkit.system.broker.broker import Broker
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.operations.deletion import PartitionedDeletion, delete_topic
from labkit.system.broker.operations.partitions import (
    create_partitioned_topic,
    grow_partitioned_topic,
)
from labkit.system.metadata.store import NoNodeError
from labkit.system.topic.deletion import is_marked
from labkit.system.topic.names import managed_ledger_path, partition_name
from labkit.system.topic.partitions import read_partitioned_topic
from tests.system.broker.interrupted import (
    PLAIN,
    SUBSCRIPTIONS,
    Producer,
    check_gone,
    check_whole,
    fill,
    interrupted,
)

WHOLE = "persistent://public/default/whole"
PARTITIONS = [partition_name(WHOLE, each) for each in range(2)]


async def delete_partitions(broker: Broker, *, force: bool = False) -> None:
    """Delete the partitions in the way the HTTP server does if one broker owns all of them."""
    deletion = await PartitionedDeletion.begin(broker, WHOLE)
    try:
        for partition in await deletion.unmarked_partitions():
            await broker.look_up(partition, authoritative=True)
            await deletion.close(partition, force=force)
    except BrokerError:
        await deletion.cancel()
        raise
    await deletion.finish()


async def begin_plain(broker: Broker) -> None:
    await fill(broker, PLAIN)


async def begin_partitioned(broker: Broker) -> None:
    await create_partitioned_topic(broker, WHOLE, 2)
    for partition in PARTITIONS:
        await fill(broker, partition)


@pytest.mark.promise(
    "If a broker dies while it deletes or grows a topic, the topic is unchanged or the next "
    "request finishes the work"
)
def test_interrupted_deletion_leaves_the_topic_whole_or_is_finished_by_the_next_one() -> None:
    async def check(broker: Broker) -> None:
        await broker.look_up(PLAIN, authoritative=True)
        exists = await broker.store.exists(managed_ledger_path(PLAIN))
        if exists and not await is_marked(broker.store, PLAIN):
            await check_whole(broker, PLAIN)
        if exists:
            await delete_topic(broker, PLAIN, force=False)
        await check_gone(broker.client, PLAIN)

    interrupted(begin_plain, lambda each: delete_topic(each, PLAIN, force=True), check)


def test_topic_that_is_opened_after_an_interrupted_deletion_is_whole_or_empty() -> None:
    found = []

    async def check(broker: Broker) -> None:
        await broker.look_up(PLAIN, authoritative=True)
        was_decided = not await broker.store.exists(managed_ledger_path(PLAIN))
        was_decided = was_decided or await is_marked(broker.store, PLAIN)
        found.append(was_decided)
        if not was_decided:
            await check_whole(broker, PLAIN)
            return
        opened = await broker.topic(PLAIN)
        assert opened.subscriptions.all == []
        assert await opened.ledger.read((0, 0), 100, 1000) == []
        await broker.unload(PLAIN)
        await delete_topic(broker, PLAIN, force=False)
        await check_gone(broker.client, PLAIN)

    interrupted(begin_plain, lambda each: delete_topic(each, PLAIN, force=False), check)
    assert set(found) == {False, True}


def test_interrupted_deletion_of_a_partitioned_topic_is_finished_by_the_next_one() -> None:
    async def check(broker: Broker) -> None:
        with suppress(BrokerError):  # The topic has already been deleted.
            await delete_partitions(broker)
        await check_gone(broker.client, WHOLE, *PARTITIONS)

    interrupted(begin_partitioned, delete_partitions, check)


def test_partition_of_a_topic_that_is_being_deleted_is_not_opened() -> None:
    async def check(broker: Broker) -> None:
        with suppress(NoNodeError):
            record, _ = await read_partitioned_topic(broker.store, WHOLE)
            if not record.is_being_deleted:
                await check_whole(broker, PARTITIONS[0])
                return
        for partition in PARTITIONS:
            await broker.look_up(partition, authoritative=True)
            with pytest.raises(BrokerError):
                await broker.topic(partition)

    interrupted(begin_partitioned, delete_partitions, check)


async def rejected(broker: Broker) -> None:
    """Try to delete a topic whose last partition is in use."""
    (await broker.topic(PARTITIONS[-1])).producers["p"] = Producer()
    with pytest.raises(BrokerError, match="in use by the producers p"):
        await delete_partitions(broker)


def test_rejected_deletion_of_a_partitioned_topic_changes_nothing_and_can_be_repeated() -> None:
    async def check(broker: Broker) -> None:
        record, _ = await read_partitioned_topic(broker.store, WHOLE)
        if record.is_being_deleted:
            # The deletion was interrupted, so the next request can cancel it.
            deletion = await PartitionedDeletion.begin(broker, WHOLE)
            await deletion.cancel()
        for partition in PARTITIONS:
            await check_whole(broker, partition)
        await delete_partitions(broker, force=True)
        await check_gone(broker.client, WHOLE, *PARTITIONS)

    interrupted(begin_partitioned, rejected, check)


def test_interrupted_growth_is_finished_by_the_next_one_without_missed_messages() -> None:
    async def check(broker: Broker) -> None:
        record, _ = await read_partitioned_topic(broker.store, WHOLE)
        third = partition_name(WHOLE, 2)
        await broker.look_up(third, authoritative=True)
        if record.count == 2:
            with pytest.raises(BrokerError):
                await broker.topic(third)
            await grow_partitioned_topic(broker, WHOLE, 3)
        opened = await broker.topic(third)
        await (await opened.ledger.append(b"x"))
        backlogs = {
            name: cursor.unacknowledged_count for name, cursor in opened.ledger.cursors.items()
        }
        assert backlogs == dict.fromkeys(SUBSCRIPTIONS, 1)
        await check_whole(broker, PARTITIONS[0])

    async def grow(broker: Broker) -> None:
        await grow_partitioned_topic(broker, WHOLE, 3)

    interrupted(begin_partitioned, grow, check)
