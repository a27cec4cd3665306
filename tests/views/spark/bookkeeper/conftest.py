from collections.abc import Iterator
from itertools import count

import pulsar
import pytest

from labkit.system.model.missing_part import MissingPart
from labkit.worlds.live.host.java import find_java
from tests.system.broker.client import connect
from tests.views.spark.bookkeeper.stage import Stage
from tests.views.spark.bookkeeper.standalone import ConnectServer, Standalone

NAMES = (f"spark-{number}" for number in count())


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """Start four bookies, which the tests share; each test uses its own topic name."""
    with Stage(bookies=4) as stage:
        yield stage


@pytest.fixture(scope="module")
def client(stage: Stage) -> Iterator[pulsar.Client]:
    """Connect to the broker of the module's own `stage`; the shared stage has no broker."""
    client = connect(stage.cluster.service_url)
    yield client
    client.close()


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Start a Spark cluster with two workers on the loopback interface. All tests share it."""
    try:
        find_java()
    except MissingPart as problem:
        pytest.skip(f"Spark's master and workers cannot be started: {problem}")
    with Standalone(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("connect")) as server:
        yield server


@pytest.fixture
def name() -> str:
    """Return a topic name that no other test uses."""
    return next(NAMES)
