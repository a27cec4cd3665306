import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

from labkit.live.java import JavaNotFound
from labkit.spark import session

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere workers are forks of Spark's own daemon"
)


def test_session_runs_in_this_process_unless_the_environment_names_a_master(
    spark: SparkSession,
) -> None:
    assert spark.conf.get("spark.master") == os.environ.get("SPARK_MASTER", session.LOCAL_MASTER)


def test_session_has_the_heap_that_fits_on_binder(spark: SparkSession) -> None:
    heap_mb = spark._jvm.java.lang.Runtime.getRuntime().maxMemory() / 2**20
    assert 450 < heap_mb <= 512


def test_session_prints_times_in_utc(spark: SparkSession) -> None:
    assert spark.sql("select cast(timestamp_millis(0) as string)").first()[0] == (
        "1970-01-01 00:00:00"
    )


def test_python_workers_run_this_python(spark: SparkSession) -> None:
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert spark.range(3).toPandas()["id"].tolist() == [0, 1, 2]


@linux
def test_python_workers_share_what_was_imported_before_they_began(spark: SparkSession) -> None:
    def imported(_: int) -> tuple[int, list[str]]:
        names = ("pandas", "pyarrow", "labkit.spark.bookkeeper.source")
        return gc.get_freeze_count(), [name for name in names if name not in sys.modules]

    shared, missing = spark.sparkContext.parallelize([0], 1).map(imported).first()
    assert (shared > 50_000, missing) == (True, [])


@linux
def test_python_workers_draw_different_random_numbers(spark: SparkSession) -> None:
    def draw(_: Iterator[int]) -> Iterator[float]:
        # Both tasks are there before one of them ends, so each has a worker to itself.
        BarrierTaskContext.get().barrier()
        yield np.random.rand()

    two = spark.sparkContext.parallelize([0, 1], 2)
    first, second = two.barrier().mapPartitions(draw).collect()
    assert first != second


@linux
def test_a_task_does_not_read_the_directory_of_sparks_core_jar(spark: SparkSession) -> None:
    def jars(_: int) -> list[str]:
        return [path for path in (*sys.path, *sys.path_importer_cache) if ".jar" in path]

    assert spark.sparkContext.parallelize([0], 1).map(jars).first() == []


@pytest.mark.parametrize("suffix", [".py", ".zip"])
def test_a_running_worker_finds_modules_that_are_added(
    spark: SparkSession, tmp_path: Path, suffix: str
) -> None:
    name = f"added_as_{suffix[1:]}"
    path = tmp_path / f"{name}{suffix}"
    if suffix == ".zip":
        with ZipFile(path, "w") as archive:
            archive.writestr(f"{name}.py", "ANSWER = 42")
    else:
        path.write_text("ANSWER = 42")
    one = spark.sparkContext.parallelize([0], 1)
    assert one.map(lambda _: name in sys.modules).first() is False
    spark.sparkContext.addPyFile(str(path))
    assert one.map(lambda _: import_module(name).ANSWER).first() == 42


PLUS_ONE = """\
from labkit.spark.session import spark_session
context = spark_session("another Python").sparkContext
print(context.parallelize([1], 1).map(lambda number: number + 1).collect())
context.stop()"""


@pytest.mark.java
def test_workers_can_be_a_python_that_lacks_labkit(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    env = {**os.environ, "PYSPARK_PYTHON": str(python)}
    command = [sys.executable, "-c", PLUS_ONE]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.stdout == "[2]\n", run.stderr


def test_missing_java_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> None:
        raise JavaNotFound(("PATH: none there",))

    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(session, "find_java", find_none)
    with pytest.raises(JavaNotFound, match="set JAVA_HOME to a Java") as told:
        session.spark_session("without Java")
    assert "\n" not in str(told.value)
