"""What Pulsar's own client wrote through a broker, read back without one."""

from collections.abc import Iterator

import pulsar
import pytest
from pyspark.sql import SparkSession

from tests.pulsar.client import connect
from tests.spark.bookkeeper.stage import Stage

CODECS = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(bookies=3, brokers=1) as stage:
        yield stage


@pytest.fixture(scope="module")
def client(stage: Stage) -> Iterator[pulsar.Client]:
    client = connect(stage.cluster.service_url)
    yield client
    client.close()


def rows(spark: SparkSession, stage: Stage, topic: str, count: int) -> list[tuple[str, bytes]]:
    """Ids and payloads, once there are `count`: readers hear of the newest entry a little later."""
    reader = spark.read.format("bookkeeper")
    reader = reader.options(zookeeper=stage.cluster.zookeeper, topic=topic)
    found: list[tuple[str, bytes]] = []

    def are_there() -> bool:
        columns = "ledger", "entry", "partition", "batch_index", "payload"
        read = reader.load().select(*columns).orderBy(*columns[:4]).collect()
        found[:] = [(":".join(map(str, row[:4])), bytes(row[4])) for row in read]
        return len(found) >= count

    stage.wait(are_there, lambda: None)
    return found


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("codec", CODECS)
def test_messages_come_back_with_the_ids_that_the_client_was_given(
    spark: SparkSession, stage: Stage, client: pulsar.Client, codec: str, batched: bool
) -> None:
    name = f"official-{codec}-{batched}"
    producer = client.create_producer(
        name,
        compression_type=CODECS[codec],
        batching_enabled=batched,
        batching_max_messages=7,
        batching_max_publish_delay_ms=1000,
    )
    payloads = [b"message %d " % number * 20 for number in range(30)]
    sent: list[pulsar.MessageId] = []
    for payload in payloads:
        producer.send_async(payload, lambda _, message_id: sent.append(message_id))
    producer.flush()
    producer.close()
    ids = [
        f"{each.ledger_id()}:{each.entry_id()}:{each.partition()}:{each.batch_index()}"
        for each in sent
    ]
    assert rows(spark, stage, name, 30) == list(zip(ids, payloads, strict=True))


def test_a_chunked_message_is_put_together_from_its_rows(
    spark: SparkSession, stage: Stage, client: pulsar.Client
) -> None:
    producer = client.create_producer("official-chunked", chunking_enabled=True)
    whole = bytes(range(256)) * 48 * 1024
    producer.send(whole)
    producer.close()
    chunks = rows(spark, stage, "official-chunked", 3)
    assert len(chunks) > 1
    assert b"".join(payload for _, payload in chunks) == whole
