"""Tests reading, writing and searching on a cluster that gets labkit from the driver, and reading
behind Spark Connect.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

import labkit
from labkit.worlds.sim.explore.search import scenario_of_seed
from labkit.worlds.sim.run import run
from tests.programs import output_of
from tests.system.broker.client import received_payloads, rest
from tests.views.spark.bookkeeper.stage import Stage, numbered
from tests.views.spark.bookkeeper.standalone import (
    QUICK_JAVA,
    ConnectServer,
    Standalone,
    python_without_labkit,
)

PROGRAM = Path(__file__).with_name("on_cluster.py")
BY_CONNECT = Path(__file__).with_name("by_connect.py")
TOPIC = "on-a-cluster"
SENT = numbered(0, 300)
SEED_COUNT = 34
"""Enough for a task on each worker."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(bookies=3, brokers=1, broker_conf={"brokerDeduplicationEnabled": "true"}) as stage:
        yield stage


@pytest.fixture(scope="module")
def saw(
    standalone: Standalone, stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Publish messages, and run the program on the cluster; return what the program printed."""
    folder = tmp_path_factory.mktemp("program")
    stage.send(stage.topic(TOPIC, 3, entries_per_ledger=10), SENT, batch=5)
    environment = os.environ | {
        "SPARK_MASTER": standalone.url,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": f"{QUICK_JAVA} -Dspark.executor.extraJavaOptions={QUICK_JAVA}",
        "PYSPARK_PYTHON": str(python_without_labkit(folder)),
        # The driver can import labkit, which also plans the queries there; the workers cannot.
        "PYTHONPATH": str(Path(labkit.__file__).parents[1]),
    }
    urls = stage.cluster.zookeeper, stage.cluster.service_url
    command = (sys.executable, PROGRAM, *urls, TOPIC, SEED_COUNT, folder)
    output = output_of(*command, folder=folder, env=environment)
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    assert found["master"] == standalone.url
    return found


@pytest.mark.long  # In `make test`, `test_any_session` and the Connect test check this promise.
def test_a_cluster_reads_and_follows_with_the_labkit_that_the_driver_ships(
    saw: dict[str, Any],
) -> None:
    assert saw["payloads"] == sorted(payload.decode() for payload in SENT)
    assert saw["followed"] == len(SENT)
    assert saw["tasks"] > 2
    assert len(saw["folders"]) == 2, "one worker ran no task"
    assert all("labkit.zip" in path for path in saw["labkit"])


@pytest.mark.long  # `test_writers` checks this promise on one machine.
@pytest.mark.parametrize("query", ["batch", "stream"])
def test_the_official_client_receives_what_a_cluster_has_written(
    saw: dict[str, Any], client: pulsar.Client, query: str
) -> None:
    assert saw["copied"]
    consumer = client.subscribe(
        f"{TOPIC}-{query}", "all", initial_position=pulsar.InitialPosition.Earliest
    )
    assert sorted(received_payloads(consumer, len(SENT))) == sorted(SENT)
    assert rest(consumer) == []


@pytest.mark.long  # `test_search` checks this promise on one machine.
def test_a_search_on_a_cluster_has_the_same_digests_as_local_runs(saw: dict[str, Any]) -> None:
    assert saw["digests"] == [run(scenario_of_seed(seed)).digest for seed in range(SEED_COUNT)]


def test_a_session_behind_connect_reads_and_follows(
    stage: Stage, name: str, connect_server: ConnectServer, tmp_path: Path
) -> None:
    sent = numbered(0, 100)
    stage.send(stage.topic(name, 2, entries_per_ledger=10), sent, batch=5)
    environment = os.environ | {"SPARK_REMOTE": connect_server.url}
    checkpoint = tmp_path / "checkpoint"
    command = (sys.executable, BY_CONNECT, stage.cluster.zookeeper, name, checkpoint)
    output = output_of(*command, folder=tmp_path, env=environment)
    saw = json.loads(output.splitlines()[-1])
    assert saw["session"].startswith("pyspark.sql.connect")
    assert "unknown option 'speed'" in saw["refusal"]
    assert saw["refusal"].count("\n") < 6
    assert saw["payloads"] == sorted(payload.decode() for payload in sent)
    assert saw["followed"] == len(sent)
