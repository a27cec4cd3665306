"""Tests for the deletion of a topic whose chain is marked."""

from typing import cast

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.topic.chain.formats import decode_chain, encode_chain
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.deletion import delete_marked, mark
from labkit.system.topic.names import managed_ledger_path
from tests.system.client.memory_store import MemoryStore

TOPIC = "persistent://public/default/t"
PATH = managed_ledger_path(TOPIC)


class Client:
    """A client that records which ledgers are deleted."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.deleted: list[int] = []

    async def delete_ledger(self, ledger_id: int) -> None:
        self.deleted.append(ledger_id)


async def topic_with(*ledger_ids: int) -> Client:
    client = Client()
    links = [LedgerInfo(ledger_id, 1, 1, 1) for ledger_id in ledger_ids]
    await client.store.create(PATH, encode_chain(links))
    return client


async def test_a_marked_topic_is_deleted_with_its_ledgers() -> None:
    client = await topic_with(3, 4)
    await mark(client.store, TOPIC)
    await delete_marked(cast(BookKeeper, client), TOPIC)
    assert client.deleted == [3, 4]
    assert not client.store.tree.exists(PATH, None)


async def test_a_topic_that_was_created_again_is_not_deleted_by_an_earlier_deletion() -> None:
    client = await topic_with(5)
    await delete_marked(cast(BookKeeper, client), TOPIC)
    assert client.deleted == []
    assert [link.ledger_id for link in decode_chain((await client.store.get(PATH))[0])] == [5]
