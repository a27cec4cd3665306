"""Creating topics, with partitions or without, and adding partitions.

A growth makes the existing subscriptions on the new partitions first, at the earliest position, and
changes the count last.  So whatever a producer sends to a new partition reaches every subscription
that existed before, even if its consumers discover the partition much later.  Until the count has
changed no broker opens a new partition.  A growth that was interrupted is finished by the next one.

In Pulsar: `broker/admin/impl/PersistentTopicsBase.java` (`internalUpdatePartitionedTopicAsync`).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.errors import BrokerError, no_partitioned_topic
from labkit.system.broker.namespaces import topics_of
from labkit.system.broker.policies import check_namespace_exists
from labkit.system.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
)
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.chain.acknowledged import CursorState
from labkit.system.topic.chain.chain import NOWHERE
from labkit.system.topic.chain.formats import (
    IN_NODE,
    CursorNode,
    DamagedNodeError,
    decode_cursor_node,
    encode_cursor_node,
)
from labkit.system.topic.names import (
    encoded,
    managed_ledger_path,
    namespace_of,
    partition_name,
    partition_of,
    partitions_path,
)
from labkit.system.topic.partitions import PartitionedTopic, read_partitioned_topic
from labkit.system.topic.producing.deduplication import CURSOR_NAME

_SYSTEM_CURSORS = (CURSOR_NAME, "__compaction")
"""Cursors of a broker, which each partition gets by itself."""


class PartitionCountError(BrokerError):
    """The number of partitions is out of range."""


async def create_topic(broker: BrokerService, topic: str) -> None:
    """Create a topic without partitions, which this broker serves, or one partition.

    Raises `BrokerError` if there is a topic of that name, with partitions or without.
    """
    for path in (managed_ledger_path(topic), partitions_path(topic)):
        if await broker.store.exists(path):
            raise BrokerError(ServerError.NotAllowedError, f"the topic {topic} exists")
    if partition_of(topic) >= 0:
        await broker.create(topic)
    await broker.topic(topic)


async def create_partitioned_topic(broker: BrokerService, topic: str, partitions: int) -> None:
    """Create a partitioned topic.

    Raises `BrokerError` if a topic of that name exists, or its namespace does not.
    """
    _check_count(broker, topic, partitions)
    await check_namespace_exists(broker.store, namespace_of(topic))
    if await broker.store.exists(managed_ledger_path(topic)):
        raise BrokerError(ServerError.NotAllowedError, f"{topic} exists and has no partitions")
    try:
        await broker.store.create(partitions_path(topic), PartitionedTopic(partitions).encode())
    except NodeExistsError:
        raise BrokerError(
            ServerError.NotAllowedError, f"the partitioned topic {topic} exists"
        ) from None


async def grow_partitioned_topic(broker: BrokerService, topic: str, partitions: int) -> None:
    """Add partitions; clients notice within a minute.

    Raises `BrokerError` for fewer, and if a topic is named like one of the new partitions.
    """
    _check_count(broker, topic, partitions)
    store = broker.store
    try:
        record, version = await read_partitioned_topic(store, topic)
    except NoNodeError:
        raise no_partitioned_topic(topic) from None
    await _check_may_grow(store, topic, record, partitions)
    growing = replace(record, growing_to=max(partitions, record.growing_to))
    version = await _store(store, topic, growing, version)
    old = [partition_name(topic, each) for each in range(record.count)]
    new = [partition_name(topic, each) for each in range(record.count, partitions)]
    for name, node in (await _subscriptions(store, old)).items():
        for partition in new:
            with suppress(NodeExistsError):
                await store.create(f"{managed_ledger_path(partition)}/{name}", node)
    is_done = growing.growing_to == partitions
    grown = replace(growing, count=partitions, growing_to=0 if is_done else growing.growing_to)
    await _store(store, topic, grown, version)


async def _check_may_grow(
    store: MetadataStore, topic: str, record: PartitionedTopic, partitions: int
) -> None:
    if record.is_being_deleted:
        raise BrokerError(ServerError.ServiceNotReady, f"{topic} is being deleted")
    if partitions <= record.count:
        raise BrokerError(
            ServerError.NotAllowedError,
            f"{topic} has {record.count} partitions; it can only get more",
        )
    # Those up to `most` were made by a growth that was interrupted.
    new = {partition_name(topic, each) for each in range(record.most, partitions)}
    if taken := sorted(new.intersection(await topics_of(store, namespace_of(topic)))):
        raise BrokerError(
            ServerError.MetadataError,
            f"{topic} cannot get {partitions} partitions: {', '.join(taken)} exists and is a"
            " separate topic; delete it first",
        )


async def _subscriptions(store: MetadataStore, partitions: Sequence[str]) -> dict[str, bytes]:
    """Return the durable subscriptions of all these partitions, by the name of their node, each
    with a node for a subscription that has acknowledged nothing.
    """
    found: dict[str, bytes] = {}
    for partition in partitions:
        path = managed_ledger_path(partition)
        with suppress(NoNodeError):
            for name in await store.children(path):
                if name not in found and name not in map(encoded, _SYSTEM_CURSORS):
                    data, _ = await store.get(f"{path}/{name}")
                    found[name] = _unread(data)
    return found


def _unread(data: bytes) -> bytes:
    properties: tuple[tuple[str, str], ...] = ()
    with suppress(DamagedNodeError):  # The subscription itself is what counts.
        properties = decode_cursor_node(data).cursor_properties
    return encode_cursor_node(CursorNode(IN_NODE, CursorState(NOWHERE), properties))


async def _store(store: MetadataStore, topic: str, record: PartitionedTopic, version: int) -> int:
    try:
        return await store.set(partitions_path(topic), record.encode(), version)
    except (BadVersionError, NoNodeError):
        raise BrokerError(
            ServerError.NotAllowedError, f"{topic} was changed at this moment; look again"
        ) from None


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
