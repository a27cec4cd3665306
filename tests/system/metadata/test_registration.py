import asyncio

import pytest

from labkit.system.metadata.bookie_watch import BookieWatch
from labkit.system.metadata.registration import (
    BOOKIE_RPC,
    TRACE,
    Endpoint,
    all_bookies,
    check_bookie_id,
    decode_service_info,
    encode_service_info,
    find_endpoint,
    read_only_bookies,
    register_bookie,
    writable_bookies,
)
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKIncorrectParameterException,
    BKMetadataSerializationException,
)
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.conftest import NewStore
from tests.until import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

RPC = Endpoint(BOOKIE_RPC, "192.0.2.1", 3181)

# One endpoint: id "bookie", port 3181, host "192.0.2.1", protocol "bookie-rpc".
SERVICE_INFO = bytes.fromhex(
    "32220a06626f6f6b696510ed181a093139322e302e322e31220a626f6f6b69652d727063"
)


async def test_registration_is_the_bytes_that_bookkeeper_writes() -> None:
    assert encode_service_info([RPC]) == SERVICE_INFO
    assert decode_service_info("any", SERVICE_INFO) == [RPC]


async def test_trace_endpoint_is_one_more_that_other_clients_pass_over() -> None:
    trace = Endpoint(TRACE, "192.0.2.1", 4000)
    data = encode_service_info([RPC, trace])
    assert data.startswith(SERVICE_INFO)
    assert decode_service_info("any", data) == [RPC, trace]


async def test_empty_registration_means_that_the_id_is_the_address() -> None:
    assert decode_service_info("192.0.2.1:3181", b"") == [RPC]


@pytest.mark.parametrize("data", [b"", b"\xff\xff"])
async def test_registration_without_an_address_is_damaged(data: bytes) -> None:
    with pytest.raises(BKMetadataSerializationException, match="bookie-1"):
        decode_service_info("bookie-1", data)


@pytest.mark.parametrize("bookie_id", ["bookie-1", "192.0.2.1:3181", "a_b.c"])
async def test_id_that_bookkeeper_takes_is_allowed(bookie_id: str) -> None:
    check_bookie_id(bookie_id)


@pytest.mark.parametrize("bookie_id", ["", "a/b", "a b", "bücher", "readonly", "ReadOnly"])
async def test_id_that_bookkeeper_refuses_is_refused(bookie_id: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="cannot be a bookie id"):
        check_bookie_id(bookie_id)


async def test_registered_bookie_takes_writes_until_its_session_ends(new_store: NewStore) -> None:
    watcher, bookie = await new_store(), await new_store()
    assert await writable_bookies(watcher) == []
    await register_bookie(bookie, "b-1", [RPC])
    assert await writable_bookies(watcher) == ["b-1"]
    assert await find_endpoint(watcher, "b-1", BOOKIE_RPC) == RPC
    await bookie.stop()
    assert await writable_bookies(watcher) == []


async def test_stale_registration_is_replaced_and_survives_the_old_session(
    new_store: NewStore,
) -> None:
    watcher, dead, living = await new_store(), await new_store(), await new_store()
    now = Endpoint(BOOKIE_RPC, "192.0.2.1", 3182)
    await register_bookie(dead, "b-2", [RPC])
    await register_bookie(living, "b-2", [now])
    await dead.stop()
    assert await find_endpoint(watcher, "b-2", BOOKIE_RPC) == now


async def test_bookie_that_registers_again_is_never_missing(new_store: NewStore) -> None:
    watcher, dead, living = await new_store(), await new_store(), await new_store()
    await register_bookie(dead, "b-6", [RPC])
    watch, seen = BookieWatch(watcher), []

    async def look() -> None:
        while True:
            seen.append("b-6" in (await watch.now()).alive)
            await watch.changed()

    looking = asyncio.create_task(look())
    await until(lambda: seen)
    for read_only in (False, True, False, False, True):
        await register_bookie(living, "b-6", [RPC], read_only=read_only)
    looking.cancel()
    assert all(seen)
    assert len(seen) > 1


async def test_bookies_of_the_cluster_are_those_with_a_cookie(
    empty_store: ZooKeeperStore,
) -> None:
    assert await all_bookies(empty_store) == []
    await empty_store.create("/ledgers/cookies/b-8", b"")
    await empty_store.create("/ledgers/cookies/b-7", b"")
    assert await all_bookies(empty_store) == ["b-7", "b-8"]


async def test_read_only_bookies_are_found_and_take_no_writes(store: ZooKeeperStore) -> None:
    await store.create("/ledgers/available/readonly/b-3", SERVICE_INFO, ephemeral=True)
    assert await writable_bookies(store) == []
    assert await read_only_bookies(store) == ["b-3"]
    assert await find_endpoint(store, "b-3", BOOKIE_RPC) == RPC


async def test_bookie_that_is_not_registered_is_not_available(store: ZooKeeperStore) -> None:
    with pytest.raises(BKBookieHandleNotAvailableException, match="b-4 is not registered"):
        await find_endpoint(store, "b-4", BOOKIE_RPC)


async def test_endpoint_that_a_bookie_lacks_is_not_available(store: ZooKeeperStore) -> None:
    await register_bookie(store, "b-5", [RPC])
    with pytest.raises(BKBookieHandleNotAvailableException, match=f"with a {TRACE} endpoint"):
        await find_endpoint(store, "b-5", TRACE)
