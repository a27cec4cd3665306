"""Operations of several steps, whose broker dies before each change of the metadata in turn.

Another broker then finds the topic as it was before, or can finish what was begun.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from labkit.client.bookkeeper import BookKeeper
from labkit.metadata.store import NoNodeError
from labkit.model.errors import LabkitError
from labkit.pulsar.broker import Broker
from labkit.pulsar.config import BrokerConfig
from labkit.pulsar.deletion import PartitionedDeletion, delete_topic
from labkit.pulsar.errors import BrokerError
from labkit.pulsar.partitions import create_partitioned_topic, grow_partitioned_topic
from labkit.sim.moments import START, At, Moment
from labkit.sim.nodes import ClientNode
from labkit.topic.deletion import is_marked
from labkit.topic.names import managed_ledger_path, partition_name, partitions_path
from labkit.topic.ownership import BrokerAddress
from labkit.topic.partitions import read_partitioned_topic
from tests.topic.simulated import FAILURES, Story, simulate

PLAIN = "persistent://public/default/plain"
WHOLE = "persistent://public/default/whole"
PARTITIONS = [partition_name(WHOLE, each) for each in range(2)]
SUBSCRIPTIONS = ["moved", "new"]
ENTRIES = 6

Operation = Callable[[Broker], Awaitable[None]]


@dataclass(frozen=True, slots=True, repr=False)
class BrokerStory(Story):
    """What a broker on the client's node does."""

    when: Moment = START

    async def run(self, node: ClientNode) -> None:
        try:
            await self.tell(node)  # type: ignore[arg-type]
        except (AssertionError, pytest.fail.Exception) as error:
            FAILURES.append(error)
            raise LabkitError("the test has failed") from error


class Producer:
    """A client's producer, as far as its topic cares."""

    def send_away(self) -> None:
        """It has nobody to tell."""

    def probe(self) -> None:
        """It is there."""


async def broker_on(node: ClientNode) -> Broker:
    address = BrokerAddress(f"{node.name}:8080", f"pulsar://{node.name}:6650")
    broker = Broker(node.client, address, BrokerConfig())
    await broker.start()
    return broker


async def fill(broker: Broker, topic: str) -> None:
    """Entries, a subscription whose cursor has a ledger, and one whose cursor has none."""
    await broker.find(topic, authoritative=True)
    opened = await broker.topic(topic)
    for name in SUBSCRIPTIONS:
        await opened.subscriptions.create(name)
    positions = [await each for each in await opened.ledger.append_all([b"x"] * ENTRIES)]
    cursor = opened.ledger.cursors["moved"]
    cursor.acknowledge(positions[2:3])
    await cursor.flush()


async def check_whole(broker: Broker, topic: str) -> None:
    """No entry and no subscription is gone, and the topic takes clients."""
    await broker.find(topic, authoritative=True)
    opened = await broker.topic(topic)
    assert [each.name for each in opened.subscriptions.all] == SUBSCRIPTIONS
    backlogs = [cursor.unacknowledged_count for cursor in opened.ledger.cursors.values()]
    assert backlogs == [ENTRIES - 1, ENTRIES]
    assert len(await opened.ledger.read((0, 0), 100, 1000)) == ENTRIES


async def check_gone(client: BookKeeper, *topics: str) -> None:
    for topic in topics:
        assert not await client.store.exists(managed_ledger_path(topic))
        assert not await client.store.exists(partitions_path(topic))
    left = [await client.ledger_metadata(each) for each in await client.list_ledgers()]
    # Who dies while it closes a cursor may leave the cursor's ledger: that is lost space.
    assert [each for each in left if "pulsar/cursor" not in dict(each.custom_metadata)] == []


def die_before_change(node: ClientNode, number: int, changes: list[str]) -> None:
    """Kill the node at that change of the metadata from now on."""
    ask = node.client.store._ask  # type: ignore[attr-defined]

    async def counted(kind: str, *arguments: Any) -> Any:
        if kind in ("create", "set", "delete"):
            changes.append(f"{kind} {arguments[0]}")
            if len(changes) == number:
                node.crash(why=f"before change {number}")
                await asyncio.sleep(1)
        return await ask(kind, *arguments)

    node.client.store._ask = counted  # type: ignore[attr-defined]


