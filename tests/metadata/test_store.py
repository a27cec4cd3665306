"""The contract of the `MetadataStore` port, on a real ZooKeeper."""

import asyncio
import os
import signal

import pytest

from labkit.live import zookeeper_store
from labkit.live.zookeeper import EmbeddedZooKeeper, free_port
from labkit.live.zookeeper_store import ZooKeeperStore
from labkit.metadata.store import (
    BadVersionError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from labkit.model.errors import BKIncorrectParameterException
from tests.conftest import NewStore
from tests.until import DEADLINE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_created_node_has_its_data_and_version_0(store: ZooKeeperStore) -> None:
    assert await store.create("/contract/made", b"\x00\xff") == "/contract/made"
    assert await store.get("/contract/made") == (b"\x00\xff", 0)


async def test_create_makes_missing_parents_with_no_data(store: ZooKeeperStore) -> None:
    await store.create("/contract/a/b/c", b"leaf")
    assert await store.get("/contract/a/b") == (b"", 0)
    assert await store.children("/contract/a/b") == ["c"]


async def test_node_that_exists_is_not_created_again(store: ZooKeeperStore) -> None:
    await store.create("/contract/once", b"first")
    with pytest.raises(NodeExistsError, match="/contract/once"):
        await store.create("/contract/once", b"second")
    assert await store.get("/contract/once") == (b"first", 0)


async def test_set_moves_the_version_by_one(store: ZooKeeperStore) -> None:
    await store.create("/contract/versions", b"0")
    assert await store.set("/contract/versions", b"1", 0) == 1
    assert await store.set("/contract/versions", b"2", 1) == 2
    assert await store.get("/contract/versions") == (b"2", 2)


async def test_set_with_an_old_version_changes_nothing(store: ZooKeeperStore) -> None:
    await store.create("/contract/cas", b"0")
    await store.set("/contract/cas", b"mine", 0)
    with pytest.raises(BadVersionError, match="/contract/cas"):
        await store.set("/contract/cas", b"late", 0)
    assert await store.get("/contract/cas") == (b"mine", 1)


async def test_of_two_sets_with_the_same_version_one_wins(new_store: NewStore) -> None:
    one, other = await new_store(), await new_store()
    await one.create("/contract/race", b"")
    sets = (one.set("/contract/race", b"one", 0), other.set("/contract/race", b"other", 0))
    results = await asyncio.gather(*sets, return_exceptions=True)
    assert sorted(type(result) for result in results if result != 1) == [BadVersionError]
    winner = b"one" if results[0] == 1 else b"other"
    assert await one.get("/contract/race") == (winner, 1)


async def test_node_that_is_missing_is_named(store: ZooKeeperStore) -> None:
    for call in (
        store.get("/contract/missing"),
        store.set("/contract/missing", b"", 0),
        store.delete("/contract/missing"),
        store.children("/contract/missing"),
    ):
        with pytest.raises(NoNodeError, match="/contract/missing"):
            await call


async def test_deleted_node_can_be_created_anew_with_version_0(store: ZooKeeperStore) -> None:
    await store.create("/contract/again", b"1")
    await store.set("/contract/again", b"2", 0)
    await store.delete("/contract/again")
    await store.create("/contract/again", b"3")
    assert await store.get("/contract/again") == (b"3", 0)


async def test_children_are_sorted_names(store: ZooKeeperStore) -> None:
    for name in ("b", "a", "c"):
        await store.create(f"/contract/names/{name}", b"")
    assert await store.children("/contract/names") == ["a", "b", "c"]


async def test_sequential_nodes_get_growing_numbers_of_ten_digits(new_store: NewStore) -> None:
    one, other = await new_store(), await new_store()
    paths = [
        await session.create("/contract/queue/ID-", b"", ephemeral=True, sequential=True)
        for session in (one, other, one)
    ]
    assert [path[: -len("0000000000")] for path in paths] == ["/contract/queue/ID-"] * 3
    numbers = [int(path[-10:]) for path in paths]
    assert numbers == sorted(set(numbers))


async def test_number_of_a_deleted_sequential_node_does_not_come_again(
    store: ZooKeeperStore,
) -> None:
    seen: list[str] = []
    for _ in range(3):
        seen.append(await store.create("/contract/used/ID-", b"", ephemeral=True, sequential=True))
        await store.delete(seen[-1])
    assert seen == sorted(set(seen))


async def test_ephemeral_node_ends_with_its_session(
    zookeeper: EmbeddedZooKeeper, store: ZooKeeperStore
) -> None:
    owner = ZooKeeperStore(zookeeper.address)
    await owner.start()
    await owner.create("/contract/alive/me", b"", ephemeral=True)
    assert await store.children("/contract/alive") == ["me"]
    await owner.stop()
    assert await store.children("/contract/alive") == []


async def test_session_that_was_ended_answers_that_it_is_unavailable(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    ended = ZooKeeperStore(zookeeper.address)
    await ended.start()
    await ended.stop()
    with pytest.raises(MetadataUnavailableError):
        await ended.get("/")


async def test_start_without_a_server_says_where_it_looked() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(MetadataUnavailableError, match=f"no ZooKeeper answers at {address}"):
        await ZooKeeperStore(address).start(timeout_s=0.5)


@pytest.mark.parametrize("address", ["127.0.0.1:no-port", "127.0.0.1:99999"])
async def test_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="write host:port"):
        ZooKeeperStore(address)


async def test_server_that_falls_silent_does_not_hang_its_client(
    zookeeper: EmbeddedZooKeeper, store: ZooKeeperStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_store, "_ANSWER_TIMEOUT_S", 0.3)
    os.kill(zookeeper.pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(MetadataUnavailableError, match=r"did not answer within 0\.3 s"):
                await store.get("/")
    finally:
        os.kill(zookeeper.pid, signal.SIGCONT)
