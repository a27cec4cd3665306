"""Tests that messages published by Pulsar's own client can be read without a broker."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from tests.system.broker.client import connect
from tests.views.spark.bookkeeper.stage import Stage

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
    """Wait until there are `count` rows; return their ids and payloads.

    The newest entry becomes readable a little later than the others.
    """
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


@pytest.mark.parametrize("batched", [True, False])
def test_ids_of_an_encrypted_topic_are_read_without_its_key(
    spark: SparkSession, stage: Stage, client: pulsar.Client, tmp_path: Path, batched: bool
) -> None:
    private, public = str(tmp_path / "private.pem"), str(tmp_path / "public.pem")
    subprocess.run(["openssl", "genrsa", "-out", private, "2048"], check=True, capture_output=True)
    subprocess.run(
        ["openssl", "rsa", "-in", private, "-pubout", "-out", public],
        check=True,
        capture_output=True,
    )
    name = f"official-encrypted-{batched}"
    producer = client.create_producer(
        name,
        encryption_key="mine",
        crypto_key_reader=pulsar.CryptoKeyReader(public, private),
        batching_enabled=batched,
        batching_max_publish_delay_ms=1000,
    )
    sent: list[pulsar.MessageId] = []
    for number in range(10):
        producer.send_async(b"%d" % number, lambda _, message_id: sent.append(message_id))
    producer.flush()
    producer.close()
    ids = [(each.ledger_id(), each.entry_id(), each.batch_index()) for each in sent]
    reader = spark.read.format("bookkeeper")
    reader = reader.options(zookeeper=stage.cluster.zookeeper, topic=name)
    visible = reader.schema("ledger long, entry long, batch_index int")
    stage.wait(lambda: visible.load().count() >= 10, lambda: None)
    assert [tuple(row) for row in visible.load().collect()] == ids
    with pytest.raises(
        PythonException, match="is encrypted, and only the topic's consumers have the key"
    ):
        reader.schema("payload binary").load().collect()
