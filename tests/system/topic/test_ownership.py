"""Which broker owns a topic's bundle: in the simulated world, where sessions end at will."""

import asyncio
import json
from contextlib import suppress

import pytest

from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import BKMetadataSerializationException
from labkit.system.topic.ownership import (
    BROKERS,
    BrokerAddress,
    BundleUnloadingError,
    NamespaceBundle,
    TopicOwnership,
    bundle_of,
    decode_broker,
    decode_owner,
    encode_broker,
    encode_owner,
)
from labkit.system.trace.recorder import Recorder
from labkit.worlds.sim.machine.metadata import SimMetadataStore
from tests.worlds.sim.metadata_world import MetadataWorld, run_metadata_world

TOPIC = "persistent://public/default/t"
BUNDLE = NamespaceBundle("public/default", 0x80000000, 0xC0000000)


def address(name: str) -> BrokerAddress:
    return BrokerAddress(f"{name}:8080", f"pulsar://{name}:6650", web_url=f"http://{name}:8080")


A, B = address("a"), address("b")


class Broker(TopicOwnership):
    """A broker's ownership, with every loss that was reported."""

    def __init__(self, store: SimMetadataStore, me: BrokerAddress) -> None:
        super().__init__(store, me, Recorder(me.broker_id, lambda: 0))
        self.lost: list[NamespaceBundle] = []
        self.when_lost(self.lost.extend)


async def broker(world: MetadataWorld, name: str) -> Broker:
    return Broker(await world.session(name), address(name))


# Names and nodes


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
def test_bundle_is_the_quarter_of_the_ring_that_holds_the_names_crc32(
    topic: str, bundle: str
) -> None:
    assert str(bundle_of(topic)) == bundle
    assert bundle_of(topic).path == f"/namespace/{bundle}"


def test_node_of_a_bundle_is_pulsars_json() -> None:
    assert json.loads(encode_owner(A)) == {
        "nativeUrl": "pulsar://a:6650",
        "httpUrl": "http://a:8080",
        "disabled": False,
        "advertisedListeners": {},
    }
    assert decode_owner(encode_owner(A, disabled=True)) == (A, True)


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
    assert decode_broker(A.broker_id, encode_broker(A)) == A


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b'"x"', b"{"])
def test_damaged_node_is_reported_as_damaged(data: bytes) -> None:
    with pytest.raises(BKMetadataSerializationException):
        decode_owner(data)
    with pytest.raises(BKMetadataSerializationException):
        decode_broker("a:8080", data)


# Who owns


def test_first_broker_asked_owns_the_bundle_and_the_second_finds_the_owner() -> None:
    async def rule(world: MetadataWorld) -> None:
        a, b = await broker(world, "a"), await broker(world, "b")
        assert await a.owner_of(TOPIC) is None
        assert [*await asyncio.gather(a.acquire(TOPIC), b.acquire(TOPIC))] == [A, A]
        assert await b.owner_of(TOPIC) == A
        assert (a.owned, b.owned) == ([BUNDLE], [])
        assert a.owns(TOPIC)
        assert not b.owns(TOPIC)

    run_metadata_world(rule)


def test_bundle_of_a_broker_that_dies_can_be_owned_when_its_session_is_over() -> None:
    async def rule(world: MetadataWorld) -> None:
        a, b = await broker(world, "a"), await broker(world, "b")
        await a.acquire(TOPIC)
        world.crash("a")
        assert await b.acquire(TOPIC) == A
        await asyncio.sleep(world.session_timeout_s + 1)
        assert await b.acquire(TOPIC) == B

    run_metadata_world(rule)


def test_broker_that_comes_back_takes_what_its_last_process_owned() -> None:
    async def rule(world: MetadataWorld) -> None:
        await (await broker(world, "a")).acquire(TOPIC)
        world.crash("a")
        again, b = await broker(world, "a"), await broker(world, "b")
        assert await again.acquire(TOPIC) == A
        await asyncio.sleep(2 * world.session_timeout_s)
        assert await b.acquire(TOPIC) == A
        assert again.owns(TOPIC)

    run_metadata_world(rule)


def test_broker_that_comes_back_takes_what_others_take_for_its_own() -> None:
    async def rule(world: MetadataWorld) -> None:
        await (await broker(world, "a")).acquire(TOPIC)
        world.crash("a")
        again, b = await broker(world, "a"), await broker(world, "b")
        assert await b.acquire(TOPIC) == A
        assert not again.owns(TOPIC)
        assert await again.reacquire(TOPIC)
        await asyncio.sleep(2 * world.session_timeout_s)
        assert await b.acquire(TOPIC) == A

    run_metadata_world(rule)


def test_broker_takes_back_no_bundle_that_it_does_not_own_or_gives_up() -> None:
    async def rule(world: MetadataWorld) -> None:
        a, b = await broker(world, "a"), await broker(world, "b")
        assert not await a.reacquire(TOPIC)
        await b.acquire(TOPIC)
        assert not await a.reacquire(TOPIC)
        await b.disable(BUNDLE)
        assert not await b.reacquire(TOPIC)
        assert b.owned == [BUNDLE]

    run_metadata_world(rule)


