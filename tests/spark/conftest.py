"""A Spark session, and streams to ask: made ones and the recorded one, whole and with faults."""

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from labkit.spark import flights
from labkit.spark.faults import plant_faults
from labkit.spark.session import spark_session
from tests.spark import streams_by_hand as by_hand


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = spark_session("tests")
    yield session
    session.stop()


@pytest.fixture(scope="module", params=[(0, 0, 0), (9, 7, 5)], ids=["whole", "faulty"])
def faults(request: pytest.FixtureRequest) -> tuple[int, int, int]:
    return request.param


@pytest.fixture(scope="module", params=["made 1", "made 2", "recorded"])
def table(request: pytest.FixtureRequest, faults: tuple[int, int, int]) -> pa.Table:
    if request.param == "recorded":
        stream, seed = pq.read_table(flights.SAMPLE), 3
    else:
        seed = int(request.param[-1])
        stream = by_hand.make_stream(seed)
    swaps, redeliveries, lost_entries = faults
    return plant_faults(
        stream, swaps=swaps, redeliveries=redeliveries, lost_entries=lost_entries, seed=seed
    )


@pytest.fixture(scope="module")
def pandas_messages(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas()


@pytest.fixture(scope="module")
def messages(spark: SparkSession, table: pa.Table) -> Iterator[DataFrame]:
    cached = spark.createDataFrame(table).cache()
    yield cached
    cached.unpersist()
