"""An administrator's requests to a broker: create, grow, delete, inspect topics.

Partitions and policies are in the metadata store, and any broker may change them. Requests about
the topic itself go to the broker that serves it.

In Pulsar: `broker/admin/impl/PersistentTopicsBase.java`, `NamespacesBase.java`.
"""

import json
from collections.abc import Callable
from typing import Any

from labkit.client.bookkeeper import BookKeeper
from labkit.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from labkit.model.errors import BKNoSuchLedgerExistsOnMetadataServerException
from labkit.model.proto.pulsar_pb2 import ServerError
from labkit.pulsar.broker_service import BrokerService
from labkit.pulsar.errors import BrokerError
from labkit.pulsar.namespaces import topics_of
from labkit.pulsar.policies import policies_path, stored_policies
from labkit.topic.chain_store import read_chain
from labkit.topic.names import (
    managed_ledger_path,
    namespace_of,
    partition_name,
    partition_of,
    partitions_path,
)
from labkit.topic.topic import NoTopicError, partition_count


class PartitionCountError(BrokerError):
    """The number of partitions is out of range."""


async def create_topic(broker: BrokerService, topic: str) -> None:
    """Create a topic without partitions, which this broker serves, or one partition.

    Raises `BrokerError` if there is a topic of that name, with partitions or without.
    """
    for path in (managed_ledger_path(topic), partitions_path(topic)):
        if await broker.store.exists(path):
            raise BrokerError(ServerError.NotAllowedError, f"the topic {topic} exists")
    await broker.topic(topic)


async def create_partitioned_topic(broker: BrokerService, topic: str, partitions: int) -> None:
    """Create a partitioned topic.  Raises `BrokerError` if there is a topic of that name."""
    _check_count(broker, topic, partitions)
    if await broker.store.exists(managed_ledger_path(topic)):
        raise BrokerError(ServerError.NotAllowedError, f"{topic} exists and has no partitions")
    try:
        await broker.store.create(partitions_path(topic), _encode(partitions))
    except NodeExistsError:
        raise BrokerError(
            ServerError.NotAllowedError, f"the partitioned topic {topic} exists"
        ) from None


async def grow_partitioned_topic(broker: BrokerService, topic: str, partitions: int) -> None:
    """Add partitions; clients notice within a minute.  Raises `BrokerError` for fewer."""
    _check_count(broker, topic, partitions)
    path = partitions_path(topic)
    try:
        data, version = await broker.store.get(path)
    except NoNodeError:
        raise _no_partitioned_topic(topic) from None
    count = json.loads(data)["partitions"]
    if partitions <= count:
        raise BrokerError(
            ServerError.NotAllowedError, f"{topic} has {count} partitions; it can only get more"
        )
    try:
        await broker.store.set(path, _encode(partitions), version)
    except (BadVersionError, NoNodeError):
        raise BrokerError(
            ServerError.NotAllowedError, f"{topic} was changed at this moment; look again"
        ) from None


async def partitions_to_delete(broker: BrokerService, topic: str) -> list[str]:
    """The full names of those partitions of a partitioned topic that have been used. Raises
    `BrokerError`.
    """
    try:
        count = await partition_count(broker.client, topic)
    except NoTopicError:
        raise _no_partitioned_topic(topic) from None
    return [
        name
        for name in await topics_of(broker.store, namespace_of(topic))
        if 0 <= partition_of(name) < count and name == partition_name(topic, partition_of(name))
    ]


async def forget_partitions(broker: BrokerService, topic: str) -> None:
    """Remove a partitioned topic's record, after its partitions were deleted."""
    await broker.store.delete(partitions_path(topic))
    await broker.schemas.delete(topic)


async def delete_topic(broker: BrokerService, name: str, *, force: bool) -> None:
    """Delete a topic or partition that this broker serves: its cursors, its chain, its ledgers.

    Raises `BrokerError` while it has producers or consumers; with `force` they are disconnected
    first.
    """
    if not await broker.store.exists(managed_ledger_path(name)):
        raise BrokerError(ServerError.TopicNotFound, f"there is no topic {name}")
    topic = await broker.topic(name)
    subscriptions = topic.subscriptions
    consumers = [each.name for each in subscriptions.all if each.consumers]
    if (topic.producers or consumers) and not force:
        raise BrokerError(
            ServerError.MetadataError,
            f"{name} is in use by the producers {', '.join(topic.producers) or '(none)'} and the"
            f" subscriptions {', '.join(consumers) or '(none)'}; close them, or delete with force",
        )
    for subscription in subscriptions.all:
        await subscriptions.unsubscribe(subscription, None, force=True)
    for cursor in list(topic.ledger.cursors):
        await topic.ledger.delete_cursor(cursor)
    # Closed before its chain is deleted: an open topic would store the chain again.
    await broker.unload(name)
    await _delete_chain(broker.client, name)
    if partition_of(name) < 0 and not await broker.store.exists(partitions_path(name)):
        # A partitioned topic of that name keeps its schemas there.
        await broker.schemas.delete(name)


async def _delete_chain(client: BookKeeper, name: str) -> None:
    """Delete the chain first, then its ledgers: a crash in between only wastes space."""
    path = managed_ledger_path(name)
    chain, version = await read_chain(client, path)
    try:
        await client.store.delete(path, version)
    except (BadVersionError, NotEmptyError, NoNodeError):
        raise BrokerError(
            ServerError.NotAllowedError, f"{name} was opened again meanwhile; close its clients"
        ) from None
    for link in chain:
        try:
            await client.delete_ledger(link.ledger_id)
        except BKNoSuchLedgerExistsOnMetadataServerException:
            continue


async def read_policy(store: MetadataStore, namespace: str, key: str) -> object:
    """The namespace's policy of that name; None if it has none."""
    policies, _ = await stored_policies(store, namespace)
    return policies.get(key)


async def write_policy(store: MetadataStore, namespace: str, key: str, value: object) -> None:
    """Set a policy; None removes it.  It applies to topics opened from then on."""
    await change_policy(store, namespace, key, lambda _: value)


async def change_policy(
    store: MetadataStore, namespace: str, key: str, change: Callable[[Any], object]
) -> None:
    """Like `write_policy`; `change` gets the current value, None if there is none."""
    while True:
        policies, version = await stored_policies(store, namespace)
        value = change(policies.get(key))
        changed = {name: each for name, each in policies.items() if name != key}
        if value is not None:
            changed[key] = value
        data = json.dumps(changed).encode()
        try:
            if version is None:
                await store.create(policies_path(namespace), data)
            else:
                await store.set(policies_path(namespace), data, version)
        except (NodeExistsError, BadVersionError, NoNodeError):
            continue  # Another change came first: apply this one on top of it.
        return


def _check_count(broker: BrokerService, topic: str, partitions: int) -> None:
    if partition_of(topic) >= 0:
        raise BrokerError(
            ServerError.InvalidTopicName, f"{topic} is named like a partition: take another name"
        )
    most = broker.config.most_partitions
    if not 1 <= partitions <= most:
        raise PartitionCountError(
            ServerError.NotAllowedError,
            f"{partitions} partitions; a partitioned topic has 1 or more, and at most {most} here"
            " (maxNumPartitionsPerPartitionedTopic)",
        )


def _no_partitioned_topic(topic: str) -> BrokerError:
    return BrokerError(ServerError.TopicNotFound, f"there is no partitioned topic {topic}")


def _encode(partitions: int) -> bytes:
    return json.dumps({"partitions": partitions}).encode()
