"""Fixtures that give each test its own topic on the shared cluster."""

from collections.abc import AsyncIterator
from itertools import count

import pytest
import pytest_asyncio

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.topic import Topic
from tests.system.topic.support import Clock

NAMES = (f"topic-{number}" for number in count())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture(loop_scope="session")
async def owner(client: BookKeeper, clock: Clock) -> BookKeeper:
    """Return the client, which uses a wall clock that the test controls."""
    client.wall_clock_ms = clock
    return client


@pytest.fixture
def name() -> str:
    """Return the name of a topic that no other test uses."""
    return next(NAMES)


@pytest_asyncio.fixture(loop_scope="session")
async def topic(owner: BookKeeper, name: str) -> AsyncIterator[Topic]:
    """Yield a non-partitioned topic whose ledgers hold five entries each."""
    topic = await Topic.create(
        owner, name, partitions=0, config=ManagedLedgerConfig(max_entries_per_ledger=5)
    )
    yield topic
    await topic.close()
