"""The rules of a ledger's metadata node that need no ZooKeeper to be seen."""

from dataclasses import replace

import pytest

from labkit.metadata.ledger_layout import HIERARCHICAL
from labkit.metadata.ledger_manager import LedgerManager
from labkit.metadata.place import DEFAULT_LEDGERS_ROOT as ROOT
from labkit.model.errors import BKLedgerExistException, BKMetadataVersionException
from labkit.model.ledger import LedgerMetadata, LedgerState, Segment
from tests.client.memory_store import MemoryStore

METADATA = LedgerMetadata(3, 2, 2, (Segment(0, ("b1", "b2", "b3")),), c_token=42)


def manager_of_an_empty_cluster() -> LedgerManager:
    store = MemoryStore()
    store.tree.create(f"{ROOT}/LAYOUT", HIERARCHICAL.encode(), 0, False)
    return LedgerManager(store)


async def test_metadata_that_another_client_changed_are_not_replaced() -> None:
    manager = manager_of_an_empty_cluster()
    await manager.create(7, METADATA)
    await manager.write(7, METADATA.closed(4, 50), 0)
    with pytest.raises(BKMetadataVersionException, match="since version 0"):
        await manager.write(7, METADATA.closed(3, 40), 0)
    metadata, version = await manager.read(7)
    assert (metadata.state, metadata.last_entry_id, version) == (LedgerState.CLOSED, 4, 1)


@pytest.mark.parametrize("stored", [0, 43])
@pytest.mark.parametrize("asked", [0, 42])
async def test_ledger_without_the_token_of_this_very_attempt_is_another_clients(
    stored: int, asked: int
) -> None:
    manager = manager_of_an_empty_cluster()
    await manager.create(7, replace(METADATA, c_token=stored))
    with pytest.raises(BKLedgerExistException):
        await manager.create(7, replace(METADATA, c_token=asked))
