"""Tests what a task stores, with a real broker and the official client, but without Spark."""

import json
from collections.abc import Iterator
from dataclasses import replace
from threading import Timer
from time import time

import pulsar
import pytest

from labkit.system.broker.policies import policies_path
from labkit.views.spark.bookkeeper.writing.messages import Message
from labkit.views.spark.bookkeeper.writing.sending import Attempt, Sender
from labkit.views.spark.bookkeeper.writing.write_options import (
    WriteError,
    WriteOptions,
    read_write_options,
)
from labkit.worlds.live.tokens import make_token
from tests.system.broker import test_security
from tests.system.broker.client import connect, make_partitions
from tests.views.spark.bookkeeper.sender import interrupt, messages, stored, write
from tests.views.spark.bookkeeper.stage import Stage

pytestmark = pytest.mark.slow

PREFIX = "persistent://public/default/"
DEDUPLICATION = {"brokerDeduplicationEnabled": "true"}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(bookies=3, brokers=1, broker_conf=DEDUPLICATION) as stage:
        yield stage


@pytest.fixture
def options(stage: Stage, name: str) -> WriteOptions:
    return WriteOptions(stage.cluster.service_url, PREFIX + name, retry_s=30)


def test_a_key_selects_the_partition_that_a_java_producer_would_select(
    stage: Stage, client: pulsar.Client, options: WriteOptions, name: str
) -> None:
    make_partitions(stage.cluster, name, 5)
    # Java's hash codes, without their sign: 99162322, 0, and 1772899.
    expected = {"hello": 99162322 % 5, "polygenelubricants": 0, "\U0001f600": 1772899 % 5}
    write(options, [Message(b"", key, None, None, options.topic) for key in expected])
    consumer = client.subscribe(
        options.topic, "all", initial_position=pulsar.InitialPosition.Earliest
    )
    received = [consumer.receive(20_000) for _ in expected]
    found = {each.partition_key(): each.message_id().partition() for each in received}
    assert found == expected
    consumer.close()


def test_rows_without_a_key_take_turns_among_the_partitions(
    stage: Stage, client: pulsar.Client, options: WriteOptions, name: str
) -> None:
    make_partitions(stage.cluster, name, 3)
    write(options, messages(options, 30))
    for partition in range(3):
        part = replace(options, topic=f"{options.topic}-partition-{partition}")
        assert stored(client, part) == list(range(partition, 30, 3))


@pytest.mark.parametrize("partitions", [0, 3])
@pytest.mark.parametrize("first", [1, 1001, 5500, 6000])
def test_a_repeated_task_stores_only_what_is_missing(
    stage: Stage,
    client: pulsar.Client,
    options: WriteOptions,
    name: str,
    first: int,
    partitions: int,
) -> None:
    if partitions:
        make_partitions(stage.cluster, name, partitions)
    rows = messages(options, 6000)
    interrupt(options, rows[:first], Attempt("task", 0))
    for _ in range(2):
        write(options, rows, Attempt("task", 0))
    for next_batch in (Attempt("task", 1), Attempt("other", 0)):
        write(options, rows[:10], next_batch)
    found, expected = stored(client, options), [*range(6000), *range(10), *range(10)]
    assert sorted(found) == sorted(expected)
    assert partitions or found == expected


def test_batches_of_a_repeated_task_end_at_the_same_rows_if_their_sizes_differ(
    client: pulsar.Client, options: WriteOptions
) -> None:
    sizes = [10, 400_000, 600_000, 60_000, 3_000_000, 5, 1_048_576, *[1] * 1500]
    rows = [
        Message(b"%d" % n + b" " * size, None, None, {"size": str(size)}, options.topic)
        for n, size in enumerate(sizes)
    ]
    for count in (4, 6, 1200):
        interrupt(options, rows[:count], Attempt("task", 0))
    write(options, rows, Attempt("task", 0))
    assert stored(client, options) == list(range(len(rows)))


@pytest.mark.parametrize("change", ["value", "key", "order", "fewer"])
def test_a_task_that_is_repeated_with_other_rows_fails_and_stores_nothing(
    client: pulsar.Client, options: WriteOptions, change: str
) -> None:
    rows = messages(options, 3000)
    interrupt(options, rows[:1500], Attempt("task", 4))
    match change:
        case "value":
            rows[998] = rows[998]._replace(value=b"700")
        case "key":
            rows[998] = rows[998]._replace(key="k")
        case "order":
            rows[998], rows[999] = rows[999], rows[998]
        case "fewer":
            del rows[999:]
    with pytest.raises(WriteError, match="its rows, or their order, differ"):
        write(options, rows, Attempt("task", 4))
    assert stored(client, options) == list(range(1000))


def test_an_older_checkpoint_is_refused(options: WriteOptions) -> None:
    write(options, messages(options, 1), Attempt("task", 3))
    with pytest.raises(WriteError, match=r"contains rows of batch 3 .* continues with batch 2"):
        write(options, messages(options, 1), Attempt("task", 2))


