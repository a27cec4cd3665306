"""Tests for bundle ownership in the simulated world, where sessions can be expired at any time."""

import asyncio
import json
from contextlib import suppress

import pytest

from labkit.system.broker.ownership import (
    BrokerAddress,
    NamespaceBundle,
    TopicOwnership,
    bundle_of,
    decode_broker,
    decode_owner,
    encode_broker,
    encode_owner,
)
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import BKMetadataSerializationException
from labkit.system.trace.recorder import Recorder
from labkit.worlds.sim.machine.metadata import SimMetadataStore
from tests.worlds.sim.metadata_world import MetadataWorld, in_metadata_world

TOPIC = "persistent://public/default/t"
BUNDLE = NamespaceBundle("public/default", 0x80000000, 0xC0000000)


def address(name: str) -> BrokerAddress:
    return BrokerAddress(f"{name}:8080", f"pulsar://{name}:6650", web_url=f"http://{name}:8080")


A, B = address("a"), address("b")


class Broker(TopicOwnership):
    """A broker's ownership that records every reported loss."""

    def __init__(self, store: SimMetadataStore, me: BrokerAddress) -> None:
        super().__init__(store, me, Recorder(me.broker_id, lambda: 0))
        self.lost: list[NamespaceBundle] = []
        self.when_lost(self.lost.extend)


async def broker(world: MetadataWorld, name: str) -> Broker:
    return Broker(await world.session(name), address(name))


# Names and nodes


@pytest.mark.promise("Bundles and their znodes have Pulsar's formats")
@pytest.mark.parametrize(
    ("topic", "bundle"),
    [
        (TOPIC, "public/default/0x80000000_0xc0000000"),
        ("persistent://public/default/a", "public/default/0xc0000000_0xffffffff"),
        ("persistent://public/default/c", "public/default/0x00000000_0x40000000"),
        ("persistent://sales/eu/a-partition-1", "sales/eu/0x40000000_0x80000000"),
        ("persistent://public/default/größe", "public/default/0x80000000_0xc0000000"),
    ],
)
def test_bundle_is_the_quarter_of_the_ring_with_the_names_crc32(topic: str, bundle: str) -> None:
    assert str(bundle_of(topic)) == bundle
    assert bundle_of(topic).path == f"/namespace/{bundle}"


def test_node_of_a_real_broker_is_read() -> None:
    written_by_pulsar = (
        b'{"webServiceUrl":"http://10.0.0.1:8080","webServiceUrlTls":"https://10.0.0.1:8443",'
        b'"pulsarServiceUrl":"pulsar://10.0.0.1:6650","persistentTopicsEnabled":true,'
        b'"cpu":{"usage":3.1,"limit":100.0},"lastStats":{},"numTopics":1,"bundles":[]}'
    )
    assert decode_broker("10.0.0.1:8080", written_by_pulsar) == BrokerAddress(
        "10.0.0.1:8080",
        "pulsar://10.0.0.1:6650",
        web_url="http://10.0.0.1:8080",
        web_url_tls="https://10.0.0.1:8443",
    )


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b'"x"', b"{"])
def test_damaged_node_is_reported_as_damaged(data: bytes) -> None:
    with pytest.raises(BKMetadataSerializationException):
        decode_owner(data)
    with pytest.raises(BKMetadataSerializationException):
        decode_broker("a:8080", data)


# Ownership


@pytest.mark.promise("A bundle has one owner until the owner releases it or its session expires")
@in_metadata_world()
async def test_first_broker_owns_the_bundle_and_the_second_finds_it(world: MetadataWorld) -> None:
    a, b = await broker(world, "a"), await broker(world, "b")
    assert await a.owner_of(bundle_of(TOPIC)) is None
    assert [*await asyncio.gather(a.acquire(TOPIC), b.acquire(TOPIC))] == [A, A]
    assert await b.owner_of(bundle_of(TOPIC)) == A
    assert (a.owned, b.owned) == ([BUNDLE], [])
    assert a.owns(TOPIC)
    assert not b.owns(TOPIC)


@in_metadata_world()
async def test_bundle_of_a_dead_broker_is_free_when_its_session_ends(world: MetadataWorld) -> None:
    a, b = await broker(world, "a"), await broker(world, "b")
    await a.acquire(TOPIC)
    world.crash("a")
    assert await b.acquire(TOPIC) == A
    await asyncio.sleep(world.session_timeout_s + 1)
    assert await b.acquire(TOPIC) == B


@in_metadata_world()
async def test_lost_session_takes_all_bundles_and_says_so_at_once(world: MetadataWorld) -> None:
    a, b = await broker(world, "a"), await broker(world, "b")
    await a.acquire(TOPIC)
    world.zookeeper.expire("a")
    assert await b.acquire(TOPIC) == B
    await asyncio.sleep(1)
    assert a.lost == [BUNDLE]
    assert not a.owns(TOPIC)
    assert await a.acquire(TOPIC) == B
    assert b.lost == []


@in_metadata_world()
async def test_broker_that_is_cut_off_believes_it_is_still_an_owner(world: MetadataWorld) -> None:
    """This is why ownership is not a lock: only fencing stops that broker's adds."""
    a, b = await broker(world, "a"), await broker(world, "b")
    await a.acquire(TOPIC)
    world.cut("a")
    await asyncio.sleep(world.session_timeout_s + 1)
    assert await b.acquire(TOPIC) == B
    assert a.owns(TOPIC)
    world.heal()
    await asyncio.sleep(world.session_timeout_s)
    assert not a.owns(TOPIC)
    assert b.owns(TOPIC)


