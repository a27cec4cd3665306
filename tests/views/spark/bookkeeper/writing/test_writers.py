"""Tests queries that write, comparing the stored messages with the rows one by one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import psutil
import pulsar
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from labkit.system.broker.policies import policies_path
from labkit.views.spark.bookkeeper.source import BookKeeperSource
from tests.programs import output_of
from tests.system.broker.client import make_partitions, rest
from tests.views.spark.bookkeeper.stage import Stage
from tests.views.spark.bookkeeper.standalone import spark_environment

pytestmark = pytest.mark.slow

WAIT_S = 120
DRIVER = Path(__file__).with_name("copying_driver.py")


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    conf = {"brokerDeduplicationEnabled": "true"}
    with Stage(bookies=3, brokers=1, broker_conf=conf) as stage:
        yield stage


def append(rows: DataFrame, stage: Stage, **options: str) -> None:
    writer = rows.write.format("bookkeeper").options(**options)
    writer.option("service.url", stage.cluster.service_url).mode("append").save()


def consumer_of(client: pulsar.Client, topic: str) -> pulsar.Consumer:
    return client.subscribe(topic, "all", initial_position=pulsar.InitialPosition.Earliest)


def numbers(client: pulsar.Client, topic: str) -> list[int]:
    """Return the contents of the topic, sorted."""
    consumer = consumer_of(client, topic)
    found = sorted(int(payload) for payload in rest(consumer, 1000))
    consumer.close()
    return found


@pytest.mark.core
def test_the_official_client_and_the_source_read_what_a_query_has_written(
    spark: SparkSession, stage: Stage, client: pulsar.Client, name: str
) -> None:
    make_partitions(stage.cluster, name, 3)
    rows = spark.range(0, 200, numPartitions=2).selectExpr(
        "cast(id as string) as value",
        "if(id % 11 = 0, null, concat('k', id % 5)) as key",
        "if(id % 7 = 0, null, timestamp_millis(1777636800000 + id)) as event_time",
        "map('a', cast(id as string), 'b', 'c') as properties",
    )
    append(rows, stage, topic=name)
    expected = {
        str(n): (
            "" if n % 11 == 0 else f"k{n % 5}",
            0 if n % 7 == 0 else 1_777_636_800_000 + n,
            {"a": str(n), "b": "c"},
        )
        for n in range(200)
    }
    consumer = consumer_of(client, name)
    received = [consumer.receive(20_000) for _ in expected]
    assert rest(consumer) == []
    consumer.close()
    assert expected == {
        each.data().decode(): (each.partition_key(), each.event_timestamp(), each.properties())
        for each in received
    }
    for key in range(5):
        # Each task keeps the order of its rows.
        of_key = [int(each.data()) for each in received if each.partition_key() == f"k{key}"]
        for task in (range(100), range(100, 200)):
            of_task = [number for number in of_key if number in task]
            assert of_task == sorted(of_task)
    reader = spark.read.format("bookkeeper").options(zookeeper=stage.cluster.zookeeper, topic=name)
    stage.wait(lambda: reader.load().count() >= 200, lambda: None)
    read = reader.load().select("payload", "key", "event_time", "properties").collect()
    assert expected == {
        bytes(row[0]).decode(): (
            row[1] or "",
            round(row[2].replace(tzinfo=UTC).timestamp() * 1000) if row[2] else 0,
            row[3],
        )
        for row in read
    }


def test_a_column_names_the_topic_of_each_row_unless_the_option_does(
    spark: SparkSession, stage: Stage, client: pulsar.Client, name: str
) -> None:
    topic = f"concat('{name}-', id % 2) as topic"
    rows = spark.range(6).selectExpr("cast(id as string) as value", topic)
    append(rows, stage)
    append(rows, stage, topic=name)
    assert numbers(client, f"{name}-0") == [0, 2, 4]
    assert numbers(client, f"{name}-1") == [1, 3, 5]
    assert numbers(client, name) == list(range(6))


@pytest.mark.parametrize(
    ("options", "columns", "mode", "message"),
    [
        ({"service.url": ""}, "'v' as value", "append", "option 'service.url' is ''; expected"),
        ({}, "'v' as value", "append", "no topic: expected option 'topic', or a column 'topic'"),
        ({"topic": "t"}, "1 as value", "append", "'value' must have type binary or string"),
        ({"topic": "t"}, "'v' as value", "overwrite", "use mode('append')"),
    ],
)
def test_a_query_that_cannot_be_written_fails_before_it_starts(
    spark: SparkSession, options: dict[str, str], columns: str, mode: str, message: str
) -> None:
    writer = spark.range(1).selectExpr(columns).write.format("bookkeeper")
    with pytest.raises(AnalysisException) as told:
        writer.options(**{"service.url": "pulsar://h:1", **options}).mode(mode).save()
    assert message in str(told.value)


class Copying:
    """A stream that writes files of numbers to a topic; `before` can change its rows."""

    def __init__(self, spark: SparkSession, stage: Stage, folder: Path, topic: str) -> None:
        self._spark, self._folder = spark, folder
        self.options = {"service.url": stage.cluster.service_url, "topic": topic}
        (folder / "in").mkdir()

    def add(self, first: int, last: int) -> None:
        lines = "".join(f"{number:0300}\n" for number in range(first, last))
        (self._folder / f"in/{first:09}.txt").write_text(lines)

    def run(self, after: int = 0) -> StreamingQuery:
        """Write the new rows. If `after` is not 0, each task fails after this number of rows."""
        rows = self._spark.readStream.text(str(self._folder / "in")).select("value")
        if after:
            rows = rows.mapInArrow(_failing(after), "value string")
        writer = rows.writeStream.format("bookkeeper").options(**self.options)
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_S)
        return query

    def forget_last_commit(self) -> None:
        """Leave the checkpoint as if the query had ended just before its last commit."""
        folder = self._folder / "checkpoint/commits"
        last = max((path for path in folder.iterdir() if path.name.isdigit()), key=_number)
        last.unlink()
        (folder / f".{last.name}.crc").unlink()


def _number(path: Path) -> int:
    return int(path.name)


def _failing(after: int) -> Any:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = 0
        for batch in batches:
            for start in range(0, batch.num_rows, 500):
                if count >= after:
                    raise RuntimeError("as planned")
                part = batch.slice(start, 500)
                count += part.num_rows
                yield part

    return fail


@pytest.fixture
def copying(spark: SparkSession, stage: Stage, tmp_path: Path, name: str) -> Copying:
    return Copying(spark, stage, tmp_path, name)


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Let a writer get its first rows before the last ones have been computed.

    The rows must also be long, because Spark sends no rows until they fill a buffer.
    """
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(setting, "500")
    yield
    spark.conf.unset(setting)


