"""Tests for the deletion of a topic whose chain is marked."""

from labkit.system.topic.chain.formats import decode_chain, encode_chain
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.deletion import delete_marked, mark
from labkit.system.topic.names import managed_ledger_path
from tests.system.topic.clients import PlayedClient

TOPIC = "persistent://public/default/t"
PATH = managed_ledger_path(TOPIC)


async def topic_with(count: int) -> PlayedClient:
    client = PlayedClient()
    ledgers = [await client.create_ledger(1, 1, 1) for _ in range(count)]
    links = [LedgerInfo(ledger.ledger_id, 1, 1, 1) for ledger in ledgers]
    await client.store.create(PATH, encode_chain(links))
    return client


async def test_a_marked_topic_is_deleted_with_its_ledgers() -> None:
    client = await topic_with(2)
    await mark(client.store, TOPIC)
    await delete_marked(client.real, TOPIC)
    assert client.ledgers == {}
    assert not client.store.tree.exists(PATH, None)


async def test_a_topic_that_was_created_again_is_not_deleted_by_an_earlier_deletion() -> None:
    client = await topic_with(1)
    await delete_marked(client.real, TOPIC)
    assert list(client.ledgers) == [1]
    assert [link.ledger_id for link in decode_chain((await client.store.get(PATH))[0])] == [1]
