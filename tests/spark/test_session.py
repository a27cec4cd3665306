import os
import sys

import pytest
from pyspark.sql import SparkSession

from labkit.live.java import JavaNotFound
from labkit.spark import session


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


def test_missing_java_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> None:
        raise JavaNotFound(("PATH: none there",))

    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(session, "find_java", find_none)
    with pytest.raises(JavaNotFound, match="set JAVA_HOME to a Java") as told:
        session.spark_session("without Java")
    assert "\n" not in str(told.value)
