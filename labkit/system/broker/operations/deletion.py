"""Deletes topics. A rejected request changes nothing, and an interrupted one can be repeated.

    closed      clients can no longer use the topic; without force, a topic in use is not deleted
    marked      the deletion is now final (`topic/deletion`), and all later steps can be repeated
    deleted     cursors, ledgers, managed ledger, schema

Deleting a partitioned topic begins with a change to its record that prevents brokers from opening
its partitions. Each partition is then closed and marked by the broker that owns it. Nothing is
deleted until all partitions have been marked. If a partition is in use, all marks are removed. The
record is deleted last. An interrupted deletion is finished by the next request to delete the topic.
If the topic is not partitioned, opening it also finishes the deletion.

In Pulsar: `broker/admin/impl/PersistentTopicsBase.java` (`internalDeletePartitionedTopicAsync`),
`PersistentTopic.java` (`delete`).
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.errors import BrokerError, ServiceNotReadyError, TopicNotFoundError
from labkit.system.broker.namespaces import topics_of
from labkit.system.broker.topics import BrokerTopic
from labkit.system.metadata.store import BadVersionError, NoNodeError
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.chain.formats import DamagedNodeError
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from labkit.system.topic.deletion import is_marked, mark, unmark
from labkit.system.topic.names import (
    managed_ledger_path,
    namespace_of,
    partition_name,
    partition_of,
    partitions_path,
)
from labkit.system.topic.partitions import PartitionedTopic, read_partitioned_topic


async def delete_topic(broker: BrokerService, name: str, *, force: bool) -> None:
    """Delete a topic or partition that this broker serves, with its cursors and ledgers.

    Raises `BrokerError` if the topic has producers or consumers. With `force`, they are
    disconnected instead, and stored state that cannot be decoded is ignored.
    """
    if not await broker.store.exists(managed_ledger_path(name)):
        raise TopicNotFoundError(f"topic {name} does not exist")
    with _closed_to_clients(broker, name):
        await _close(broker, name, force=force)
        with _detect_concurrent_open(name):
            await mark(broker.store, name, replace_if_damaged=force)
            await broker.finish_deletion(name)


@dataclass(frozen=True, slots=True)
class PartitionedDeletion:
    """One broker's share of deleting a partitioned topic."""

    broker: BrokerService
    topic: str
    record: PartitionedTopic

    @classmethod
    async def begin(cls, broker: BrokerService, topic: str) -> "PartitionedDeletion":
        """Prevent all brokers from opening further partitions, or raise `BrokerError`."""
        record = await _change_record(broker, topic, is_being_deleted=True)
        return cls(broker, topic, record)

    async def unmarked_partitions(self) -> list[str]:
        return [each for each in await self._stored() if not await self._is_marked(each)]

    async def close(self, partition: str, *, force: bool) -> None:
        """Close and mark a partition that this broker owns, as in `delete_topic`."""
        with _closed_to_clients(self.broker, partition), suppress(NoNodeError):
            await _close(self.broker, partition, force=force)
            with _detect_concurrent_open(partition):
                await mark(self.broker.store, partition, replace_if_damaged=force)

    async def cancel(self) -> None:
        for partition in await self._stored():
            with suppress(NoNodeError), _detect_concurrent_open(partition):
                await unmark(self.broker.store, partition)
        await _change_record(self.broker, self.topic, is_being_deleted=False)

    async def finish(self) -> None:
        """Delete the partitions, then the record. Raise `BrokerError` if one is not marked."""
        if unmarked := await self.unmarked_partitions():
            raise ServiceNotReadyError(
                f"{', '.join(unmarked)} was opened concurrently; retry the deletion"
            )
        for partition in await self._stored():
            with _detect_concurrent_open(partition):
                await self.broker.finish_deletion(partition)
        await self.broker.schemas.delete(self.topic)
        with suppress(NoNodeError):
            await self.broker.store.delete(partitions_path(self.topic))

    async def _stored(self) -> list[str]:
        stored = await topics_of(self.broker.store, namespace_of(self.topic))
        # Do not rely on the partition count: another program may have stored any number.
        partitions = [
            name
            for name in stored
            if 0 <= partition_of(name) < self.record.max_count
            and name == partition_name(self.topic, partition_of(name))
        ]
        return sorted(partitions, key=partition_of)

    async def _is_marked(self, partition: str) -> bool:
        try:
            return await is_marked(self.broker.store, partition)
        except DamagedNodeError:
            return False  # A damaged topic can be marked only with force.


async def _close(broker: BrokerService, name: str, *, force: bool) -> None:
    topic = await broker.find_open_topic(name)
    if topic is not None and not force:
        _check_unused(topic)
        # No client may subscribe between the check and the end of `unload`.
        topic.subscriptions.rejects_clients = True
    await broker.unload(name)


def _check_unused(topic: BrokerTopic) -> None:
    consumers = [each.name for each in topic.subscriptions.all if each.consumers]
    if topic.producers or consumers:
        raise BrokerError(
            ServerError.MetadataError,
            f"{topic.name} is in use by the producers {', '.join(topic.producers) or '(none)'} and"
            f" the subscriptions {', '.join(consumers) or '(none)'}; close them, or use force",
        )


@contextmanager
def _closed_to_clients(broker: BrokerService, name: str) -> Iterator[None]:
    if name in broker.deleting:
        raise ServiceNotReadyError(f"another request is deleting {name}")
    broker.deleting[name] = None
    try:
        yield
    finally:
        del broker.deleting[name]


@contextmanager
def _detect_concurrent_open(name: str) -> Iterator[None]:
    try:
        yield
    except ManagedLedgerFencedError:
        raise ServiceNotReadyError(f"{name} was opened concurrently; retry the deletion") from None


async def _change_record(
    broker: BrokerService, topic: str, *, is_being_deleted: bool
) -> PartitionedTopic:
    try:
        record, version = await read_partitioned_topic(broker.store, topic)
        record = replace(record, is_being_deleted=is_being_deleted)
        await broker.store.set(partitions_path(topic), record.encode(), version)
    except NoNodeError:
        raise TopicNotFoundError(f"partitioned topic {topic} does not exist") from None
    except BadVersionError:
        raise ServiceNotReadyError(
            f"{topic} was changed concurrently; repeat the request"
        ) from None
    return record