def test_exactly_once_needs_deduplication_and_says_so_after_the_first_batch(
    stage: Stage, client: pulsar.Client, name: str
) -> None:
    namespace = f"public/{name}"
    policies = json.dumps({"deduplicationEnabled": False}).encode()
    stage.run(stage.client.store.create(policies_path(namespace), policies))
    options = WriteOptions(stage.cluster.service_url, f"persistent://{namespace}/topic")
    with pytest.raises(WriteError, match="deduplication is disabled for persistent://public/"):
        write(options, messages(options, 10), Attempt("task", 0))
    assert stored(client, options) == list(range(10))
    write(options, messages(options, 10))
    assert stored(client, options) == [*range(10), *range(10)]


def test_a_task_waits_until_its_earlier_attempt_has_ended(
    client: pulsar.Client, options: WriteOptions
) -> None:
    earlier = Sender(options, Attempt("task", 0))
    for row in messages(options, 1500):
        earlier.send(row)
    with pytest.raises(WriteError, match="an earlier attempt of the task is still running"):
        write(replace(options, retry_s=1), messages(options, 1500), Attempt("task", 0))
    ending = Timer(0.5, earlier.__exit__)
    ending.start()
    write(options, messages(options, 1500), Attempt("task", 0))
    ending.join()
    assert stored(client, options) == list(range(1500))


@pytest.mark.parametrize("node", ["b0", "broker-1"])
def test_rows_are_stored_once_and_in_order_if_a_node_is_killed_meanwhile(
    stage: Stage, client: pulsar.Client, options: WriteOptions, node: str
) -> None:
    with Sender(options, Attempt("task", 0)) as sender:
        for number, row in enumerate(messages(options, 20_000, "k")):
            if number == 7000:
                stage.run(stage.cluster.kill(node))
                stage.run(stage.cluster.restart(node))
            sender.send(row)
        sender.finish()
    assert stored(client, options) == list(range(20_000))


@pytest.mark.parametrize("attempt", [None, Attempt("task", 0)])
def test_a_task_fails_if_its_rows_are_not_stored_in_time(
    stage: Stage, options: WriteOptions, attempt: Attempt | None
) -> None:
    with Sender(replace(options, retry_s=1), attempt) as sender:
        sender.send(messages(options, 1)[0])
        stage.run(stage.cluster.pause("broker-1"))
        sender.send(messages(options, 1)[0])
        try:
            with pytest.raises(WriteError, match="messages were not stored within 1 s"):
                sender.finish()
        finally:
            stage.run(stage.cluster.resume("broker-1"))


def test_a_task_fails_if_it_reaches_no_broker_or_the_namespace_is_missing(
    options: WriteOptions,
) -> None:
    nobody = replace(options, service_url="pulsar://127.0.0.1:1", retry_s=1)
    with pytest.raises(WriteError, match=r"at pulsar://127.0.0.1:1: .*; is the broker running\?"):
        write(nobody, messages(options, 1))
    missing = replace(options, topic="persistent://no/where/t")
    with pytest.raises(WriteError, match="TopicNotFound; create the topic, or its namespace"):
        write(missing, messages(missing, 1))


keys = test_security.keys


@pytest.mark.java
def test_a_broker_that_asks_for_a_token_gets_the_one_of_a_repeated_task_over_tls(
    keys: dict[str, object], name: str
) -> None:
    with Stage(bookies=1, brokers=1, broker_conf=keys | DEDUPLICATION) as stage:
        port = stage.cluster.ports_of("broker-1")["tls_port"]
        given = {
            "service.url": f"pulsar+ssl://127.0.0.1:{port}",
            "topic": name,
            "token": make_token(test_security.SECRET, "alice"),
            "tlsTrustCertsFilePath": str(keys["tlsCertificateFilePath"]),
            "retrySeconds": "30",
        }
        options = read_write_options(given, is_stream=True)
        rows = messages(options, 1500)
        interrupt(options, rows[:1200], Attempt("task", 0))
        renewed = make_token(test_security.SECRET, "alice", expires_at_s=int(time()) + 3600)
        write(replace(options, token=renewed), rows, Attempt("task", 0))
        authentication = pulsar.AuthenticationToken(options.token)
        client = connect(stage.cluster.service_url, authentication=authentication)
        assert stored(client, options) == list(range(1500))
        client.close()
        with pytest.raises(WriteError, match="AuthenticationError; set option 'token'"):
            write(replace(options, token=""), messages(options, 1))
        untrusted = replace(options, tls_trust_certs="", retry_s=1)
        with pytest.raises(WriteError, match="ConnectError; is this the address"):
            write(untrusted, messages(options, 1))


def test_a_message_that_is_too_large_fails_before_a_later_one_is_stored(
    client: pulsar.Client, options: WriteOptions
) -> None:
    rows = messages(options, 10)
    rows[3] = rows[3]._replace(value=bytes(6_000_000))
    # The large message is a batch of its own.
    with pytest.raises(WriteError, match="a message was not stored: MessageTooBig"):
        write(options, rows, Attempt("task", 0))
    assert stored(client, options) == [0, 1, 2]
