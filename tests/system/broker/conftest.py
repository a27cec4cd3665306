"""Fixtures for brokers and bookies that run as processes on this machine, and for
Pulsar's client.
"""

from collections.abc import AsyncIterator, Iterator
from itertools import count

import pulsar
import pytest
import pytest_asyncio

from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.client import connect
from tests.system.broker.in_memory import Dispatchers

_NAMES = (f"topic-{number}" for number in count())


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def brokers() -> AsyncIterator[LocalCluster]:
    """Yield three bookies and two brokers with default settings."""
    async with LocalCluster(3, brokers=2, traced=False) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def bookies() -> AsyncIterator[LocalCluster]:
    """Yield three bookies for a test that runs its own broker, which then owns every topic."""
    async with LocalCluster(3, traced=False) as cluster:
        yield cluster


@pytest.fixture
def client(brokers: LocalCluster) -> Iterator[pulsar.Client]:
    """The official client. Its calls block, so tests that need the event loop call it in
    threads.
    """
    client = connect(brokers.service_url)
    yield client
    client.close()


@pytest.fixture
async def dispatchers() -> AsyncIterator[Dispatchers]:
    made = Dispatchers()
    yield made
    made.stop()


@pytest.fixture
def topic() -> str:
    """Return the name of a topic that no other test uses."""
    return next(_NAMES)
