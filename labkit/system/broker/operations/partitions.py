"""Creates topics and partitioned topics, and adds partitions.

Before the partition count is increased, the existing subscriptions are created on the new
partitions, at the earliest position. This way, they get every message sent to those partitions,
even if their consumers discover the partitions much later. No broker opens a new partition before
the count includes it. An interrupted increase is finished by the next one.

In Pulsar: `broker/admin/impl/PersistentTopicsBase.java` (`internalUpdatePartitionedTopicAsync`).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.errors import (
    BrokerError,
    NotAllowedError,
    ServiceNotReadyError,
    TopicNotFoundError,
)
from labkit.system.broker.namespaces import topics_of
from labkit.system.broker.policies import check_namespace_exists
from labkit.system.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
)
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.chain.formats import DamagedNodeError
from labkit.system.topic.chain.ledger_chain import NOWHERE
from labkit.system.topic.cursors.acknowledged import CursorState
from labkit.system.topic.cursors.formats import (
    IN_NODE,
    CursorNode,
    decode_cursor_node,
    encode_cursor_node,
)
from labkit.system.topic.names import (
    encode_name,
    managed_ledger_path,
    namespace_of,
    partition_name,
    partition_of,
    partitions_path,
)
from labkit.system.topic.partitions import PartitionedTopic, read_partitioned_topic
from labkit.system.topic.producing.deduplication import CURSOR_NAME

_SYSTEM_CURSORS = (CURSOR_NAME, "__compaction")
"""Cursors that the broker itself creates on each partition."""


class PartitionCountError(NotAllowedError): ...


async def create_topic(broker: BrokerService, topic: str) -> None:
    """Create a topic or partition that this broker serves. Raises `BrokerError` if it exists."""
    for path in (managed_ledger_path(topic), partitions_path(topic)):
        if await broker.store.exists(path):
            raise NotAllowedError(f"topic {topic} already exists")
    if partition_of(topic) >= 0:
        await broker.create(topic)
    await broker.topic(topic)


async def create_partitioned_topic(broker: BrokerService, topic: str, partitions: int) -> None:
    _check_count(broker, topic, partitions)
    await check_namespace_exists(broker.store, namespace_of(topic))
    if await broker.store.exists(managed_ledger_path(topic)):
        raise NotAllowedError(f"{topic} already exists and is not partitioned")
    try:
        await broker.store.create(partitions_path(topic), PartitionedTopic(partitions).encode())
    except NodeExistsError:
        raise NotAllowedError(f"partitioned topic {topic} already exists") from None


async def grow_partitioned_topic(broker: BrokerService, topic: str, partitions: int) -> None:
    """Increase the number of partitions. Clients notice this within a minute.

    Raises `BrokerError` if the number is not larger, or if a new partition exists as a topic.
    """
    _check_count(broker, topic, partitions)
    store = broker.store
    try:
        record, version = await read_partitioned_topic(store, topic)
    except NoNodeError:
        raise TopicNotFoundError(f"partitioned topic {topic} does not exist") from None
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
        raise ServiceNotReadyError(f"{topic} is being deleted")
    if partitions <= record.count:
        raise NotAllowedError(
            f"{topic} has {record.count} partitions; the number can only be increased"
        )
    # Partitions below `max_count` are no conflict: an interrupted increase has created them.
    new = {partition_name(topic, each) for each in range(record.max_count, partitions)}
    if conflicting := sorted(new.intersection(await topics_of(store, namespace_of(topic)))):
        raise BrokerError(
            ServerError.MetadataError,
            f"cannot increase {topic} to {partitions} partitions: {', '.join(conflicting)} exists"
            " as a separate topic; delete it first",
        )


async def _subscriptions(store: MetadataStore, partitions: Sequence[str]) -> dict[str, bytes]:
    """Return the nodes for the durable subscriptions on a new partition, keyed by name."""
    found: dict[str, bytes] = {}
    for partition in partitions:
        path = managed_ledger_path(partition)
        with suppress(NoNodeError):
            for name in await store.children(path):
                if name not in found and name not in map(encode_name, _SYSTEM_CURSORS):
                    data, _ = await store.get(f"{path}/{name}")
                    found[name] = _node_without_acknowledgements(data)
    return found


def _node_without_acknowledgements(data: bytes) -> bytes:
    properties: tuple[tuple[str, str], ...] = ()
    with suppress(DamagedNodeError):  # The properties are lost, but the subscription is kept.
        properties = decode_cursor_node(data).cursor_properties
    return encode_cursor_node(CursorNode(IN_NODE, CursorState(NOWHERE), properties))


async def _store(store: MetadataStore, topic: str, record: PartitionedTopic, version: int) -> int:
    try:
        return await store.set(partitions_path(topic), record.encode(), version)
    except (BadVersionError, NoNodeError):
        raise NotAllowedError(f"{topic} was changed concurrently; repeat the request") from None


def _check_count(broker: BrokerService, topic: str, partitions: int) -> None:
    if partition_of(topic) >= 0:
        raise BrokerError(
            ServerError.InvalidTopicName,
            f"{topic} looks like the name of a partition: choose another name",
        )
    maximum = broker.config.max_partitions
    if not 1 <= partitions <= maximum:
        raise PartitionCountError(
            f"the number of partitions must be between 1 and {maximum}"
            f" (maxNumPartitionsPerPartitionedTopic), got {partitions}",
        )