@pytest.mark.core
@pytest.mark.usefixtures("small_batches")
def test_a_stream_stores_each_row_once_if_it_is_interrupted_before_and_after_its_rows_are_stored(
    stage: Stage, client: pulsar.Client, name: str, copying: Copying
) -> None:
    make_partitions(stage.cluster, name, 2)
    copying.add(0, 100)
    copying.run()
    copying.add(100, 9000)
    for after in (500, 4500):
        with pytest.raises(StreamingQueryException, match="as planned"):
            copying.run(after)
    assert 100 < len(numbers(client, name)) < 9000
    copying.run()
    assert numbers(client, name) == list(range(9000))
    copying.forget_last_commit()
    copying.add(9000, 9100)
    copying.run()
    assert numbers(client, name) == list(range(9100))


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize(
    ("before", "after", "repeats_rows"),
    [
        ({}, {"service.url": "pulsar://127.0.0.1:1,{address}"}, False),
        ({}, {"retrySeconds": "60"}, False),
        ({}, {"topic": "{topic}-2"}, False),
        ({}, {"exactlyOnce": "false"}, True),
        ({"exactlyOnce": "false"}, {"exactlyOnce": "true"}, True),
    ],
)
def test_a_stream_restarted_with_another_option_loses_no_row(
    stage: Stage,
    client: pulsar.Client,
    name: str,
    copying: Copying,
    before: dict[str, str],
    after: dict[str, str],
    repeats_rows: bool,
) -> None:
    address = stage.cluster.service_url.removeprefix("pulsar://")
    copying.add(0, 3000)
    copying.options |= before
    with pytest.raises(StreamingQueryException, match="as planned"):
        copying.run(after=1500)
    assert 0 < len(numbers(client, name)) < 3000
    copying.options |= {
        key: text.format(address=address, topic=name) for key, text in after.items()
    }
    copying.run()
    found = numbers(client, copying.options["topic"])
    assert sorted(set(found)) == list(range(3000))
    assert (len(found) > 3000) == repeats_rows


def test_a_stream_fails_without_deduplication_and_can_write_at_least_once(
    stage: Stage, client: pulsar.Client, name: str, tmp_path: Path, spark: SparkSession
) -> None:
    policies = json.dumps({"deduplicationEnabled": False}).encode()
    stage.run(stage.client.store.create(policies_path(f"public/{name}"), policies))
    topic = f"persistent://public/{name}/topic"
    copying = Copying(spark, stage, tmp_path, topic)
    copying.add(0, 10)
    with pytest.raises(StreamingQueryException, match="deduplication is disabled for persistent:"):
        copying.run()
    copying.options["exactlyOnce"] = "false"
    copying.run()
    assert set(numbers(client, topic)) == set(range(10))


