"""Tests for topic deletion: when it is rejected, and which damaged topics it can still delete."""

from unittest.mock import patch

import pytest

from labkit.system.broker.broker import Broker
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.operations.deletion import delete_topic
from labkit.system.model.errors import BKReadException, LabkitError
from labkit.system.topic.chain.formats import DamagedNodeError
from labkit.system.topic.deletion import mark
from labkit.system.topic.names import managed_ledger_path
from labkit.worlds.sim.nodes.nodes import ClientNode
from tests.system.broker.interrupted import (
    PLAIN,
    BrokerStory,
    Operation,
    Producer,
    broker_on,
    check_gone,
    check_whole,
    fill,
)
from tests.system.topic.simulated import simulate
from tests.virtual_time import in_world

GARBAGE = b"\xff"


def tell(operation: Operation) -> None:
    """Run the operation on a broker that has the topic `PLAIN` with data in it."""

    async def story(node: ClientNode) -> None:
        broker = await broker_on(node)
        await fill(broker, PLAIN)
        await operation(broker)

    simulate(BrokerStory(story))


on_a_broker = in_world(tell)


async def damage(broker: Broker, path: str) -> None:
    await broker.unload(PLAIN)
    _, version = await broker.store.get(path)
    await broker.store.set(path, GARBAGE, version)
    with pytest.raises(LabkitError):
        await broker.topic(PLAIN)


@on_a_broker
async def test_topic_in_use_is_not_deleted_and_goes_on_with_all_that_it_has(broker: Broker) -> None:
    topic = await broker.topic(PLAIN)
    topic.producers["p"] = Producer()
    with pytest.raises(BrokerError, match="in use by the producers p and"):
        await delete_topic(broker, PLAIN, force=False)
    assert await broker.topic(PLAIN) is topic
    await check_whole(broker, PLAIN)


@on_a_broker
async def test_topic_is_not_opened_while_a_request_deletes_it(broker: Broker) -> None:
    delete = broker.store.delete
    rejections = []

    async def asked_meanwhile(path: str, version: int = -1) -> None:
        for request in (broker.topic(PLAIN), delete_topic(broker, PLAIN, force=True)):
            with pytest.raises(BrokerError, match=r"is being deleted|another request") as found:
                await request
            rejections.append(found.value)
        await delete(path, version)

    with patch.object(broker.store, "delete", asked_meanwhile):
        await delete_topic(broker, PLAIN, force=True)
    assert len(rejections) > 4
    await check_gone(broker.client, PLAIN)


@on_a_broker
async def test_admitted_client_does_not_subscribe_during_the_deletion(broker: Broker) -> None:
    topic = await broker.topic(PLAIN)
    settled = topic.publisher.wait_until_settled

    async def asked_meanwhile() -> None:
        with pytest.raises(BrokerError, match="is being deleted"):
            await topic.subscriptions.create("late")
        await settled()

    with patch.object(topic.publisher, "wait_until_settled", asked_meanwhile):
        await delete_topic(broker, PLAIN, force=False)
    await check_gone(broker.client, PLAIN)


@pytest.mark.promise("A topic whose metadata is damaged can be deleted with force")
@pytest.mark.parametrize("force", [False, True])
@on_a_broker
async def test_topic_with_a_damaged_cursor_is_deleted(broker: Broker, force: bool) -> None:
    await damage(broker, f"{managed_ledger_path(PLAIN)}/moved")
    await delete_topic(broker, PLAIN, force=force)
    await check_gone(broker.client, PLAIN)


@on_a_broker
async def test_topic_with_a_damaged_chain_is_deleted_with_force_alone(broker: Broker) -> None:
    path = managed_ledger_path(PLAIN)
    await damage(broker, path)
    with pytest.raises(DamagedNodeError):
        await delete_topic(broker, PLAIN, force=False)
    assert (await broker.store.get(path))[0] == GARBAGE
    assert await broker.store.children(path) == ["moved", "new"]
    await delete_topic(broker, PLAIN, force=True)
    assert not await broker.store.exists(path)
    # The topic can be created again.
    assert (await broker.topic(PLAIN)).subscriptions.all == []


@on_a_broker
async def test_topic_whose_bookies_do_not_respond_is_deleted(broker: Broker) -> None:
    await broker.unload(PLAIN)
    with patch.object(broker.client, "open_ledger", side_effect=BKReadException("no response")):
        with pytest.raises(BKReadException):
            await broker.topic(PLAIN)
        await delete_topic(broker, PLAIN, force=True)
    await check_gone(broker.client, PLAIN)


@on_a_broker
async def test_topic_that_is_opened_elsewhere_before_it_is_marked_stays(broker: Broker) -> None:
    set_node = broker.store.set

    async def overtaken(path: str, data: bytes, version: int) -> int:
        await set_node(path, (await broker.store.get(path))[0], version)
        return await set_node(path, data, version)

    await broker.unload(PLAIN)
    with (
        patch.object(broker.store, "set", overtaken),
        pytest.raises(BrokerError, match="was opened concurrently"),
    ):
        await delete_topic(broker, PLAIN, force=True)
    await check_whole(broker, PLAIN)


@on_a_broker
async def test_owner_that_was_cut_off_stores_nothing_after_the_decision(broker: Broker) -> None:
    topic = await broker.topic(PLAIN)
    await mark(broker.store, PLAIN)
    with pytest.raises(LabkitError):
        await topic.ledger.set_property("a", "1")
    assert topic.is_ended
