"""How labkit's code comes to workers that lack it."""

from types import SimpleNamespace
from typing import cast

from pyspark.sql import SparkSession

from labkit.spark.shipping import ship_labkit


def test_labkit_is_sent_again_as_the_same_file() -> None:
    sent: list[str] = []
    session = SimpleNamespace(sparkContext=SimpleNamespace(addPyFile=sent.append))
    for _ in range(2):
        ship_labkit(cast(SparkSession, session))
    assert len(sent) == 2
    assert len(set(sent)) == 1