def test_a_stream_with_a_wrong_option_or_output_mode_fails_and_says_why(
    spark: SparkSession, copying: Copying, tmp_path: Path
) -> None:
    copying.add(0, 1)
    copying.options["zookeeper"] = "h:2181"
    with pytest.raises(StreamingQueryException, match="'zookeeper' is not an option for writing"):
        copying.run()
    counts = spark.readStream.text(str(tmp_path / "in")).groupBy("value").count().select("value")
    writer = counts.writeStream.format("bookkeeper").outputMode("complete").option("topic", "t")
    writer = writer.option("service.url", "pulsar://h:1").trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="messages can only be appended to a topic"):
        writer.option("checkpointLocation", str(tmp_path / "other")).start().awaitTermination()


def test_a_killed_task_is_repeated_and_loses_no_row(
    stage: Stage, client: pulsar.Client, name: str, tmp_path: Path
) -> None:
    command = (sys.executable, "-m", __name__, stage.cluster.service_url, name, tmp_path / "mark")
    output_of(*command, env=spark_environment(Path(sys.executable)))
    assert (tmp_path / "mark").exists()
    found = numbers(client, name)
    assert sorted(set(found)) == list(range(40_000))


def test_a_stream_whose_driver_is_killed_stores_each_row_once_after_its_restart(
    stage: Stage, client: pulsar.Client, name: str, tmp_path: Path
) -> None:
    make_partitions(stage.cluster, name, 2)
    for partition in range(2):
        producer = client.create_producer(f"{name}-partition-{partition}", block_if_queue_full=True)
        for number in range(5000):
            producer.send_async(
                b"%d:%0300d" % (partition, number),
                lambda *_: None,
                partition_key=f"k{number % 10}",
                event_timestamp=1_777_636_800_000 + number,
                properties={"n": str(number)},
            )
        producer.flush()
        producer.close()
    consumer = consumer_of(client, f"{name}-copy")
    received: list[pulsar.Message] = []
    # A task stores 1000 rows at a time; the first micro-batch has two tasks with 4000 rows each.
    for pause_after, count in ((2100, 2000), (3100, 4000)):
        with copying_driver(stage, name, tmp_path, pause_after) as driver:
            received += receive(consumer, count - len(received))
            assert driver.poll() is None
    with copying_driver(stage, name, tmp_path, 0) as driver:
        assert driver.wait(WAIT_S) == 0
    received += receive(consumer, 10_000 - len(received))
    assert rest(consumer, 1000) == []
    sent = receive(consumer_of(client, name), 10_000)
    for partition in range(2):
        start = b"%d:" % partition
        # Each task keeps the order of its rows.
        assert [_row(m) for m in received if m.data().startswith(start)] == [
            _row(m) for m in sent if m.data().startswith(start)
        ]


def receive(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    # The first message has to wait for a driver to start.
    return [consumer.receive(2000 * WAIT_S) for _ in range(count)]


def _row(message: pulsar.Message) -> tuple[bytes, str, int, dict[str, str]]:
    key, time_ms = message.partition_key(), message.event_timestamp()
    return message.data(), key, time_ms, message.properties()


@contextmanager
def copying_driver(
    stage: Stage, topic: str, folder: Path, pause_after: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the driver; at the end of the block, kill it and its JVM with SIGKILL.

    Without the JVM, the workers exit on their own.
    """
    driver = subprocess.Popen(
        [
            *(sys.executable, DRIVER, stage.cluster.zookeeper, stage.cluster.service_url),
            *(topic, folder / "checkpoint", str(pause_after)),
        ],
        env=spark_environment(Path(sys.executable)),
    )
    try:
        yield driver
    finally:
        if driver.poll() is None:
            jvms = psutil.Process(driver.pid).children()
            driver.kill()
            for jvm in jvms:
                jvm.kill()
            driver.wait(WAIT_S)


def _connections(worker: psutil.Process) -> list[Any]:
    return worker.net_connections("tcp")


def _write_and_kill_a_writer(service_url: str, topic: str, mark: str) -> None:
    """Write numbers, kill the writing process once, and leave the file `mark` behind."""
    port = int(service_url.rpartition(":")[2])

    def kill_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = 0
        for batch in batches:
            yield batch
            count += batch.num_rows
            if count > 20_000 and not os.path.exists(mark):
                writers = [
                    worker.pid
                    for worker in psutil.Process(os.getppid()).children()
                    if any(each.raddr and each.raddr.port == port for each in _connections(worker))
                ]
                if writers:
                    Path(mark).touch()
                    for pid in writers:
                        os.kill(pid, signal.SIGKILL)

    builder = SparkSession.builder.master("local[1, 3]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    spark = builder.getOrCreate()
    spark.dataSource.register(BookKeeperSource)
    rows = spark.range(0, 40_000, numPartitions=1).selectExpr("cast(id as string) as value")
    writer = rows.mapInArrow(kill_once, "value string").write.format("bookkeeper").mode("append")
    writer.option("service.url", service_url).option("topic", topic).save()
    spark.stop()


if __name__ == "__main__":
    _write_and_kill_a_writer(*sys.argv[1:])
