"""Tests the source in sessions that labkit did not create, and several queries on one DataFrame."""

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from labkit.views.spark.bookkeeper.source import BookKeeperSource
from labkit.views.spark.session import SETTINGS
from tests.repeat import repeated
from tests.views.spark.bookkeeper.stage import Stage, numbered

OTHER_SETTINGS = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.execution.pyspark.binaryAsBytes": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}


OFFERED = "conditions are offered to sources"


@pytest.fixture(params=repeated([OFFERED, "usual", "other settings"]))
def foreign(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """Yield a session without labkit's settings."""
    session = spark.newSession()
    for name in SETTINGS:
        session.conf.unset(name)
    if request.param == "other settings":
        for name, value in OTHER_SETTINGS.items():
            session.conf.set(name, value)
    if request.param == OFFERED:
        session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    _make_active(session)
    session.dataSource.register(BookKeeperSource)
    yield session
    _make_active(spark)


def _make_active(session: SparkSession) -> None:
    """Make this the active Spark session, in which Spark looks up sources."""
    session.createDataFrame([], "nothing int")


@pytest.fixture(scope="module")
def orders(stage: Stage) -> list[str]:
    """Publish to a topic of three partitions with several ledgers each; return the MessageIDs."""
    return stage.send(
        stage.topic("asked-again", 3, entries_per_ledger=5), numbered(0, 120), batch=4
    )


def load(session: SparkSession, stage: Stage) -> DataFrame:
    reader = session.read.format("bookkeeper")
    return reader.options(zookeeper=stage.cluster.zookeeper, topic="asked-again").load()


def test_a_registered_source_reads_in_any_session(
    foreign: SparkSession, stage: Stage, orders: list[str]
) -> None:
    messages = load(foreign, stage)
    assert messages.count() == len(orders)
    rows = messages.where("payload is not null and publish_time > timestamp'2020-01-01'").collect()
    found = [f"{r['ledger']}:{r['entry']}:{r['partition']}:{r['batch_index']}" for r in rows]
    assert sorted(found) == sorted(orders)
    assert sorted(bytes(row["payload"]) for row in rows) == sorted(numbered(0, 120))


def test_a_registered_source_is_followed_in_any_session(
    foreign: SparkSession, stage: Stage, orders: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("followed")
    reader = foreign.readStream.format("bookkeeper")
    stream = reader.options(zookeeper=stage.cluster.zookeeper, topic="asked-again").load()
    writer = stream.writeStream.format("parquet").option("path", str(folder / "rows"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert foreign.read.parquet(str(folder / "rows")).count() == len(orders)


@pytest.mark.long
def test_queries_over_one_dataframe_do_not_disturb_each_other(
    foreign: SparkSession, stage: Stage, orders: list[str]
) -> None:
    messages = load(foreign, stage)
    middle = sorted({int(each.split(":")[0]) for each in orders})[4]
    conditions = {
        "partition = 1": 40,
        "partition in (0, 2) and entry < 2": 32,
        f"ledger = {middle}": 20,
        f"ledger <> {middle}": 100,
        "publish_time < timestamp'2020-01-01'": 0,
        "batch_index = 3 and key is null": 30,
    }
    for text, count in conditions.items():
        assert (messages.where(text).count(), messages.count()) == (count, 120), text
    parts = [messages.where(text) for text in conditions]
    united = parts[0]
    for part in parts[1:]:
        united = united.union(part)
    assert united.count() == sum(conditions.values())
    assert messages.union(parts[0]).count() == 160
    joined = parts[0].alias("a").join(messages.alias("b"), ["partition", "ledger", "entry"])
    assert joined.count() == 40 * 4
    parts[2].cache()
    assert (parts[2].count(), messages.count(), parts[0].count()) == (20, 120, 40)
    parts[2].unpersist()
    assert messages.count() == 120
