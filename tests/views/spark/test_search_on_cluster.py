"""Tests that `labkit search --spark` runs on a cluster, which gets labkit from the driver."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import labkit
from labkit.worlds.sim.explore.search import scenario_of_seed
from labkit.worlds.sim.run import run
from tests.views.spark.bookkeeper.standalone import (
    QUICK_JAVA,
    Standalone,
    python_without_labkit,
)

SEEDS = 40  # These are two tasks, one for each worker.


@pytest.mark.java
@pytest.mark.slow
def test_two_workers_run_the_scenarios_of_a_local_search(tmp_path: Path) -> None:
    with Standalone(tmp_path) as cluster:
        environment = os.environ | {
            "SPARK_MASTER": cluster.url,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": f"{QUICK_JAVA} -Dspark.executor.extraJavaOptions={QUICK_JAVA}",
            # The driver can import labkit, but the workers cannot.
            "PYSPARK_PYTHON": str(python_without_labkit(tmp_path)),
            "PYTHONPATH": str(Path(labkit.__file__).parents[1]),
        }
        command = [sys.executable, "-m", "labkit", "search", "--seeds", str(SEEDS)]
        ended = subprocess.run(
            [*command, "--spark", str(tmp_path / "runs")],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert f"{SEEDS} scenarios" in ended.stdout
    rows = pq.read_table(tmp_path / "runs").to_pylist()
    digests = {row["seed"]: row["digest"] for row in rows if row["seed"] is not None}
    assert sorted(digests) == list(range(SEEDS))
    for seed in (0, SEEDS - 1):
        assert digests[seed] == run(scenario_of_seed(seed)).digest
    for worker in ("work-1", "work-2"):
        assert list((tmp_path / worker).glob("app-*/*/labkit.zip")), f"{worker} ran no task"
