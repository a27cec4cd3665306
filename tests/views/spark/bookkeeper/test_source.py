"""Tests batch queries on a cluster of real bookie processes."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.fragments import Fragment
from labkit.system.autorecovery.ledger_view import view_ledger
from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
from labkit.system.model.entry import DigestType
from labkit.system.model.ledger import LedgerState
from labkit.views.spark.bookkeeper.options import read_options
from labkit.views.spark.bookkeeper.source import LedgersReader
from tests.views.spark.bookkeeper.stage import Stage, numbered

ID = "concat_ws(':', ledger, entry, partition, batch_index) as id"


def load(spark: SparkSession, stage: Stage, **options: str) -> DataFrame:
    reader = spark.read.format("bookkeeper")
    return reader.options(zookeeper=stage.cluster.zookeeper, **options).load()


def ids(messages: DataFrame) -> list[str]:
    return [row["id"] for row in messages.selectExpr(ID).collect()]


@pytest.mark.core
def test_a_topic_has_a_row_for_each_message_with_its_id(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    topic = stage.topic(name, 3, entries_per_ledger=4)
    payloads = numbered(0, 200)
    sent = stage.send(topic, payloads, batch=7)
    rows = load(spark, stage, topic=name).selectExpr(ID, "payload", "sequence_id").collect()
    assert sorted((row["id"], bytes(row["payload"])) for row in rows) == sorted(
        zip(sent, payloads, strict=True)
    )
    assert sorted(row["sequence_id"] for row in rows) == list(range(200))


def test_messages_that_were_not_batched_have_batch_index_minus_one_and_what_they_lack_is_null(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    sent = stage.send(stage.topic(name, 0), numbered(0, 5))
    messages = load(spark, stage, topic=name)
    assert ids(messages) == sent
    columns = "partition", "batch_index", "batch_size", "key", "event_time", "properties"
    rows = messages.select(*columns).collect()
    assert [tuple(row) for row in rows] == [(-1, -1, 1, None, None, {})] * 5


def test_a_row_has_its_messages_producer_times_and_place(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    async def send() -> None:
        producer = topic.producer("someone")
        sent = producer.send(b"x", key="k", event_time_ms=1500, properties={"a": "1", "b": "2"})
        await producer.flush()
        await sent

    before = datetime.now(UTC).replace(microsecond=0)
    topic = stage.topic(name, 0)
    stage.run(send())
    stage.run(topic.close())
    row = load(spark, stage, topic=name).collect()[0]
    assert row["topic"] == f"persistent://public/default/{name}"
    assert (row["producer"], row["key"], row["properties"]) == (
        "someone",
        "k",
        {"a": "1", "b": "2"},
    )
    assert row["event_time"] == datetime(1970, 1, 1, 0, 0, 1, 500_000)
    assert row["publish_time"] >= before.replace(tzinfo=None)
    metadata = stage.run(stage.client.ledger_metadata(row["ledger"]))
    ensemble = list(metadata.segments[0].ensemble)
    assert (row["ensemble"], row["write_set"]) == (ensemble, ensemble)
    assert (row["last_add_confirmed"], row["length"]) == (-1, metadata.length)
    assert (row["uuid"], row["chunk_id"], row["chunks"]) == (None, None, None)


def test_ledgers_have_a_row_for_each_entry(spark: SparkSession, stage: Stage) -> None:
    payloads = numbered(0, 10)
    ledger_id = stage.write_ledger(payloads, 4, 2, 2).ledger_id
    rows = load(spark, stage, ledgers=str(ledger_id)).orderBy("entry").collect()
    assert [(row["entry"], bytes(row["payload"])) for row in rows] == [*enumerate(payloads)]
    ensemble = rows[0]["ensemble"]
    assert [row["write_set"] for row in rows[:4]] == [
        [ensemble[0], ensemble[1]],
        [ensemble[1], ensemble[2]],
        [ensemble[2], ensemble[3]],
        [ensemble[3], ensemble[0]],
    ]


def test_a_ledger_with_a_password_is_read_with_it(spark: SparkSession, stage: Stage) -> None:
    writer = stage.write_ledger([b"x"], digest_type=DigestType.HMAC, password=b"secret")
    ledger_id = writer.ledger_id
    rows = load(spark, stage, ledgers=str(ledger_id), password="secret").collect()
    assert [bytes(row["payload"]) for row in rows] == [b"x"]


def test_start_and_end_are_both_included(spark: SparkSession, stage: Stage, name: str) -> None:
    sent = stage.send(stage.topic(name, 0, entries_per_ledger=3), numbered(0, 100), batch=6)
    for first, last in ((0, 99), (8, 8), (10, 77), (6, 11)):
        messages = load(spark, stage, topic=name, start=sent[first], end=sent[last])
        assert ids(messages) == sent[first : last + 1]


def test_a_partition_without_a_bound_is_read_whole(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    sent = stage.send(stage.topic(name, 2), numbered(0, 20))
    of_0 = [each for each in sent if each.endswith(":0:-1")]
    of_1 = [each for each in sent if each.endswith(":1:-1")]
    found = ids(load(spark, stage, topic=name, start=of_0[4]))
    assert sorted(found) == sorted(of_0[4:] + of_1)


def test_an_open_ledger_is_read_to_its_last_add_confirmed_and_stays_open(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    topic = stage.topic(name, 0)
    sent = stage.send(topic, numbered(0, 10))
    assert ids(load(spark, stage, topic=name)) == sent
    ledger_id = int(sent[0].split(":")[0])
    assert stage.run(stage.client.ledger_metadata(ledger_id)).state is LedgerState.OPEN
    more = stage.send(topic, numbered(10, 20))
    assert more[0].split(":")[0] == sent[0].split(":")[0], "the query fenced the writer"
    assert ids(load(spark, stage, topic=name)) == sent + more


def test_closed_only_leaves_open_ledgers_out(spark: SparkSession, stage: Stage, name: str) -> None:
    sent = stage.send(stage.topic(name, 0, entries_per_ledger=4), numbered(0, 10))
    assert ids(load(spark, stage, topic=name, closedOnly="true")) == sent[:8]


def test_a_dead_bookie_is_passed_over(spark: SparkSession, stage: Stage, name: str) -> None:
    sent = stage.send(stage.topic(name, 0), numbered(0, 200), batch=3)
    victim = load(spark, stage, topic=name).collect()[0]["ensemble"][0]
    stage.run(stage.cluster.kill(victim))
    try:
        assert ids(load(spark, stage, topic=name)) == sent
    finally:
        stage.run(stage.cluster.restart(victim))


def test_where_all_copies_are_gone_the_error_names_ledger_and_entry(
    spark: SparkSession, stage: Stage
) -> None:
    writer = stage.write_ledger(numbered(0, 3), 1, 1, 1)
    ledger_id, [bookie] = writer.ledger_id, writer.metadata.segments[0].ensemble
    stage.run(stage.cluster.kill(bookie))
    try:
        said = f"cannot read entries 0 to 2 of ledger {ledger_id}: {bookie}"
        with pytest.raises(PythonException, match=said):
            load(spark, stage, ledgers=str(ledger_id), retrySeconds="1").collect()
    finally:
        stage.run(stage.cluster.restart(bookie))


# Queries that read only the requested columns and rows


def test_a_schema_picks_columns(spark: SparkSession, stage: Stage, name: str) -> None:
    stage.send(stage.topic(name, 0), numbered(0, 3))
    reader = spark.read.format("bookkeeper").schema("entry long, producer string")
    messages = reader.options(zookeeper=stage.cluster.zookeeper, topic=name).load()
    assert messages.collect() == [(0, "p"), (1, "p"), (2, "p")]


@pytest.fixture(scope="module")
def orders(stage: Stage) -> None:
    """Publish 12 messages to a topic of three partitions."""
    stage.send(stage.topic("orders", 3), numbered(0, 12))


def test_large_ledgers_are_read_by_several_tasks(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    sent = stage.send(stage.topic(name, 0), [bytes(1000)] * 40)
    messages = load(spark, stage, topic=name, splitSize="10k")
    assert messages.rdd.getNumPartitions() >= 4
    assert ids(messages) == sent


def test_batches_of_rows_have_the_size_asked_for(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    sent = stage.send(stage.topic(name, 0), numbered(0, 30))
    given = {"topic": name, "rowsPerBatch": "7"}
    assert ids(load(spark, stage, **given)) == sent
    options = read_options({"zookeeper": stage.cluster.zookeeper, **given})
    reader = LedgersReader(options, StructType().add("entry", "long"))
    [task] = reader.partitions()
    assert [batch.num_rows for batch in reader.read(task)] == [7, 7, 7, 7, 2]


# Missing ledgers


def small_ledger(stage: Stage) -> int:
    """Write three entries to one bookie; return the ledger's id."""
    return stage.write_ledger(numbered(0, 3), 1, 1, 1).ledger_id


