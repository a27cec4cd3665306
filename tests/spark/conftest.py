from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from labkit.spark.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = spark_session("tests")
    yield session
    session.stop()
