"""Two clusters in one ZooKeeper stay separate even if they use the same names."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing

import psutil
import pytest
import pytest_asyncio

from labkit.cli.main import main
from labkit.system.autorecovery.election import current_auditor
from labkit.system.autorecovery.paths import AutoRecoveryPaths
from labkit.system.metadata.cluster import read_instance_id
from labkit.system.metadata.cookie import read_cookie
from labkit.system.metadata.ledger_layout import FLAT, HIERARCHICAL
from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException
from labkit.views.spark.bookkeeper.cluster import connected
from labkit.views.spark.bookkeeper.directory import LedgerDirectory
from labkit.views.spark.bookkeeper.options import OptionError, read_options
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.zookeeper.secret import SECRET_VARIABLE
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.system.broker.client import connect, receive_all, send_all
from tests.until import until_true

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java, pytest.mark.slow]

PLACES = "zk+hierarchical://{}/first/ledgers", "zk+flat://{}/second/deep/l2"
Both = tuple[LocalCluster, LocalCluster]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def zookeeper(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[EmbeddedZooKeeper]:
    """Start a ZooKeeper server without any other data."""
    async with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def both(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Both]:
    """Start two clusters, each with a broker and two bookies with autorecovery."""
    async with AsyncExitStack() as stack:
        clusters = [
            await stack.enter_async_context(
                LocalCluster(
                    2,
                    zookeeper=place.format(zookeeper.address),
                    folder=tmp_path_factory.mktemp("cluster"),
                    autorecovery={"lostBookieRecoveryDelay": 0},
                    brokers=1,
                )
            )
            for place in PLACES
        ]
        yield clusters[0], clusters[1]


async def test_bookies_of_the_same_name_belong_each_to_its_own_cluster(both: Both) -> None:
    stores = [(await cluster.connect()).store for cluster in both]
    one, two = [await read_cookie(store, "b0") for store in stores]
    assert one is not None
    assert two is not None
    assert one.instance_id == await read_instance_id(stores[0])
    assert two.instance_id == await read_instance_id(stores[1]) != one.instance_id


async def test_ledgers_have_the_same_ids_and_are_others(both: Both) -> None:
    one, two = [await cluster.connect() for cluster in both]
    ledger_id = (await two.create_ledger(2, 2, 2)).ledger_id
    with pytest.raises(BKNoSuchLedgerExistsOnMetadataServerException):
        await one.ledger_metadata(ledger_id)
    before = await two.list_ledgers()
    while (await one.create_ledger(2, 2, 2)).ledger_id < ledger_id:
        pass
    assert await two.list_ledgers() == before
    assert await one.ledger_metadata(ledger_id) != await two.ledger_metadata(ledger_id)
    assert await one.store.exists(f"/ledgers/{HIERARCHICAL.path_of(ledger_id)}")
    assert await two.store.exists(f"/l2/{FLAT.path_of(ledger_id)}")


def publish(cluster: LocalCluster, topic: str, payload: bytes) -> None:
    with closing(connect(cluster.service_url)) as client:
        send_all(client.create_producer(topic), [payload])


def first_of(cluster: LocalCluster, topic: str) -> bytes:
    with closing(connect(cluster.service_url)) as client:
        ((_, payload),) = receive_all(client, topic, 1)
    return payload


async def test_a_topic_has_the_messages_of_its_cluster(both: Both) -> None:
    for cluster, payload in zip(both, (b"first", b"second"), strict=True):
        await asyncio.to_thread(publish, cluster, "same", payload)
    for cluster, payload in zip(both, (b"first", b"second"), strict=True):
        assert await asyncio.to_thread(first_of, cluster, "same") == payload


async def test_the_spark_source_finds_the_topics_of_the_cluster_that_is_named(both: Both) -> None:
    await asyncio.to_thread(publish, both[0], "in-the-first", b"x")
    options = [
        read_options({"zookeeper": cluster.zookeeper, "topic": "in-the-first"}) for cluster in both
    ]
    async with connected(options[0]) as client:
        assert await LedgerDirectory(client, options[0]).chains()
    async with connected(options[1]) as client:
        with pytest.raises(OptionError, match=r"in-the-first does not exist in the cluster at"):
            await LedgerDirectory(client, options[1]).chains()


async def test_the_shell_asks_the_cluster_that_is_named(
    both: Both, capsys: pytest.CaptureFixture[str]
) -> None:
    for cluster in both:
        verb = ["shell", "--zookeeper", cluster.zookeeper, "whatisinstanceid"]
        assert await asyncio.to_thread(main, verb) == 0
        store = (await cluster.connect()).store
        assert await read_instance_id(store) in capsys.readouterr().out


async def test_a_lost_bookie_has_its_ledgers_marked_in_its_cluster_alone(both: Both) -> None:
    one, two = [await cluster.connect() for cluster in both]
    ledger_id = (await two.create_ledger(2, 2, 2)).ledger_id
    while (await one.create_ledger(2, 2, 2)).ledger_id < ledger_id:
        pass
    await both[0].kill("b1")
    mark = AutoRecoveryPaths(both[0].metadata).mark(ledger_id)
    await until_true(lambda: one.store.exists(mark))
    mark = AutoRecoveryPaths(both[1].metadata).mark(ledger_id)
    assert not await two.store.exists(mark)
    assert await current_auditor(one.store) == "b0"
    assert await current_auditor(two.store) in both[1].bookie_names


async def test_every_node_of_a_cluster_lies_below_its_path(
    both: Both, store: ZooKeeperStore
) -> None:
    async def nodes_below(path: str) -> list[str]:
        below = [f"{path}/{name}" for name in await store.children(path or "/")]
        return below + [deeper for node in below for deeper in await nodes_below(node)]

    assert set(await store.children("/")) == {"zookeeper", "first", "second"}
    assert await store.children("/second") == ["deep"]
    first, second = await nodes_below("/first"), await nodes_below("/second/deep")
    assert {path.split("/")[2] for path in first} >= {"ledgers", "managed-ledgers", "loadbalance"}
    assert {path.split("/")[3] for path in second} >= {"l2", "managed-ledgers", "loadbalance"}


async def test_nodes_of_a_named_zookeeper_get_its_secret_whatever_address_they_use(
    both: Both, zookeeper: EmbeddedZooKeeper
) -> None:
    for cluster in both:
        for name in filter(cluster.is_up, (*cluster.bookie_names, *cluster.broker_names)):
            environment = psutil.Process(cluster.ports_of(name)["pid"]).environ()
            assert environment[SECRET_VARIABLE] == zookeeper.secret