@pytest.mark.parametrize("bound", ["start", "end"])
def test_a_query_that_names_a_trimmed_ledger_fails_unless_data_loss_is_allowed(
    spark: SparkSession, stage: Stage, name: str, bound: str
) -> None:
    sent = stage.send(stage.topic(name, 0, entries_per_ledger=5), numbered(0, 30))
    stage.run(stage.trim(name, 2))
    options = {"topic": name, "start": sent[3]} if bound == "start" else {"end": sent[3]}
    options = {"topic": name} | options
    with pytest.raises(AnalysisException) as refused:
        load(spark, stage, **options).count()
    assert f"option '{bound}': ledger" in str(refused.value)
    assert "set option 'failOnDataLoss' to 'false'" in str(refused.value)
    left = load(spark, stage, **options, failOnDataLoss="false")
    assert ids(left) == (sent[10:] if bound == "start" else [])
    assert ids(load(spark, stage, topic=name)) == sent[10:], "a remaining row is missing"


def test_a_range_of_ledgers_with_a_hole_fails_unless_data_loss_is_allowed(
    spark: SparkSession, stage: Stage
) -> None:
    first, middle, last = (small_ledger(stage) for _ in range(3))
    stage.run(stage.client.delete_ledger(middle))
    with pytest.raises(
        AnalysisException, match=f"only 2 of the ledgers .* exist; {middle} is the first"
    ):
        load(spark, stage, ledgers=f"{first}-{last}").count()
    assert load(spark, stage, ledgers=f"{first}-{last}", failOnDataLoss="false").count() == 6
    assert load(spark, stage, ledgers=f"{first}-").count() >= 6


