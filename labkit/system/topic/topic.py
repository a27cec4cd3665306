"""A topic with its partitions, which creates producers and consumers.

In Pulsar: `broker/service/persistent/PersistentTopic.java`, one for each partition.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import NodeExistsError, NoNodeError
from labkit.system.model.errors import BKIncorrectParameterException, LabkitError
from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.consumer import Consumer, PartitionConsumer
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.names import (
    full_name,
    managed_ledger_path,
    partition_name,
    partition_of,
    partitions_path,
)
from labkit.system.topic.partitions import PartitionedTopic, read_partitioned_topic
from labkit.system.topic.producing.producer import Batching, PartitionProducer, Producer


class TopicExistsError(LabkitError):
    """A topic with that name exists, but has a different number of partitions."""


class NoTopicError(LabkitError): ...


@dataclass(frozen=True, slots=True)
class Partition:
    index: int
    path: str
    ledger: ManagedLedger


class Topic:
    """A topic that this process owns."""

    def __init__(self, name: str, client: BookKeeper, partitions: list[Partition]) -> None:
        self.name = name
        self._client = client
        self.partitions = partitions
        """Ordered by index; exactly one for a non-partitioned topic."""

    @classmethod
    async def create(
        cls,
        client: BookKeeper,
        topic: str,
        *,
        partitions: int,
        config: ManagedLedgerConfig | None = None,
    ) -> "Topic":
        """Create a topic, or take over an existing one with the same number of partitions.

        With 0 partitions, the topic is non-partitioned, and its messages have partition -1. Raises
        `BKIncorrectParameterException` if the number is negative, `TopicExistsError` if it differs
        from an existing topic's number, and the same exceptions as `ManagedLedger.open`.
        """
        name = full_name(topic)
        if partitions < 0:
            raise BKIncorrectParameterException(
                f"got {partitions} partitions; expected 0 (for a non-partitioned topic) or more"
            )
        if partitions:
            await _store_partition_count(client, name, partitions)
        names = [partition_name(name, i) for i in range(partitions)] or [name]
        opened: list[Partition] = []
        try:
            for full in names:
                path = managed_ledger_path(full)
                ledger = ManagedLedger(full, path, client, config or ManagedLedgerConfig())
                await ledger.open()
                opened.append(Partition(partition_of(full), path, ledger))
        except (LabkitError, asyncio.CancelledError):
            for partition in opened:
                with suppress(LabkitError):  # The first error is more informative.
                    await partition.ledger.close()
            raise
        return cls(name, client, opened)

    def producer(self, name: str = "producer", *, batching: Batching | None = None) -> Producer:
        """Return a producer. Without `batching`, every message is stored as a separate entry."""
        return Producer(
            name,
            [
                PartitionProducer(name, each.index, each.ledger, batching, self._client)
                for each in self.partitions
            ],
            batching,
        )

    def consumer(self) -> Consumer:
        """Return a consumer that starts at the topic's first message."""
        return Consumer(
            [PartitionConsumer(p.path, p.index, self._client, p.ledger) for p in self.partitions]
        )

    async def ledgers(self, partition: int = -1) -> list[LedgerInfo]:
        """Return the chain of ledgers of a partition (-1 for a non-partitioned topic)."""
        chain, _ = await read_chain(self._client, self._find(partition).path)
        return chain

    def _find(self, partition: int) -> Partition:
        for candidate in self.partitions:
            if candidate.index == partition:
                return candidate
        raise BKIncorrectParameterException(
            f"{self.name} has no partition {partition}; existing partitions:"
            f" {', '.join(str(p.index) for p in self.partitions)}"
        )

    async def close(self) -> None:
        """Flush all producers, close all partitions, and then raise the first error, if any."""
        closing = [partition.ledger.close() for partition in self.partitions]
        for outcome in await asyncio.gather(*closing, return_exceptions=True):
            if outcome is not None:
                raise outcome


async def _store_partition_count(client: BookKeeper, name: str, partitions: int) -> None:
    path = partitions_path(name)
    try:
        await client.store.create(path, PartitionedTopic(partitions).encode())
    except NodeExistsError:
        existing = await partition_count(client, name)
        if existing != partitions:
            raise TopicExistsError(
                f"{name} exists, but has {existing} partitions instead of {partitions}"
            ) from None


async def partition_count(client: BookKeeper, topic: str) -> int:
    """Raise `NoTopicError` if the topic does not exist or is not partitioned."""
    name = full_name(topic)
    try:
        record, _ = await read_partitioned_topic(client.store, name)
    except NoNodeError:
        raise NoTopicError(f"partitioned topic {name} does not exist") from None
    return record.count
