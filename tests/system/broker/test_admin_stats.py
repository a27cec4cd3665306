"""Tests for the admin paths for a topic's statistics, and for the reported values."""

import pulsar
import pytest

from labkit.system.broker.operations.topic_stats import size_after, sum_partition_stats
from labkit.system.broker.traffic import Traffic
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import done, topic_path, unload, wait_until_acknowledged
from tests.system.broker.client import receive, send_all, send_batch

PAYLOADS = [f"message {number}".encode() for number in range(20)]


def test_statistics_show_traffic_backlogs_producers_and_consumers(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    consumer = client.subscribe(topic, "sub", consumer_name="c")
    producer = client.create_producer(topic, "p", batching_enabled=False)
    sent = send_all(producer, PAYLOADS)
    send_batch(client, topic, PAYLOADS)
    messages = receive(consumer, 40)
    consumer.acknowledge_cumulative(messages[9])
    wait_until_acknowledged(brokers, topic, sent[9][0])
    stats = done(brokers, "GET", topic_path(topic, "/stats?getEarliestTimeInBacklog=true"))
    # The batch is one entry with 20 messages.
    assert (stats["msgInCounter"], stats["msgOutCounter"]) == (40, 40)
    assert stats["storageSize"] == stats["bytesInCounter"] == stats["bytesOutCounter"]
    assert [each["producerName"] for each in stats["publishers"]] == ["p"]
    assert stats["earliestMsgPublishTimeInBacklogs"] == messages[10].publish_timestamp()
    [(name, sub)] = stats["subscriptions"].items()
    assert (name, sub["type"], sub["msgBacklog"], sub["isDurable"]) == (
        "sub",
        "Exclusive",
        11,
        True,
    )
    assert 0 < sub["backlogSize"] == stats["backlogSize"] < stats["storageSize"]
    assert [each["consumerName"] for each in sub["consumers"]] == ["c"]
    consumer.close()
    unload(brokers, topic)
    stats = done(brokers, "GET", topic_path(topic, "/stats"))
    assert (stats["msgInCounter"], stats["subscriptions"]["sub"]["msgBacklog"]) == (0, 11)


def test_what_was_sent_to_consumers_that_have_left_is_counted(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    send_all(client.create_producer(topic, batching_enabled=False), PAYLOADS)
    for _ in range(2):
        consumer = client.subscribe(topic, "sub", initial_position=pulsar.InitialPosition.Earliest)
        receive(consumer, 20)
        consumer.close()
    stats = done(brokers, "GET", topic_path(topic, "/stats"))
    assert (stats["msgOutCounter"], stats["subscriptions"]["sub"]["consumers"]) == (40, [])


@pytest.mark.promise("Statistics include the open ledger and consumers that have left")
def test_internal_statistics_count_the_open_ledger(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    path = topic_path(topic, "/internalStats")
    producer = client.create_producer(topic, batching_enabled=False)
    send_all(producer, PAYLOADS)
    producer.close()
    stats = done(brokers, "GET", path)
    assert (stats["numberOfEntries"], stats["entriesAddedCounter"]) == (20, 20)
    assert (stats["currentLedgerEntries"], stats["state"]) == (20, "LedgerOpened")
    size = stats["totalSize"]
    assert size > sum(map(len, PAYLOADS))
    assert [each["size"] for each in stats["ledgers"]] == [size] == [stats["currentLedgerSize"]]
    unload(brokers, topic)
    stats = done(brokers, "GET", path)
    assert (stats["numberOfEntries"], stats["totalSize"]) == (20, size)
    assert (stats["entriesAddedCounter"], stats["currentLedgerEntries"]) == (0, 0)


def test_internal_statistics_show_ledgers_and_cursors(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    sent = send_all(client.create_producer(topic), PAYLOADS)
    unload(brokers, topic)
    more = send_all(client.create_producer(topic), PAYLOADS)
    consumer = client.subscribe(topic, "sub", initial_position=pulsar.InitialPosition.Earliest)
    for _ in range(40):
        message = consumer.receive(20_000)
        if message.data() == PAYLOADS[2]:
            consumer.acknowledge(message)
    consumer.close()
    stats = done(brokers, "GET", topic_path(topic, "/internalStats"))
    entries = {each["ledgerId"]: each["entries"] for each in stats["ledgers"]}
    first, second = sent[0][0].ledger_id(), more[0][0].ledger_id()
    assert (entries[first], entries[second], stats["numberOfEntries"]) == (20, 20, 40)
    assert stats["lastConfirmedEntry"] == f"{second}:19"
    cursor = stats["cursors"]["sub"]
    assert cursor["individuallyDeletedMessages"] == (
        f"[({first}:1..{first}:2],({second}:1..{second}:2]]"
    )
    assert cursor["numberOfEntriesSinceFirstNotAckedMessage"] == 38


def test_rates_are_those_of_the_last_period() -> None:
    traffic = Traffic()
    traffic.add(10, 1000)
    assert (traffic.message_rate, traffic.byte_rate) == (0, 0)
    traffic.update_rates(2.0)
    assert (traffic.message_rate, traffic.byte_rate) == (5, 500)
    traffic.add(1, 10)
    traffic.update_rates(1.0)
    assert (traffic.message_rate, traffic.byte_rate, traffic.messages) == (1, 10, 11)
    traffic.update_rates(1.0)
    assert (traffic.message_rate, traffic.byte_rate) == (0, 0)


def test_size_of_a_backlog_is_estimated_within_a_ledger() -> None:
    links = [LedgerInfo(1, 4, 400, 1), LedgerInfo(5, 2, 1000, 1), LedgerInfo(7)]
    positions = [(-1, -1), (1, -1), (1, 1), (1, 3), (3, 0), (5, 0), (5, 1), (7, -1)]
    sizes = [size_after(links, position) for position in positions]
    assert sizes == [1400, 1400, 1200, 1000, 1000, 500, 0, 0]


def test_statistics_of_partitions_are_added_up_by_name() -> None:
    def part(earliest: int, rate: float) -> dict[str, object]:
        traffic = {"msgRateIn": rate, "msgThroughputIn": 10 * rate, "averageMsgSize": 10.0}
        return {
            **traffic,
            "msgInCounter": 3,
            "earliestMsgPublishTimeInBacklogs": earliest,
            "publishers": [{"producerName": "p", "producerId": 4, **traffic}],
            "subscriptions": {
                "s": {"msgBacklog": 2, "type": "Shared", "isDurable": True, "consumers": ["c"]}
            },
        }

    total = sum_partition_stats([part(-1, 1.0), part(70, 3.0), part(50, 0.0)])
    assert (total["msgRateIn"], total["averageMsgSize"], total["msgInCounter"]) == (4.0, 10.0, 9)
    assert total["earliestMsgPublishTimeInBacklogs"] == 50
    assert [(each["producerId"], each["msgRateIn"]) for each in total["publishers"]] == [(4, 4.0)]
    assert total["subscriptions"] == {
        "s": {
            "msgBacklog": 6,
            "type": "Shared",
            "isDurable": True,
            "consumers": ["c", "c", "c"],
        }
    }
