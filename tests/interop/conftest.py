"""Apache BookKeeper for the whole session, and an empty cluster for each module."""

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.metadata.cluster import init_cluster
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.new_client import new_client
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.interop.apache import Apache, JavaClient, NotToBeHad, get_apache
from tests.interop.bookies import BookieFolder, RunningBookie
from tests.interop.java_broker import broker_jars

BOOKIES = ("b0", "b1", "b2")
PATIENT = ClientConfig(request_timeout_s=60.0)
"""With a short timeout, a bookie that is slow on a busy machine would be replaced, and most of
these clusters have no spare bookie.
"""


@dataclass(slots=True)
class Cluster:
    """ZooKeeper, with the bookies and clients of either kind that a test starts."""

    apache: Apache
    zookeeper: str
    metadata: ZooKeeperStore
    folder: Path
    _cleanup: AsyncExitStack = field(default_factory=AsyncExitStack)

    def bookie(self, bookie_id: str) -> BookieFolder:
        """Return a bookie that has not been started yet."""
        return BookieFolder(bookie_id, self.folder / bookie_id, self.zookeeper)

    async def labkit_bookie(self, bookie: BookieFolder) -> RunningBookie:
        return self._keep(await bookie.start_labkit())

    async def java_bookie(self, bookie: BookieFolder) -> RunningBookie:
        return self._keep(await bookie.start_java(self.apache, self.metadata))

    async def start(self, kind: str, bookie: BookieFolder) -> RunningBookie:
        """Start labkit's bookie or, if `kind` is "apache", Apache's."""
        return await (self.java_bookie if kind == "apache" else self.labkit_bookie)(bookie)

    def labkit_client(self, *ensemble: str, config: ClientConfig = PATIENT) -> BookKeeper:
        """Return a client that stores its ledgers on these bookies as long as they work."""

        def placement(bookies: Sequence[str], count: int) -> Sequence[str]:
            wanted = [name for name in ensemble if name in bookies]
            return [*wanted, *(name for name in bookies if name not in wanted)][:count]

        recorder = Recorder("client", trace_clock_us)
        client = new_client(self.metadata, recorder, placement=placement, config=config)
        self._cleanup.callback(client.close)
        return client

    async def java_client(
        self, protocol: str = "v2", explicit_lac_interval_ms: int = 0
    ) -> JavaClient:
        """Start a client, which notices bookies that are started later only after a delay."""
        log = self.folder / "java-client.log"
        client = await JavaClient.start(
            self.apache, self.zookeeper, protocol, log, explicit_lac_interval_ms
        )
        self._cleanup.push_async_callback(client.kill)
        return client

    async def stop(self) -> None:
        await self._cleanup.aclose()

    def _keep(self, bookie: RunningBookie) -> RunningBookie:
        self._cleanup.push_async_callback(bookie.kill)
        return bookie


@pytest.fixture(scope="session")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Apache:
    try:
        return get_apache(tmp_path_factory.mktemp("classes"))
    except NotToBeHad as reason:
        pytest.skip(f"Apache BookKeeper is not available: {reason}")


@pytest.fixture(scope="session")
def pulsar_jars() -> Path:
    """Return the directory with the jars of Pulsar's broker."""
    try:
        return broker_jars()
    except NotToBeHad as reason:
        pytest.skip(f"Pulsar's broker is not available: {reason}")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(
    apache: Apache, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    async with EmbeddedZooKeeper(folder / "zookeeper") as zookeeper:
        metadata = ZooKeeperStore(zookeeper.location)
        await metadata.start()
        await init_cluster(metadata, str(uuid.uuid4()))
        cluster = Cluster(apache.known_to(zookeeper), zookeeper.address, metadata, folder)
        try:
            yield cluster
        finally:
            await cluster.stop()
            await metadata.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def labkit(cluster: Cluster) -> BookKeeper:
    """Start three bookies of labkit, and return a client that stores its ledgers on them."""
    for name in BOOKIES:
        await cluster.labkit_bookie(cluster.bookie(name))
    return cluster.labkit_client(*BOOKIES)
