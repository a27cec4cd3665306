"""Real parts for the tests: a ZooKeeper server, a cluster of five bookie processes, and Spark.

They live as long as the run (with `-n`: as the worker), in one event loop with the tests that use
them, so such a module says `pytestmark = pytest.mark.asyncio(loop_scope="session")`.  Tests share
them and keep apart by ledger ids, separate paths and topic names.
"""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.placement.placement import in_name_order
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

FOLDERS = count()
NewStore = Callable[[], Awaitable[ZooKeeperStore]]


@pytest.fixture(scope="session", autouse=True)
def interrupts_reach_commands() -> Iterator[None]:
    """A command ignores interrupts if this process does, as a shell's job in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def zookeeper() -> AsyncIterator[EmbeddedZooKeeper]:
    async with EmbeddedZooKeeper() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def new_store(zookeeper: EmbeddedZooKeeper) -> AsyncIterator[NewStore]:
    """Begins sessions with the server, which end with the test."""
    stores: list[ZooKeeperStore] = []

    async def begin() -> ZooKeeperStore:
        store = ZooKeeperStore(zookeeper.place)
        await store.start()
        stores.append(store)
        return store

    yield begin
    for store in stores:
        await store.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def store(new_store: NewStore) -> ZooKeeperStore:
    return await new_store()


@pytest_asyncio.fixture(loop_scope="session")
async def empty_store(zookeeper: EmbeddedZooKeeper) -> AsyncIterator[ZooKeeperStore]:
    """A session in a folder of the server in which nothing has been stored."""
    store = ZooKeeperStore(replace(zookeeper.place, chroot=f"/empty-{next(FOLDERS)}"))
    await store.start()
    yield store
    await store.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def five_bookies() -> AsyncIterator[LocalCluster]:
    async with LocalCluster(5) as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="session")
async def cluster(five_bookies: LocalCluster) -> AsyncIterator[LocalCluster]:
    """Five bookies, all up; whatever a test does to them, the next finds them up.

    Clients end with the test.
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
    """A client that takes the first bookies by name: bookie-1, bookie-2, ..."""
    return await cluster.connect(placement=in_name_order)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    session = spark_session("tests")
    yield session
    session.stop()
