"""Test that a topic that cannot be created, or not be closed, leaves nothing open."""

import asyncio
from asyncio import CancelledError
from types import SimpleNamespace
from typing import cast

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.topic import topic as topic_module
from labkit.system.topic.chain.chain_store import MarkedForDeletionError
from labkit.system.topic.chain.formats import encode_chain
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.deletion import mark
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.names import full_name, managed_ledger_path
from labkit.system.topic.topic import Partition, Topic
from tests.system.client.memory_store import MemoryStore
from tests.system.topic.clients import PlayedClient


@pytest.mark.parametrize("error", [MetadataUnavailableError("no response"), CancelledError()])
async def test_if_a_partition_cannot_be_opened_the_others_are_closed(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    closed: list[str] = []

    class Ledger:
        def __init__(self, name: str, *_: object) -> None:
            self.name = name

        async def open(self) -> None:
            if self.name.endswith("-2"):
                raise error

        async def close(self) -> None:
            closed.append(self.name[-1])

    monkeypatch.setattr(topic_module, "ManagedLedger", Ledger)
    client = cast(BookKeeper, SimpleNamespace(store=MemoryStore()))
    with pytest.raises(type(error)):
        await Topic.create(client, "t", partitions=3)
    assert closed == ["0", "1"]


async def test_a_topic_that_is_marked_for_deletion_is_not_opened() -> None:
    client = PlayedClient()
    path = managed_ledger_path(full_name("t"))
    await client.store.create(path, encode_chain([LedgerInfo(3, 1, 1, 1)]))
    await mark(client.store, full_name("t"))
    before = await client.store.get(path)
    with pytest.raises(MarkedForDeletionError, match="delete it again"):
        await Topic.create(client.real, "t", partitions=0)
    assert await client.store.get(path) == before
    assert client.ledgers == {}


async def test_all_partitions_are_closed_even_if_one_of_them_fails() -> None:
    closed: list[int] = []

    class Ledger:
        def __init__(self, index: int) -> None:
            self.index = index

        async def close(self) -> None:
            if self.index == 0:
                raise MetadataUnavailableError("no response")
            await asyncio.sleep(0.01)
            closed.append(self.index)

    partitions = [Partition(index, "", cast(ManagedLedger, Ledger(index))) for index in range(3)]
    with pytest.raises(MetadataUnavailableError, match="no response"):
        await Topic("t", PlayedClient().real, partitions).close()
    assert closed == [1, 2]
