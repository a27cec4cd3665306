"""Tests for registrations: their format, and how bookies are found while they register again."""

from collections.abc import Awaitable, Callable

import pytest

from labkit.system.metadata.registration import (
    BOOKIE_RPC,
    TRACE,
    Endpoint,
    all_bookies,
    check_bookie_id,
    decode_service_info,
    encode_service_info,
    find_endpoint,
    register_bookie,
    writable_bookies,
)
from labkit.system.metadata.store import ANY_VERSION
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKIncorrectParameterException,
    BKMetadataSerializationException,
)
from tests.system.client.memory_store import MemoryStore

RPC = Endpoint(BOOKIE_RPC, "192.0.2.1", 3181)
WRITABLE, READ_ONLY = "/ledgers/available/b", "/ledgers/available/readonly/b"


class Store(MemoryStore):
    """A store that records changes and calls `before_delete` while a deletion is in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[str] = []
        self.before_delete: Callable[[str], None] = lambda path: None

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        created = await super().create(path, data, ephemeral=ephemeral, sequential=sequential)
        self.changes.append(f"+{path}" if ephemeral else f"+{path} for good")
        return created

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self.before_delete(path)
        await super().delete(path, version)
        self.changes.append(f"-{path}")


Ask = Callable[[MemoryStore], Awaitable[list[str]]]


@pytest.mark.parametrize(
    ("read_only", "path", "other"), [(False, WRITABLE, READ_ONLY), (True, READ_ONLY, WRITABLE)]
)
async def test_bookie_is_in_the_list_of_its_kind_before_it_leaves_the_other(
    read_only: bool, path: str, other: str
) -> None:
    store = Store()
    await register_bookie(store, "b", [RPC], read_only=not read_only)
    store.changes.clear()
    await register_bookie(store, "b", [RPC], read_only=read_only)
    assert store.changes == [f"+{path}", f"-{other}"]
    assert await writable_bookies(store) == ([] if read_only else ["b"])
    assert await store.children("/ledgers/available/readonly") == (["b"] if read_only else [])


async def test_writable_bookie_that_registers_again_is_read_only_meanwhile() -> None:
    store = Store()
    await register_bookie(store, "b", [RPC])
    store.changes.clear()
    await register_bookie(store, "b", [RPC])
    assert store.changes == [f"+{READ_ONLY}", f"-{WRITABLE}", f"+{WRITABLE}", f"-{READ_ONLY}"]


async def test_read_only_bookie_that_registers_again_only_replaces_its_node() -> None:
    store = Store()
    await register_bookie(store, "b", [RPC], read_only=True)
    store.changes.clear()
    await register_bookie(store, "b", [RPC], read_only=True)
    assert store.changes == [f"-{READ_ONLY}", f"+{READ_ONLY}"]


async def test_node_of_an_earlier_session_may_go_while_it_is_replaced() -> None:
    store = Store()
    store.tree.create(READ_ONLY, b"", 2, False)

    def ends(_: str) -> None:
        store.tree.end_session(2)
        store.before_delete = lambda path: None

    store.before_delete = ends
    await register_bookie(store, "b", [RPC], read_only=True)
    assert await store.children("/ledgers/available/readonly") == ["b"]
    assert await find_endpoint(store, "b", BOOKIE_RPC) == RPC


@pytest.mark.parametrize("ask", [writable_bookies, all_bookies])
async def test_without_a_folder_there_are_no_bookies(ask: Ask) -> None:
    assert await ask(MemoryStore()) == []


async def test_bookies_of_the_cluster_are_those_with_a_cookie() -> None:
    store = Store()
    for name in ("b2", "b1"):
        await store.create(f"/ledgers/cookies/{name}", b"")
    assert await all_bookies(store) == ["b1", "b2"]


async def test_endpoint_is_looked_for_by_its_protocol_and_a_bookie_without_it_is_not_there() -> (
    None
):
    store = Store()
    trace = Endpoint(TRACE, "10.0.0.1", 9999)
    await register_bookie(store, "b", [RPC, trace])
    assert await find_endpoint(store, "b", BOOKIE_RPC) == RPC
    assert await find_endpoint(store, "b", TRACE) == trace
    for bookie, protocol in (("b", "other"), ("c", BOOKIE_RPC)):
        with pytest.raises(
            BKBookieHandleNotAvailableException,
            match=f"{bookie} is not registered with a {protocol}",
        ):
            await find_endpoint(store, bookie, protocol)


# One endpoint with id "bookie", port 3181, host "192.0.2.1" and protocol "bookie-rpc".
SERVICE_INFO = bytes.fromhex(
    "32220a06626f6f6b696510ed181a093139322e302e322e31220a626f6f6b69652d727063"
)


def test_registration_is_the_bytes_that_bookkeeper_writes() -> None:
    assert encode_service_info([RPC]) == SERVICE_INFO
    assert decode_service_info("any", SERVICE_INFO) == [RPC]


def test_trace_endpoint_is_one_more_that_other_clients_pass_over() -> None:
    others = [Endpoint(TRACE, "192.0.2.1", 4000), Endpoint("http", "h", 65_535)]
    data = encode_service_info([RPC, *others])
    assert data.startswith(SERVICE_INFO)
    assert decode_service_info("any", data) == [RPC, *others]


@pytest.mark.parametrize(
    ("bookie_id", "endpoint"),
    [("h:3181", Endpoint(BOOKIE_RPC, "h", 3181)), ("::1:80", Endpoint(BOOKIE_RPC, "::1", 80))],
)
def test_empty_registration_is_read_from_the_id(bookie_id: str, endpoint: Endpoint) -> None:
    assert decode_service_info(bookie_id, b"") == [endpoint]


@pytest.mark.parametrize(
    ("bookie_id", "data"),
    [
        ("h", b""),
        ("h:", b""),
        ("h:x", b""),
        ("h:65536", b""),
        ("h", b"\xff"),
        ("h", encode_service_info([Endpoint(BOOKIE_RPC, "192.0.2.1", 65_536)])),
        ("h", encode_service_info([Endpoint(BOOKIE_RPC, "192.0.2.1", -1)])),
    ],
)
def test_registration_that_names_no_address_is_damaged(bookie_id: str, data: bytes) -> None:
    with pytest.raises(
        BKMetadataSerializationException, match=f"the registration of {bookie_id} is"
    ):
        decode_service_info(bookie_id, data)


@pytest.mark.parametrize("bookie_id", ["", "a b", "a/b", "readonly", "ReadOnly", "ä"])
def test_id_that_bookkeeper_would_not_take_is_rejected(bookie_id: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="invalid bookie id"):
        check_bookie_id(bookie_id)


@pytest.mark.parametrize("bookie_id", ["a", "10.0.0.1:3181", "b0_x.y", "readonly2"])
def test_id_of_letters_digits_and_some_signs_is_taken(bookie_id: str) -> None:
    check_bookie_id(bookie_id)
