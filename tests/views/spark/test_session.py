import gc
import os
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

import labkit
from labkit.system.model.missing_part import MissingPart
from labkit.views.spark import session
from labkit.worlds.live.host.java import JavaNotFound
from tests.programs import output_of

LABKIT_FOLDER = Path(labkit.__file__).parents[1]
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere workers are forks of Spark's own daemon"
)


def test_session_runs_in_this_process_unless_the_environment_names_a_master(
    spark: SparkSession,
) -> None:
    assert spark.conf.get("spark.master") == os.environ.get("SPARK_MASTER", session.LOCAL_MASTER)


def test_a_running_session_keeps_its_settings(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert before is not None
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    try:
        assert session.spark_session("another").conf.get("spark.sql.shuffle.partitions") == "7"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_without_pyspark_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingPart, match="run `pip install pyspark`"):
        session.spark_session("without PySpark")


def test_session_has_the_heap_that_fits_on_binder(spark: SparkSession) -> None:
    assert spark._jvm is not None
    heap_mb = spark._jvm.java.lang.Runtime.getRuntime().maxMemory() / 2**20
    assert 450 < heap_mb <= 512


def test_session_prints_times_in_utc(spark: SparkSession) -> None:
    [[time]] = spark.sql("select cast(timestamp_millis(0) as string)").collect()
    assert time == "1970-01-01 00:00:00"


def test_python_workers_run_this_python(spark: SparkSession) -> None:
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert spark.range(3).toPandas()["id"].tolist() == [0, 1, 2]


@linux
def test_python_workers_share_what_was_imported_before_they_began(spark: SparkSession) -> None:
    def imported(_: int) -> tuple[int, list[str]]:
        names = ("pandas", "pyarrow", "labkit.views.spark.bookkeeper.source")
        return gc.get_freeze_count(), [name for name in names if name not in sys.modules]

    shared, missing = spark.sparkContext.parallelize([0], 1).map(imported).first()
    assert (shared > 50_000, missing) == (True, [])


@linux
def test_python_workers_draw_different_random_numbers(spark: SparkSession) -> None:
    def draw(_: Iterable[int]) -> Iterator[float]:
        # Wait until both tasks are running, so that each has a worker process of its own.
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


FORKED = """\
import os, sys
from labkit.views.spark.session import spark_session

def start():
    context = spark_session("workers").sparkContext
    module = "labkit.views.spark.worker_daemon"
    forked = context.parallelize([0], 1).map(lambda _: module in sys.orig_argv).first()
    print(forked, context.getConf().get("spark.python.daemon.module"))
    return context
"""


def printed(program: str, **variables: str) -> list[str]:
    command = (sys.executable, "-P", "-c", program)
    return output_of(*command, folder=Path("/"), env={**os.environ, **variables}).splitlines()


@linux
@pytest.mark.java
def test_workers_can_be_a_python_that_lacks_labkit_after_one_that_has_it(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    other = f"start().stop()\nos.environ['PYSPARK_PYTHON'] = {str(python)!r}\nstart().stop()"
    assert printed(FORKED + other, PYTHONPATH=str(LABKIT_FOLDER)) == [
        "True labkit.views.spark.worker_daemon",
        "False pyspark.daemon",
    ]


@linux
@pytest.mark.java
def test_workers_find_the_labkit_and_the_jars_that_the_driver_finds(tmp_path: Path) -> None:
    jar = tmp_path / "connector.jar"
    with ZipFile(jar, "w") as archive:
        archive.writestr("connector.py", "ANSWER = 42")
    by_path = f"import sys\nsys.path.insert(0, {str(LABKIT_FOLDER)!r})\n"
    ask = """
def answer(_):
    import connector, labkit
    return connector.ANSWER, labkit.__file__
print(start().parallelize([0], 1).map(answer).first())"""
    forked, answer = printed(by_path + FORKED + ask, PYTHONPATH=str(jar))
    assert forked.startswith("True")
    assert answer == str((42, labkit.__file__))


def test_missing_java_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> None:
        raise JavaNotFound(["PATH: none there"])

    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(session, "find_java", find_none)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(JavaNotFound, match="set JAVA_HOME to a Java") as told:
        session.spark_session("without Java")
    assert "\n" not in str(told.value)
