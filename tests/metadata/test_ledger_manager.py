import asyncio

import pytest

from labkit.live.zookeeper_store import ZooKeeperStore
from labkit.metadata.ledger_manager import LedgerManager, ledger_path
from labkit.model.errors import (
    BKLedgerExistException,
    BKMetadataVersionException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.model.ledger import LedgerMetadata, LedgerState, Segment
from tests.conftest import NewStore

pytestmark = pytest.mark.asyncio(loop_scope="module")

METADATA = LedgerMetadata(3, 2, 2, (Segment(0, ("b1", "b2", "b3")),), c_token=42)


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "/ledgers/00/0000/L0000"),
        (12345, "/ledgers/00/0001/L2345"),
        (2147483646, "/ledgers/21/4748/L3646"),
        (2147483647, "/ledgers/000/0000/0021/4748/L3647"),
        (4294967301, "/ledgers/000/0000/0042/9496/L7301"),
    ],
)
async def test_ledger_lies_where_bookkeeper_puts_it(
    store: ZooKeeperStore, ledger_id: int, path: str
) -> None:
    manager = LedgerManager(store)
    assert ledger_path(ledger_id) == path
    assert await manager.create(ledger_id, METADATA) == 0
    assert path.rpartition("/")[2] in await store.children(path.rpartition("/")[0])
    assert await manager.read(ledger_id) == (METADATA, 0)
    assert ledger_id in await manager.ids()
    await manager.delete(ledger_id)
    assert ledger_id not in await manager.ids()


async def test_ids_of_all_ledgers_come_ascending(store: ZooKeeperStore) -> None:
    manager = LedgerManager(store)
    before = await manager.ids()
    for ledger_id in (4294967301, 12345, 2147483647, 7):
        await manager.create(ledger_id, METADATA)
    assert await manager.ids() == sorted([*before, 7, 12345, 2147483647, 4294967301])
    for ledger_id in (4294967301, 12345, 2147483647, 7):
        await manager.delete(ledger_id)


async def test_two_clients_at_once_never_get_the_same_ledger_id(new_store: NewStore) -> None:
    managers = [LedgerManager(await new_store()) for _ in range(2)]
    ids = await asyncio.gather(*(managers[n % 2].new_ledger_id() for n in range(60)))
    assert len(set(ids)) == 60
    assert min(ids) >= 0


async def test_ids_grow_although_their_nodes_are_gone(store: ZooKeeperStore) -> None:
    manager = LedgerManager(store)
    ids = [await manager.new_ledger_id() for _ in range(3)]
    assert ids == sorted(set(ids))
    assert await store.children("/ledgers/idgen") == []


async def test_ledger_id_that_is_taken_is_refused(store: ZooKeeperStore) -> None:
    manager = LedgerManager(store)
    await manager.create(500, METADATA)
    with pytest.raises(BKLedgerExistException, match="500"):
        await manager.create(500, METADATA)


async def test_of_two_who_change_metadata_at_once_one_is_told(new_store: NewStore) -> None:
    one, other = LedgerManager(await new_store()), LedgerManager(await new_store())
    await one.create(501, METADATA)
    results = await asyncio.gather(
        one.write(501, METADATA.closed(4, 50), 0),
        other.write(501, METADATA.closed(9, 90), 0),
        return_exceptions=True,
    )
    lost = [result for result in results if result != 1]
    assert [type(result) for result in lost] == [BKMetadataVersionException]
    metadata, version = await one.read(501)
    assert version == 1
    assert metadata.last_entry_id == (4 if results[0] == 1 else 9)


async def test_closing_drops_the_creation_token(store: ZooKeeperStore) -> None:
    manager = LedgerManager(store)
    await manager.create(502, METADATA)
    await manager.write(502, METADATA.closed(2, 15), 0)
    metadata, _ = await manager.read(502)
    assert (metadata.state, metadata.last_entry_id, metadata.length) == (LedgerState.CLOSED, 2, 15)
    assert metadata.c_token == 0


async def test_ledger_that_is_not_there_is_named(store: ZooKeeperStore) -> None:
    manager = LedgerManager(store)
    for call in (manager.read(999), manager.write(999, METADATA, 0), manager.delete(999)):
        with pytest.raises(BKNoSuchLedgerExistsOnMetadataServerException, match="no ledger 999"):
            await call