@in_metadata_world()
async def test_broker_owns_no_bundle_that_it_took_in_a_lost_session(world: MetadataWorld) -> None:
    """The new session starts before the acquiring task learns that its node was created."""
    store = await world.session("a")
    a = Broker(store, A)
    create, calls = store.create, []

    async def responded_late(path: str, data: bytes, *, ephemeral: bool = False) -> str:
        created = await create(path, data, ephemeral=ephemeral)
        calls.append(world.zookeeper.tree.exists(path, None))
        if len(calls) == 1:
            world.zookeeper.expire("a")
            await asyncio.sleep(1)
        return created

    store.create = responded_late  # type: ignore[method-assign,assignment]
    assert await a.acquire(TOPIC) == A
    # The broker owns the bundle through the second node, because the first has been deleted.
    assert calls == [True, True]
    assert a.owns(TOPIC)
    assert world.zookeeper.tree.exists(BUNDLE.path, None)


@pytest.mark.parametrize("after_us", range(0, 2000, 200))
@in_metadata_world()
async def test_broker_owns_what_its_nodes_say_always(world: MetadataWorld, after_us: int) -> None:
    a = await broker(world, "a")
    acquiring = asyncio.ensure_future(a.acquire(TOPIC))
    await asyncio.sleep(after_us / 1_000_000)
    world.zookeeper.expire("a")
    with suppress(MetadataUnavailableError):
        await acquiring
    await asyncio.sleep(1)
    assert a.owns(TOPIC) == world.zookeeper.tree.exists(BUNDLE.path, None)


# Registered brokers


@in_metadata_world()
async def test_brokers_are_those_that_live(world: MetadataWorld) -> None:
    a, b = await broker(world, "a"), await broker(world, "b")
    assert await a.brokers() == []
    await a.register()
    await b.register()
    assert await a.brokers() == [A, B]
    await a.unregister()
    assert await b.brokers() == [B]
    world.crash("b")
    await asyncio.sleep(world.session_timeout_s + 1)
    assert await a.brokers() == []


# Addresses of brokers

PLAIN = BrokerAddress("a:8080", "pulsar://a:6650", web_url="http://a:8080")
FULL = BrokerAddress(
    "a:8080", "pulsar://a:6650", "pulsar+ssl://a:6651", "http://a:8080", "https://a:8443"
)
TOPICS_PERSIST = {"persistentTopicsEnabled": True, "nonPersistentTopicsEnabled": False}


@pytest.mark.parametrize(
    ("address", "node"),
    [
        (PLAIN, {"webServiceUrl": "http://a:8080", "pulsarServiceUrl": "pulsar://a:6650"}),
        (
            FULL,
            {
                "webServiceUrl": "http://a:8080",
                "webServiceUrlTls": "https://a:8443",
                "pulsarServiceUrl": "pulsar://a:6650",
                "pulsarServiceUrlTls": "pulsar+ssl://a:6651",
            },
        ),
    ],
)
def test_broker_announces_its_urls(address: BrokerAddress, node: dict[str, str]) -> None:
    assert json.loads(encode_broker(address)) == node | TOPICS_PERSIST
    assert decode_broker("a:8080", encode_broker(address)) == address


@pytest.mark.parametrize("disabled", [False, True])
def test_owner_is_stored_with_its_urls_and_whether_it_is_unloading(disabled: bool) -> None:
    assert json.loads(encode_owner(FULL, disabled=disabled)) == {
        "nativeUrl": "pulsar://a:6650",
        "nativeUrlTls": "pulsar+ssl://a:6651",
        "httpUrl": "http://a:8080",
        "httpUrlTls": "https://a:8443",
        "disabled": disabled,
        "advertisedListeners": {},
    }
    for address in (PLAIN, FULL):
        assert decode_owner(encode_owner(address, disabled=disabled)) == (address, disabled)


@pytest.mark.parametrize(
    ("urls", "broker_id"),
    [
        (("pulsar://s:1", "pulsar+ssl://s:2", "http://w:3", "https://w:4"), "w:3"),
        (("pulsar://s:1", "pulsar+ssl://s:2", "", "https://w:4"), "w:4"),
        (("pulsar://s:1", "pulsar+ssl://s:2", "", ""), "s:1"),
        (("", "pulsar+ssl://s:2", "", ""), "s:2"),
        (("", "", "", ""), ""),
    ],
)
def test_owner_is_named_by_its_http_url(urls: tuple[str, str, str, str], broker_id: str) -> None:
    owner, _ = decode_owner(encode_owner(BrokerAddress("", *urls)))
    assert owner == BrokerAddress(broker_id, *urls)


def test_url_that_is_null_or_missing_is_empty() -> None:
    assert decode_owner(b'{"nativeUrl": null}') == (BrokerAddress("", ""), False)
    assert decode_broker("a:1", b"{}") == BrokerAddress("a:1", "")


def test_bundles_cover_the_ring_and_the_last_one_has_its_end() -> None:
    bundles = {bundle_of(f"persistent://t/n/{number}") for number in range(100)}
    quarter = 0x4000_0000
    assert sorted(bundles) == [
        NamespaceBundle("t/n", at * quarter, min((at + 1) * quarter, 0xFFFF_FFFF))
        for at in range(4)
    ]