def interrupted(begin: Operation, operation: Operation, check: Operation) -> Iterator[list[str]]:
    """Run the operation on a broker that dies at its first change, at its second, and so on until
    it comes to its end; another broker then runs `check`.  Gives the changes that were begun.
    """
    number = 0
    while True:
        number += 1
        changes: list[str] = []
        ended = []

        async def first(node: ClientNode, number: int = number) -> None:
            broker = await broker_on(node)
            await begin(broker)
            die_before_change(node, number, changes)
            await operation(broker)
            ended.append(True)
            changes.clear()
            node.crash(why="after the operation")
            await asyncio.sleep(1)

        async def second(node: ClientNode) -> None:
            await check(await broker_on(node))

        simulate(BrokerStory(first), BrokerStory(second, "q", At(10_000)))
        yield changes
        if ended:
            assert number > 3, "the operation has no steps"
            return


async def delete_partitions(broker: Broker, *, force: bool = False) -> None:
    """As the HTTP side does it, if one broker has all partitions."""
    deletion = await PartitionedDeletion.begin(broker, WHOLE)
    try:
        for partition in await deletion.left():
            await broker.find(partition, authoritative=True)
            await deletion.close(partition, force=force)
    except BrokerError:
        await deletion.give_up()
        raise
    await deletion.finish()


async def begin_plain(broker: Broker) -> None:
    await fill(broker, PLAIN)


async def begin_partitioned(broker: Broker) -> None:
    await create_partitioned_topic(broker, WHOLE, 2)
    for partition in PARTITIONS:
        await fill(broker, partition)


def test_interrupted_deletion_leaves_the_topic_whole_or_is_finished_by_the_next_one() -> None:
    async def check(broker: Broker) -> None:
        await broker.find(PLAIN, authoritative=True)
        exists = await broker.store.exists(managed_ledger_path(PLAIN))
        if exists and not await is_marked(broker.store, PLAIN):
            await check_whole(broker, PLAIN)
        if exists:
            await delete_topic(broker, PLAIN, force=False)
        await check_gone(broker.client, PLAIN)

    list(interrupted(begin_plain, lambda each: delete_topic(each, PLAIN, force=True), check))


def test_topic_that_is_opened_after_an_interrupted_deletion_is_whole_or_empty() -> None:
    found = []

    async def check(broker: Broker) -> None:
        await broker.find(PLAIN, authoritative=True)
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

    list(interrupted(begin_plain, lambda each: delete_topic(each, PLAIN, force=False), check))
    assert set(found) == {False, True}


def test_interrupted_deletion_of_a_partitioned_topic_is_finished_by_the_next_one() -> None:
    async def check(broker: Broker) -> None:
        with suppress(BrokerError):  # There is none any more.
            await delete_partitions(broker)
        await check_gone(broker.client, WHOLE, *PARTITIONS)

    list(interrupted(begin_partitioned, delete_partitions, check))


def test_partition_of_a_topic_that_is_being_deleted_is_not_opened() -> None:
    async def check(broker: Broker) -> None:
        with suppress(NoNodeError):
            record, _ = await read_partitioned_topic(broker.store, WHOLE)
            if not record.is_being_deleted:
                await check_whole(broker, PARTITIONS[0])
                return
        for partition in PARTITIONS:
            await broker.find(partition, authoritative=True)
            with pytest.raises(BrokerError):
                await broker.topic(partition)

    list(interrupted(begin_partitioned, delete_partitions, check))


async def refused(broker: Broker) -> None:
    """The last partition is in use."""
    (await broker.topic(PARTITIONS[-1])).producers["p"] = Producer()
    with pytest.raises(BrokerError, match="in use by the producers p"):
        await delete_partitions(broker)


def test_refused_deletion_of_a_partitioned_topic_changes_nothing_and_can_be_repeated() -> None:
    async def check(broker: Broker) -> None:
        record, _ = await read_partitioned_topic(broker.store, WHOLE)
        if record.is_being_deleted:
            # Interrupted: whoever asks for it again decides.
            deletion = await PartitionedDeletion.begin(broker, WHOLE)
            await deletion.give_up()
        for partition in PARTITIONS:
            await check_whole(broker, partition)
        await delete_partitions(broker, force=True)
        await check_gone(broker.client, WHOLE, *PARTITIONS)

    list(interrupted(begin_partitioned, refused, check))


def test_interrupted_growth_is_finished_by_the_next_one_and_no_subscription_misses_a_message() -> (
    None
):
    async def check(broker: Broker) -> None:
        record, _ = await read_partitioned_topic(broker.store, WHOLE)
        third = partition_name(WHOLE, 2)
        await broker.find(third, authoritative=True)
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

    list(interrupted(begin_partitioned, grow, check))
