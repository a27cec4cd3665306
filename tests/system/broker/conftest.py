"""Brokers as processes over bookies of the same machine, and Pulsar's own client."""

from collections.abc import AsyncIterator, Iterator
from itertools import count

import pulsar
import pytest
import pytest_asyncio

from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.client import connect

_NAMES = (f"topic-{number}" for number in count())


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def brokers() -> AsyncIterator[LocalCluster]:
    """Three bookies and two brokers, as they come."""
    async with LocalCluster(3, brokers=2, traced=False) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def bookies() -> AsyncIterator[LocalCluster]:
    """Three bookies for a test's own broker, which then owns every topic."""
    async with LocalCluster(3, traced=False) as cluster:
        yield cluster


@pytest.fixture
def client(brokers: LocalCluster) -> Iterator[pulsar.Client]:
    """The official client; its calls block, so tests that need the event loop use threads."""
    client = connect(brokers.service_url)
    yield client
    client.close()


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return next(_NAMES)