def test_bundle_given_up_names_no_owner_until_it_is_released() -> None:
    async def rule(world: MetadataWorld) -> None:
        a, b = await broker(world, "a"), await broker(world, "b")
        await a.acquire(TOPIC)
        await a.disable(BUNDLE)
        assert not a.owns(TOPIC)
        for each in a, b:
            with pytest.raises(BundleUnloadingError):
                await each.owner_of(TOPIC)
            with pytest.raises(BundleUnloadingError):
                await each.acquire(TOPIC)
        await a.release(BUNDLE)
        assert a.owned == []
        assert await b.acquire(TOPIC) == B
        assert await a.owner_of(TOPIC) == B

    run_metadata_world(rule)


def test_bundle_is_released_when_the_store_is_there_again() -> None:
    async def rule(world: MetadataWorld) -> None:
        a, b = await broker(world, "a"), await broker(world, "b")
        await a.acquire(TOPIC)
        await a.disable(BUNDLE)
        world.network.reset("a", "zk")
        world.cut("a")
        releasing = asyncio.ensure_future(a.release(BUNDLE))
        await asyncio.sleep(1)
        world.heal()
        began = asyncio.get_running_loop().time()
        await releasing
        assert asyncio.get_running_loop().time() - began < 1
        assert a.owned == []
        assert await b.acquire(TOPIC) == B

    run_metadata_world(rule)


def test_broker_that_lost_the_bundle_meanwhile_releases_nothing_of_the_next_owner() -> None:
    async def rule(world: MetadataWorld) -> None:
        a, b = await broker(world, "a"), await broker(world, "b")
        await a.acquire(TOPIC)
        world.network.reset("a", "zk")
        world.cut("a")
        await a.disable(BUNDLE)
        releasing = asyncio.ensure_future(a.release(BUNDLE))
        await asyncio.sleep(world.session_timeout_s + 1)
        assert await b.acquire(TOPIC) == B
        world.heal()
        await releasing
        await asyncio.sleep(1)
        assert await a.owner_of(TOPIC) == B

    run_metadata_world(rule)


def test_lost_session_takes_all_bundles_and_says_so_at_once() -> None:
    async def rule(world: MetadataWorld) -> None:
        a, b = await broker(world, "a"), await broker(world, "b")
        await a.acquire(TOPIC)
        world.zookeeper.expire("a")
        assert await b.acquire(TOPIC) == B
        await asyncio.sleep(1)
        assert a.lost == [BUNDLE]
        assert not a.owns(TOPIC)
        assert await a.acquire(TOPIC) == B
        assert b.lost == []

    run_metadata_world(rule)


def test_broker_that_is_cut_off_believes_in_what_another_owns_by_now() -> None:
    """Why ownership is not a lock: only fencing stops that broker's adds."""

    async def rule(world: MetadataWorld) -> None:
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

    run_metadata_world(rule)


def test_broker_believes_in_no_bundle_that_it_took_in_a_lost_session() -> None:
    """The new session begins before the acquiring task learns that its node was created."""

    async def rule(world: MetadataWorld) -> None:
        store = await world.session("a")
        a = Broker(store, A)
        create, calls = store.create, []

        async def answered_late(path: str, data: bytes, *, ephemeral: bool = False) -> str:
            created = await create(path, data, ephemeral=ephemeral)
            calls.append(world.zookeeper.tree.exists(path, None))
            if len(calls) == 1:
                world.zookeeper.expire("a")
                await asyncio.sleep(1)
            return created

        store.create = answered_late  # type: ignore[method-assign,assignment]
        assert await a.acquire(TOPIC) == A
        # The node that it owns the bundle through is the second one: the first has gone.
        assert calls == [True, True]
        assert a.owns(TOPIC)
        assert world.zookeeper.tree.exists(BUNDLE.path, None)

    run_metadata_world(rule)


@pytest.mark.parametrize("after_us", range(0, 2000, 200))
def test_broker_owns_what_the_tree_says_whenever_its_session_ends(after_us: int) -> None:
    async def rule(world: MetadataWorld) -> None:
        a = await broker(world, "a")
        acquiring = asyncio.ensure_future(a.acquire(TOPIC))
        await asyncio.sleep(after_us / 1_000_000)
        world.zookeeper.expire("a")
        with suppress(MetadataUnavailableError):
            await acquiring
        await asyncio.sleep(1)
        assert a.owns(TOPIC) == world.zookeeper.tree.exists(BUNDLE.path, None)

    run_metadata_world(rule)


# Which brokers there are


def test_brokers_are_those_that_live() -> None:
    async def rule(world: MetadataWorld) -> None:
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

    run_metadata_world(rule)


def test_broker_is_registered_again_in_each_session() -> None:
    async def rule(world: MetadataWorld) -> None:
        a = await broker(world, "a")
        await a.register()
        world.crash("a")
        again = await broker(world, "a")
        await again.register()
        await asyncio.sleep(2 * world.session_timeout_s)
        assert await again.brokers() == [A]
        world.zookeeper.expire("a")
        assert not world.zookeeper.tree.exists(f"{BROKERS}/{A.broker_id}", None)
        await asyncio.sleep(1)
        assert await again.brokers() == [A]

    run_metadata_world(rule)
