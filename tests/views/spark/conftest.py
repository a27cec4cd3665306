"""Message streams to analyse, which are generated or recorded, with or without planted faults."""

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from labkit.views.spark import flights
from labkit.views.spark.faults import plant_faults
from tests.repeat import repeated
from tests.views.spark import streams_by_hand as by_hand

FAULTS = {"faulty": (9, 7, 5), "whole": (0, 0, 0)}
"""The numbers of swaps, redeliveries and lost entries."""
STREAMS = [
    ("made 1", "faulty"),
    ("recorded", "whole"),
    ("recorded", "faulty"),
    ("made 1", "whole"),
    ("made 2", "faulty"),
    ("made 2", "whole"),
]


@pytest.fixture(scope="module", params=repeated(STREAMS), ids=" ".join)
def kind(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


@pytest.fixture(scope="module")
def faults(kind: tuple[str, str]) -> tuple[int, int, int]:
    return FAULTS[kind[1]]


@pytest.fixture(scope="module")
def table(kind: tuple[str, str], faults: tuple[int, int, int]) -> pa.Table:
    if kind[0] == "recorded":
        stream, seed = pq.read_table(flights.SAMPLE), 3
    else:
        seed = int(kind[0][-1])
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
