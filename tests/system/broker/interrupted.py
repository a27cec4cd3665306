"""Run a broker in the simulated world, and crash it before each of its metadata changes in turn."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from labkit.system.broker.broker import Broker
from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.ownership import BrokerAddress
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.traffic import Traffic
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import ProducerAccessMode
from labkit.system.topic.names import managed_ledger_path, partitions_path
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.settings.triggers import At
from tests.system.topic.simulated import FAILURES, Story, append_all, simulate

PLAIN = "persistent://public/default/plain"
SUBSCRIPTIONS = ["moved", "new"]
ENTRIES = 6

Operation = Callable[[Broker], Awaitable[None]]


@dataclass(frozen=True, slots=True, repr=False)
class BrokerStory(Story):
    """A story that receives the node, so that it can run a broker on it."""

    tell: Callable[[Any], Awaitable[None]]

    async def run(self, node: ClientNode) -> None:
        try:
            await self.tell(node)
        except (AssertionError, pytest.fail.Exception) as error:
            FAILURES.append(error)
            raise LabkitError("the test has failed") from error


class Producer:
    """A stand-in for a client's producer, which has the attributes that a topic uses."""

    name = "p"
    producer_id = 0
    access_mode: ProducerAccessMode = ProducerAccessMode.Shared
    connection: ClientConnection

    def __init__(self) -> None:
        self.traffic = Traffic()

    def disconnect(self) -> None:
        """Do nothing, because there is no client to notify."""


async def broker_on(node: ClientNode) -> Broker:
    address = BrokerAddress(f"{node.name}:8080", f"pulsar://{node.name}:6650")
    broker = Broker(node.client, address, BrokerConfig())
    await broker.start()
    return broker


async def fill(broker: Broker, topic: str) -> None:
    """Store entries, and create two subscriptions, one with a cursor ledger and one without."""
    await broker.look_up(topic, authoritative=True)
    opened = await broker.topic(topic)
    for name in SUBSCRIPTIONS:
        await opened.subscriptions.create(name)
    positions = [await each for each in await append_all(opened.ledger, [b"x"] * ENTRIES)]
    cursor = opened.ledger.cursors["moved"]
    cursor.acknowledge(positions[2:3])
    await cursor.flush()


async def check_whole(broker: Broker, topic: str) -> None:
    """Check that no entry or subscription is missing and that the topic can be opened."""
    await broker.look_up(topic, authoritative=True)
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
    # A broker that dies while it closes a cursor may leave the cursor's ledger behind, which wastes
    # space.
    assert [each for each in left if "pulsar/cursor" not in dict(each.custom_metadata)] == []


def interrupted(begin: Operation, operation: Operation, check: Operation) -> None:
    """Repeat the operation on a broker that dies before its first change, then on one that dies
    before its second change, and so on, until the operation completes. Each time, run `check` on
    another broker.
    """
    number = 1
    while not _ends_before(number, begin, operation, check):
        number += 1
    assert number > 3, "the operation has no steps"


def _ends_before(number: int, begin: Operation, operation: Operation, check: Operation) -> bool:
    """Return whether the operation completes before it has made this many changes."""
    ended = []

    async def first(node: ClientNode) -> None:
        broker = await broker_on(node)
        await begin(broker)
        _die_before_change(node, number)
        await operation(broker)
        ended.append(True)
        await _die(node)

    async def second(node: ClientNode) -> None:
        await check(await broker_on(node))

    # The first broker's session has expired by then.
    simulate(BrokerStory(first), BrokerStory(second, "q", At(10_000)))
    return bool(ended)


def _die_before_change(node: ClientNode, number: int) -> None:
    """Kill the node just before its `number`-th metadata change from now on."""
    store, changes = node.client.store, count(1)

    def counted(change: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def change_or_die(*arguments: Any, **options: Any) -> Any:
            if next(changes) == number:
                await _die(node)
            return await change(*arguments, **options)

        return change_or_die

    for name in ("create", "set", "delete"):
        setattr(store, name, counted(getattr(store, name)))


async def _die(node: ClientNode) -> None:
    node.crash(reason="the test kills it")
    await asyncio.sleep(1)  # The await never returns, because the node is dead.
