"""A topic: its partitions, and who writes and reads them.

In Pulsar: `broker/service/persistent/PersistentTopic.java`, one for each partition.
"""

import asyncio
import json
from dataclasses import dataclass

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import NodeExistsError, NoNodeError
from labkit.system.model.errors import BKIncorrectParameterException, LabkitError
from labkit.system.model.message_id import MessageId
from labkit.system.topic.chain.chain import LedgerInfo
from labkit.system.topic.chain.chain_store import read_chain
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
from labkit.system.topic.producing.producer import Batching, PartitionProducer, Producer


class TopicExistsError(LabkitError):
    """A topic of that name exists with another number of partitions."""


class NoTopicError(LabkitError):
    """There is no topic of that name."""


@dataclass(frozen=True, slots=True)
class _Partition:
    index: int
    path: str
    ledger: ManagedLedger


class Topic:
    """A topic that this process owns: it may write, and knows what is confirmed."""

    def __init__(self, name: str, client: BookKeeper, partitions: list[_Partition]) -> None:
        """Use `create` or `open`."""
        self.name = name
        self._client = client
        self.partitions = partitions
        """By index; one for a topic without partitions."""

    @classmethod
    async def create(
        cls,
        client: BookKeeper,
        topic: str,
        *,
        partitions: int,
        config: ManagedLedgerConfig | None = None,
    ) -> "Topic":
        """Make a topic, or take over one that exists with as many partitions.

        `partitions` 0: a topic without partitions, whose messages have partition -1.  Raises
        `BKIncorrectParameterException`, `TopicExistsError`, and what `ManagedLedger.open` raises.
        """
        name = full_name(topic)
        if partitions < 0:
            raise BKIncorrectParameterException(
                f"{partitions} partitions; 0 means a topic without partitions, else at least 1"
            )
        if partitions:
            await _store_partition_count(client, name, partitions)
        return await cls._open(client, name, partitions, config)

    @classmethod
    async def _open(
        cls,
        client: BookKeeper,
        name: str,
        partition_count: int,
        config: ManagedLedgerConfig | None,
    ) -> "Topic":
        names = [partition_name(name, i) for i in range(partition_count)] or [name]
        opened = []
        for full in names:
            path = managed_ledger_path(full)
            ledger = ManagedLedger(full, path, client, config or ManagedLedgerConfig())
            await ledger.open()
            opened.append(_Partition(partition_of(full), path, ledger))
        return cls(name, client, opened)

    def producer(self, name: str = "producer", *, batching: Batching | None = None) -> Producer:
        """A producer; without `batching` every message is a separate entry."""
        return Producer(
            name,
            [
                PartitionProducer(
                    name,
                    partition.index,
                    partition.ledger,
                    batching,
                    self._client.recorder,
                    self._client.wall_clock_ms,
                )
                for partition in self.partitions
            ],
            batching,
        )

    def consumer(self, *, after: MessageId | None = None) -> Consumer:
        """A consumer from the topic's first message on, or from behind `after` in its partition.

        Raises `BKIncorrectParameterException` if `after` is of a partition that is not there.
        """
        if after is not None:
            self._find(after.partition)
        return Consumer(
            [
                PartitionConsumer(
                    partition.path,
                    partition.index,
                    self._client,
                    partition.ledger,
                    after if after is not None and after.partition == partition.index else None,
                )
                for partition in self.partitions
            ]
        )

    async def ledgers(self, partition: int = -1) -> list[LedgerInfo]:
        """The chain of ledgers of a partition (-1: of a topic without partitions)."""
        chain, _ = await read_chain(self._client, self._find(partition).path)
        return chain

    def _find(self, partition: int) -> _Partition:
        for candidate in self.partitions:
            if candidate.index == partition:
                return candidate
        raise BKIncorrectParameterException(
            f"{self.name} has no partition {partition}; it has"
            f" {', '.join(str(p.index) for p in self.partitions)}"
        )

    async def close(self) -> None:
        """Close the open ledgers.  Flush the producers first."""
        await asyncio.gather(*(partition.ledger.close() for partition in self.partitions))


async def _store_partition_count(client: BookKeeper, name: str, partitions: int) -> None:
    path = partitions_path(name)
    try:
        await client.store.create(path, json.dumps({"partitions": partitions}).encode())
    except NodeExistsError:
        existing = await partition_count(client, name)
        if existing != partitions:
            raise TopicExistsError(
                f"{name} exists with {existing} partitions, not {partitions}"
            ) from None


async def partition_count(client: BookKeeper, topic: str) -> int:
    """How many partitions a partitioned topic has.  Raises `NoTopicError`."""
    name = full_name(topic)
    try:
        data, _ = await client.store.get(partitions_path(name))
    except NoNodeError:
        raise NoTopicError(f"there is no partitioned topic {name}") from None
    count: int = json.loads(data)["partitions"]
    return count
