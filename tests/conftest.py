"""Real components for the tests, namely a ZooKeeper server, a cluster of five bookie processes, and
Spark.

The components run for the whole session (with `-n`, once per worker) in the same event loop as the
tests that use them. A test module that uses them sets `pytestmark =
pytest.mark.asyncio(loop_scope="session")`. Tests share the components but use different ledger ids,
paths and topic names.
"""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.placement.placement import in_name_order
from labkit.system.trace.recorder import Recorder
from labkit.views.spark.session import spark_session
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.processes.node_process import NodeStateError
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.plan import (  # noqa: F401 - pytest finds its hooks here
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_runtest_protocol,
    pytest_runtest_setup,
    pytest_xdist_make_scheduler,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Recorder.is_strict = True

NewStore = Callable[[], Awaitable[ZooKeeperStore]]


@pytest.fixture(scope="session", autouse=True)
def interrupts_reach_commands() -> Iterator[None]:
    """Enable SIGINT, because child processes would otherwise ignore it if this process runs in the
    background.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def zookeeper(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[EmbeddedZooKeeper]:
    async with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def new_store(zookeeper: EmbeddedZooKeeper) -> AsyncIterator[NewStore]:
    """Return a function that starts sessions, which are closed at the end of the test."""
    stores: list[ZooKeeperStore] = []

    async def begin() -> ZooKeeperStore:
        store = ZooKeeperStore(zookeeper.location)
        await store.start()
        stores.append(store)
        return store

    yield begin
    for store in stores:
        await store.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def store(new_store: NewStore) -> ZooKeeperStore:
    return await new_store()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def five_bookies() -> AsyncIterator[LocalCluster]:
    async with LocalCluster(5) as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="session")
async def cluster(five_bookies: LocalCluster) -> AsyncIterator[LocalCluster]:
    """Return a cluster of five bookies. After the test, restart or resume its bookies if necessary.

    All clients are disconnected at the end of the test.
    """
    yield five_bookies
    await five_bookies.disconnect()
    for name in five_bookies.bookie_names:
        with suppress(NodeStateError):
            await five_bookies.resume(name)
        if not five_bookies.is_up(name):
            await five_bookies.restart(name)


@pytest_asyncio.fixture(loop_scope="session")
async def client(cluster: LocalCluster) -> BookKeeper:
    """Connect a client that prefers bookies in the order of their names (b0, b1, ...)."""
    return await cluster.connect(placement=in_name_order)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    session = spark_session("tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kept(pytestconfig: pytest.Config) -> pytest.Cache:
    """Return pytest's cache, which keeps slow installations across runs."""
    cache: pytest.Cache | None = getattr(pytestconfig, "cache", None)
    if cache is None:
        pytest.skip("this needs pytest's cache: run without `-p no:cacheprovider`")
    return cache
