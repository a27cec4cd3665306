"""Tests the source on a cluster, which gets labkit from the driver, and behind Spark Connect."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import labkit
from tests.views.spark.bookkeeper.stage import Stage, numbered
from tests.views.spark.bookkeeper.standalone import (
    QUICK_JAVA,
    ConnectServer,
    Standalone,
    python_without_labkit,
)

PROGRAM = Path(__file__).with_name("on_cluster.py")
BY_CONNECT = Path(__file__).with_name("by_connect.py")

pytestmark = pytest.mark.slow


@pytest.mark.long  # In `make test`, `test_any_session` and the Connect test check this promise.
def test_a_cluster_reads_and_follows_with_the_labkit_that_the_driver_ships(
    stage: Stage, name: str, tmp_path: Path
) -> None:
    sent = numbered(0, 300)
    stage.send(stage.topic(name, 3, entries_per_ledger=10), sent, batch=5)
    with Standalone(tmp_path) as cluster:
        environment = os.environ | {
            "SPARK_MASTER": cluster.url,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": f"{QUICK_JAVA} -Dspark.executor.extraJavaOptions={QUICK_JAVA}",
            "PYSPARK_PYTHON": str(python_without_labkit(tmp_path)),
            # The driver can import labkit, which also plans the queries there; the workers cannot.
            "PYTHONPATH": str(Path(labkit.__file__).parents[1]),
        }
        checkpoint = str(tmp_path / "checkpoint")
        command = [sys.executable, str(PROGRAM), stage.cluster.zookeeper, name, checkpoint]
        ended = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, timeout=300, check=False
        )
    assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    saw = json.loads(ended.stdout.splitlines()[-1])
    assert saw["master"] == cluster.url
    assert saw["payloads"] == sorted(payload.decode() for payload in sent)
    assert saw["followed"] == len(sent)
    assert saw["tasks"] > 2
    assert len(saw["folders"]) == 2, "one worker ran no task"
    assert all("labkit.zip" in path for path in saw["labkit"])


def test_a_session_behind_connect_reads_and_follows(
    stage: Stage, name: str, connect_server: ConnectServer, tmp_path: Path
) -> None:
    sent = numbered(0, 100)
    stage.send(stage.topic(name, 2, entries_per_ledger=10), sent, batch=5)
    environment = os.environ | {"SPARK_REMOTE": connect_server.url}
    checkpoint = tmp_path / "checkpoint"
    ended = subprocess.run(
        [sys.executable, BY_CONNECT, stage.cluster.zookeeper, name, checkpoint],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    saw = json.loads(ended.stdout.splitlines()[-1])
    assert saw["session"].startswith("pyspark.sql.connect")
    assert "unknown option 'speed'" in saw["refusal"]
    assert saw["refusal"].count("\n") < 6
    assert saw["payloads"] == sorted(payload.decode() for payload in sent)
    assert saw["followed"] == len(sent)
