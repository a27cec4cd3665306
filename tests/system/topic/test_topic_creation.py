"""Test that a topic that cannot be created leaves nothing open."""

from types import SimpleNamespace
from typing import cast

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.topic import topic as topic_module
from labkit.system.topic.topic import Topic
from tests.system.client.memory_store import MemoryStore


async def test_if_a_partition_cannot_be_opened_the_others_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []

    class Ledger:
        def __init__(self, name: str, *_: object) -> None:
            self.name = name

        async def open(self) -> None:
            if self.name.endswith("-2"):
                raise MetadataUnavailableError("no response")

        async def close(self) -> None:
            closed.append(self.name[-1])

    monkeypatch.setattr(topic_module, "ManagedLedger", Ledger)
    client = cast(BookKeeper, SimpleNamespace(store=MemoryStore()))
    with pytest.raises(MetadataUnavailableError, match="no response"):
        await Topic.create(client, "t", partitions=3)
    assert closed == ["0", "1"]