@pytest.mark.parametrize("fails", [True, False])
def test_a_ledger_of_the_chain_that_was_deleted_is_a_loss(
    spark: SparkSession, stage: Stage, name: str, fails: bool
) -> None:
    sent = stage.send(stage.topic(name, 0, entries_per_ledger=5), numbered(0, 15))
    deleted = int(sent[5].split(":")[0])
    stage.run(stage.client.delete_ledger(deleted))
    messages = load(spark, stage, topic=name, failOnDataLoss=str(fails))
    if fails:
        with pytest.raises(PythonException, match=f"ledger {deleted} was deleted or trimmed"):
            messages.count()
    else:
        assert ids(messages) == sent[:5] + sent[10:]


@pytest.mark.parametrize("fails", [True, False])
def test_a_ledger_that_goes_after_the_query_was_planned_is_a_loss(
    spark: SparkSession, stage: Stage, fails: bool
) -> None:
    stays, goes = (small_ledger(stage) for _ in range(2))
    entries = load(spark, stage, ledgers=f"{stays},{goes}", failOnDataLoss=str(fails))
    assert entries.count() == 6
    stage.run(stage.client.delete_ledger(goes))
    if fails:
        with pytest.raises(PythonException, match=f"ledger {goes} was deleted or trimmed"):
            entries.collect()
    else:
        assert {row["ledger"] for row in entries.collect()} == {stays}


