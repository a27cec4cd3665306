"""Tests that retention does not delete what a stream with option `predefinedSubscription` needs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from labkit.views.spark.bookkeeper.stream import LedgerStreamReader
from labkit.views.spark.bookkeeper.subscription import SubscriptionError
from labkit.worlds.live.tokens import make_token
from tests.system.broker import test_security
from tests.system.broker.admin import done, topic_path
from tests.system.broker.client import make_partitions, send_all
from tests.until import until_true
from tests.views.spark.bookkeeper.stage import Stage, numbered
from tests.views.spark.bookkeeper.test_stream import Following

pytestmark = pytest.mark.slow

PER_LEDGER = 5
NAME = "spark/query 1"
PATH = "/subscription/spark%2Fquery%201"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Start two brokers that delete a ledger as soon as all subscriptions have acknowledged it."""
    conf = {
        "managedLedgerMaxEntriesPerLedger": str(PER_LEDGER),
        "managedLedgerMinLedgerRolloverTimeMinutes": "0",
        "retentionCheckIntervalInSeconds": "1",
    }
    with Stage(bookies=3, brokers=2, broker_conf=conf) as stage:
        yield stage


@pytest.fixture
def follow(spark: SparkSession, stage: Stage, name: str, tmp_path: Path) -> Following:
    follow = Following(spark, stage, tmp_path, topic=name)
    url = stage.cluster.web_url_of("broker-1")
    follow.options |= {"predefinedSubscription": NAME, "admin.url": url}
    follow.options["maxRowsPerTrigger"] = str(PER_LEDGER - 1)
    return follow


def publish(stage: Stage, client: pulsar.Client, topic: str, first: int, last: int) -> list[str]:
    """Publish numbered messages, each in its own entry; return their ids as text."""
    producer = client.create_producer(topic, batching_enabled=False)
    ids = [at for at, _ in send_all(producer, numbered(first, last))]
    producer.close()
    for ledger_id, entry_id in {at.ledger_id(): at.entry_id() for at in ids}.items():
        stage.run(stage.heard(ledger_id, entry_id))
    return [f"{at.ledger_id()}:{at.entry_id()}:{at.partition()}:-1" for at in ids]


def stats(stage: Stage, topic: str) -> Any:
    return done(stage.cluster, "GET", topic_path(topic, "/internalStats"))


def position_before(message_id: str) -> str:
    ledger_id, entry_id, *_ = message_id.split(":")
    return f"{ledger_id}:{int(entry_id) - 1}"


def wait_for_trimming(stage: Stage, topic: str, first_ledger_id: str) -> None:
    """Wait until all ledgers before this one have been deleted."""

    async def is_trimmed() -> bool:
        return str(stats(stage, topic)["ledgers"][0]["ledgerId"]) == first_ledger_id

    stage.run(until_true(is_trimmed))


def test_retention_keeps_the_ledgers_that_a_restarted_stream_needs(
    stage: Stage, client: pulsar.Client, name: str, follow: Following
) -> None:
    done(stage.cluster, "PUT", topic_path(name))
    follow.read_now()
    sent = publish(stage, client, name, 0, 4 * PER_LEDGER)
    _, second, _, fourth = dict.fromkeys(each.split(":")[0] for each in sent)
    repeated = follow.fail_in(3)
    # Spark commits a batch when it plans the next one, so batches 0 to 2 are committed. Batch 0 is
    # empty, and batch 2 ends in the second ledger.
    wait_for_trimming(stage, name, second)
    follow.read_now()
    assert follow.sink.batches()[3] == repeated
    assert follow.sink.ids() == sent
    wait_for_trimming(stage, name, fourth)


def test_a_restarted_stream_moves_its_subscription_to_its_own_position(
    stage: Stage, client: pulsar.Client, name: str, follow: Following
) -> None:
    def skip_all() -> None:
        done(stage.cluster, "POST", topic_path(name, f"{PATH}/skip_all"))

    def delete() -> None:
        done(stage.cluster, "DELETE", topic_path(name, PATH))

    done(stage.cluster, "PUT", topic_path(name))
    follow.read_now()
    sent = publish(stage, client, name, 0, 1)
    follow.read_now()
    for change in (skip_all, delete):
        sent += publish(stage, client, name, 0, 1)
        change()
        follow.read_now()
        marks = stats(stage, name)["cursors"]
        assert marks[NAME]["markDeletePosition"] == position_before(sent[-2])
    assert follow.sink.ids() == sent


def test_any_broker_can_be_asked_about_every_partition_also_after_a_restart(
    stage: Stage, client: pulsar.Client, name: str, follow: Following
) -> None:
    make_partitions(stage.cluster, name, 2)
    sent = publish(stage, client, name, 0, 4)
    paths = [topic_path(f"{name}-partition-{partition}") for partition in range(2)]
    for broker in stage.cluster.broker_names:
        follow.options["admin.url"] = stage.cluster.web_url_of(broker)
        follow.read_now()
        for path in paths:
            assert done(stage.cluster, "GET", f"{path}/subscriptions") == [NAME]
            done(stage.cluster, "DELETE", f"{path}{PATH}")
    assert sorted(follow.sink.ids()) == sorted(sent)


def test_a_stream_fails_if_no_broker_moves_its_subscription(
    stage: Stage, client: pulsar.Client, name: str, follow: Following
) -> None:
    publish(stage, client, name, 0, 3)
    follow.options |= {"admin.url": "http://127.0.0.1:9", "retrySeconds": "1"}
    with pytest.raises(StreamingQueryException) as told:
        follow.read_now()
    said = f"cannot move subscription '{NAME}' of persistent://public/default/{name} through"
    assert f"{said} the broker at http://127.0.0.1:9" in str(told.value)
    assert "is it running?" in str(told.value)


keys = test_security.keys


@pytest.mark.java
def test_a_broker_that_asks_for_a_token_gets_the_one_of_a_restarted_query(
    keys: dict[str, object], name: str
) -> None:
    conf = {**keys, "authorizationEnabled": "true", "superUserRoles": "root,other"}
    with Stage(bookies=3, brokers=1, broker_conf=conf) as stage:
        url = stage.cluster.web_url_of("broker-1")
        options = {"zookeeper": stage.cluster.zookeeper, "topic": name, "admin.url": url}
        options["predefinedSubscription"] = NAME
        stage.run(stage.topic(name, 0).close())

        def move(**token: str) -> None:
            reader = LedgerStreamReader({**options, **token}, StructType().add("ledger", "long"))
            try:
                offset = reader.initialOffset()
                reader.commit(reader.latestOffset(offset, ReadAllAvailable()))
            finally:
                reader.stop()

        for role in ("root", "other"):
            move(token=make_token(test_security.SECRET, role))
        with pytest.raises(SubscriptionError, match=r"401 Unauthorized .*; set option 'token'"):
            move()
        with pytest.raises(SubscriptionError, match=r"403 Forbidden .* may administer the topic"):
            move(token=make_token(test_security.SECRET, "alice"))
