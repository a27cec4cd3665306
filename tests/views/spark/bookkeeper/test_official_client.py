"""Tests that messages published by Pulsar's own client can be read without a broker."""

import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from avro.io import BinaryEncoder, DatumWriter
from avro.schema import parse
from pulsar.schema import BytesSchema, JsonSchema, Record, String
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from tests.views.spark.bookkeeper.stage import Stage

CODECS = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


SchemaType = type(BytesSchema().schema_info().schema_type())


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(bookies=3, brokers=1) as stage:
        yield stage


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


class AvroOrders(pulsar.schema.Schema):
    """Orders with these fields; pulsar's own class needs another library for Avro."""

    def __init__(self, *fields: str) -> None:
        # All fields are optional, so that each version is compatible with the others.
        optional = [{"name": each, "type": ["null", "string"], "default": None} for each in fields]
        self._definition = {"type": "record", "name": "Order", "fields": optional}
        super().__init__(dict, SchemaType.AVRO, self._definition, "AVRO")

    def encode(self, obj: dict[str, str]) -> bytes:
        out = io.BytesIO()
        DatumWriter(parse(json.dumps(self._definition))).write(obj, BinaryEncoder(out))
        return out.getvalue()


def test_records_are_decoded_with_the_schema_version_of_their_message(
    spark: SparkSession, stage: Stage, client: pulsar.Client, tmp_path: Path
) -> None:
    name, table = "official-avro", str(tmp_path / "table")
    reader = spark.readStream.format("bookkeeper").options(decodeValues="true", topics=name)
    orders: list[dict[str, str]] = []
    versions = (("customer",), ("customer", "city"))
    for number, fields in enumerate(versions, 1):
        producer = client.create_producer(name, schema=AvroOrders(*fields))
        for count in range(5):
            orders.append({field: f"{field} {count}" for field in fields})
            producer.send(orders[-1])
        producer.close()
        rows(spark, stage, name, 5 * number)
        # The second version appears while the query is stopped.
        values = reader.options(zookeeper=stage.cluster.zookeeper).load().select("value")
        writer = values.writeStream.format("parquet").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(table)
        assert query.awaitTermination(120)
    found = spark.read.parquet(table).collect()
    assert sorted(row["value"] for row in found) == sorted(map(json.dumps, orders))
    columns = spark.read.parquet(table).selectExpr("from_json(value, 'city string').city as city")
    assert columns.where("city is not null").count() == 5


def test_json_records_are_decoded_and_messages_without_a_schema_are_not(
    spark: SparkSession, stage: Stage, client: pulsar.Client
) -> None:
    class Order(Record):
        customer = String()

    reader = spark.read.format("bookkeeper").options(decodeValues="true")
    for name, schema, message in (
        ("official-json", JsonSchema(Order), Order(customer="Ann")),
        ("official-bytes", BytesSchema(), b"Ann"),
    ):
        producer = client.create_producer(name, schema=schema)
        producer.send(message)
        producer.close()
        rows(spark, stage, name, 1)
    options = {"zookeeper": stage.cluster.zookeeper, "topicsPattern": "official-(json|bytes)"}
    found = reader.options(**options).load()
    parsed = found.selectExpr("variant_get(parse_json(value), '$.customer', 'string') as customer")
    assert {row["customer"] for row in parsed.collect()} == {"Ann", None}


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