def test_a_ledger_that_was_moved_to_another_bookie_after_the_query_was_planned_is_read_there(
    spark: SparkSession, stage: Stage
) -> None:
    async def move() -> None:
        replicator = LedgerFragmentReplicator(stage.client.context, AutoRecoveryConfig())
        ledger = await view_ledger(stage.client, ledger_id)
        fragment = Fragment(0, 2, (old,), write_quorum=1, closed=True)
        await replicator.move(ledger, fragment, {0: new})

    ledger_id = small_ledger(stage)
    entries = load(spark, stage, ledgers=str(ledger_id))
    [old] = entries.collect()[0]["ensemble"]
    new = next(name for name in stage.cluster.bookie_names if name != old)
    stage.run(move())
    stage.run(stage.cluster.kill(old))
    try:
        assert [tuple(row["ensemble"]) for row in entries.collect()] == [(new,)] * 3
    finally:
        stage.run(stage.cluster.restart(old))


def test_a_partition_that_is_named_as_a_topic_has_its_number_in_rows_and_ids(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    sent = stage.send(stage.topic(name, 2, entries_per_ledger=5), numbered(0, 40))
    of_1 = [each for each in sent if each.endswith(":1:-1")]
    partition = f"{name}-partition-1"
    assert ids(load(spark, stage, topic=partition)) == of_1
    assert ids(load(spark, stage, topic=partition, start=of_1[3], end=of_1[9])) == of_1[3:10]


def test_ids_of_another_partition_than_the_one_named_as_a_topic_are_refused(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    [sent] = stage.send(stage.topic(name, 1), numbered(0, 1))
    other = sent.replace(":0:-1", ":3:-1")
    with pytest.raises(AnalysisException, match=f"{name}-partition-0 has only partition 0"):
        load(spark, stage, topic=f"{name}-partition-0", start=other).count()


def test_an_end_that_is_not_confirmed_yet_is_refused(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    *_, last = stage.send(stage.topic(name, 0), numbered(0, 3))
    ledger_id, entry_id, *_ = map(int, last.split(":"))
    beyond = f"{ledger_id}:{entry_id + 1}:-1:-1"
    with pytest.raises(AnalysisException, match=f"entry {entry_id + 1} of ledger {ledger_id} cann"):
        load(spark, stage, topic=name, end=beyond).count()


def test_several_topics_are_read_by_name_or_by_pattern(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    sent = {}
    for number, partitions in enumerate((0, 2)):
        topic = stage.topic(f"{name}-{number}", partitions)
        sent[f"persistent://public/default/{name}-{number}"] = stage.send(topic, numbered(0, 6))
    stage.send(stage.topic(f"{name}x", 0), numbered(0, 6))
    for options in (
        {"topics": f"{name}-0,{name}-1"},
        {"topicsPattern": f"{name}-\\d"},
        {"topicsPattern": f"persistent://public/default/{name}-."},
    ):
        rows = load(spark, stage, **options).selectExpr("topic", ID).collect()
        assert sorted((row["topic"], row["id"]) for row in rows) == sorted(
            (topic, each) for topic, ids in sent.items() for each in ids
        )


def test_a_pattern_does_not_match_a_partition_but_a_topic_that_is_named_like_one(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    partitioned = stage.send(stage.topic(f"{name}-a", 2), numbered(0, 4))
    single = stage.send(stage.topic(f"{name}-b-partition-3", 0), numbered(0, 2))
    messages = load(spark, stage, topicsPattern=f"{name}.*partition.*")
    assert ids(messages) == [each.replace(":-1:-1", ":3:-1") for each in single]
    messages = load(spark, stage, topicsPattern=f"{name}-a")
    assert sorted(ids(messages)) == sorted(partitioned)


def test_a_batch_query_reads_what_was_published_between_two_times(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    topic = stage.topic(name, 2, entries_per_ledger=3)
    sent = {time: stage.send_at(time, topic, numbered(0, 8)) for time in (1000, 2000, 3000)}

    def between(**times: str) -> list[str]:
        return sorted(ids(load(spark, stage, topics=name, **times)))

    assert between(startingTime="1001") == sorted(sent[2000] + sent[3000])
    assert between(endingTime="1970-01-01T00:00:02Z") == sorted(sent[1000] + sent[2000])
    assert between(startingTime="2000", endingTime="2000") == sorted(sent[2000])
    assert between(startingTime="2001", endingTime="2999") == []
    assert between(endingTime="999") == between(startingTime="3001") == []


def test_a_query_has_the_number_of_tasks_that_was_asked_for(
    spark: SparkSession, stage: Stage, name: str
) -> None:
    sent = stage.send(stage.topic(name, 0, entries_per_ledger=10), numbered(0, 40))
    assert load(spark, stage, topic=name).rdd.getNumPartitions() < 5
    messages = load(spark, stage, topic=name, minPartitions="5")
    assert messages.rdd.getNumPartitions() >= 5
    assert ids(messages) == sent


# Error messages


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"topic": "nowhere"},
            "topic persistent://public/default/nowhere does not",
        ),
        ({"ledgers": "123456"}, "option 'ledgers': ledger 123456 does not exist"),
        ({"topic": "orders", "start": "1:0:9:-1"}, "option 'start': 1:0:9:-1 refers to partition"),
        ({"topic": "orders", "start": "latest"}, "option 'start' can be 'latest' only in a stream"),
        ({"topic": "ordres"}, "topics in that namespace: orders and others"),
        ({"topic": "orders", "speed": "9"}, "unknown option 'speed'"),
        (
            {"topic": "orders", "zookeeper": "127.0.0.1:9", "retrySeconds": "1"},
            "option 'zookeeper': ZooKeeper at 127.0.0.1:9 did not respond within 1 s; is it",
        ),
        ({"topic": "orders", "password": "x"}, "option 'password': ledger"),
        ({"topic": "orders", "maxRowsPerTrigger": "5"}, "option 'maxRowsPerTrigger' is only for"),
        ({"topic": "orders", "maxBytesPerTrigger": "5"}, "option 'maxBytesPerTrigger' is only for"),
        (
            {"topic": "orders", "predefinedSubscription": "s", "admin.url": "http://h:8080"},
            "option 'predefinedSubscription' is only for spark.readStream",
        ),
        ({"topics": "orders,ordres"}, "topic persistent://public/default/ordres"),
        (
            {"topicsPattern": "ordres"},
            "option 'topicsPattern': no topic matches persistent://public/default/ordres; topics in"
            " that namespace: orders",
        ),
        ({"subscribe": "orders"}, "option 'subscribe' belongs to another connector; use 'topic'"),
    ],
)
def test_a_wrong_option_is_named(
    options: dict[str, str],
    words: str,
    spark: SparkSession,
    stage: Stage,
) -> None:
    given: dict[str, Any] = {"zookeeper": stage.cluster.zookeeper, **options}
    with pytest.raises(AnalysisException) as told:
        spark.read.format("bookkeeper").options(**given).load().collect()
    assert words in str(told.value)
    assert str(told.value).count("\n") < 6


def test_a_schema_with_an_unknown_column_is_refused(spark: SparkSession, stage: Stage) -> None:
    reader = spark.read.format("bookkeeper").schema("offset long")
    with pytest.raises(AnalysisException, match="unknown column 'offset'"):
        reader.options(zookeeper=stage.cluster.zookeeper, topic="t").load().collect()
