"""Topic statistics as JSON, with Pulsar's field names.

Counters start at 0 when the topic is opened. Rates are measured over the last complete keep-alive
interval (`keepAliveIntervalSeconds`). Fields that this broker does not measure are omitted.

In Pulsar: `pulsar-common/.../stats/TopicStatsImpl.java`, `SubscriptionStatsImpl.java`,
`PersistentTopicInternalStats.java`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.entry import read_entry
from labkit.system.broker.positions import nth_unacknowledged
from labkit.system.broker.subscription import Subscription
from labkit.system.broker.topics import BrokerTopic, ConnectedProducer
from labkit.system.broker.traffic import Traffic
from labkit.system.model.proto.pulsar_pb2 import CommandSubscribe, ProducerAccessMode
from labkit.system.topic.chain.ledger_chain import LedgerInfo, Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger

Stats = dict[str, Any]
"""A JSON object."""

NO_TIME = -1
"""Reported as the earliest publish time of an empty backlog."""


async def topic_stats(topic: BrokerTopic, *, with_earliest_time: bool) -> Stats:
    """With `with_earliest_time`, read the first entry of each backlog for its publish time."""
    ledger = topic.ledger
    times = {}
    if with_earliest_time:
        times = {each.name: await _earliest_time(each, ledger) for each in topic.subscriptions.all}
    # Do not await anything after this point, so that all numbers are from the same moment.
    subscriptions = {
        each.name: _subscription_stats(each, ledger, times.get(each.name, 0))
        for each in topic.subscriptions.all
    }
    parts = list(subscriptions.values())
    return {
        **_incoming_stats(topic.incoming),
        "msgInCounter": topic.incoming.messages,
        "bytesInCounter": topic.incoming.bytes,
        **_sums(parts, ("msgRateOut", "msgThroughputOut", "msgOutCounter", "bytesOutCounter")),
        "storageSize": sum(each.size_bytes for each in ledger.ledgers),
        "backlogSize": max((each["backlogSize"] for each in parts), default=0),
        "earliestMsgPublishTimeInBacklogs": _earliest(times.values()),
        "publishers": [_publisher_stats(each) for each in topic.producers.values()],
        "subscriptions": subscriptions,
        "replication": {},
        "deduplicationStatus": "Enabled" if topic.publisher.deduplication else "Disabled",
    }


def _incoming_stats(traffic: Traffic) -> Stats:
    average = traffic.byte_rate / traffic.message_rate if traffic.message_rate else 0.0
    return {
        "msgRateIn": traffic.message_rate,
        "msgThroughputIn": traffic.byte_rate,
        "averageMsgSize": average,
    }


def _publisher_stats(producer: ConnectedProducer) -> Stats:
    return {
        "producerName": producer.name,
        "producerId": producer.producer_id,
        "accessMode": ProducerAccessMode.Name(producer.access_mode),
        **_incoming_stats(producer.traffic),
    }


def _subscription_stats(
    subscription: Subscription, ledger: ManagedLedger, earliest_time_ms: int
) -> Stats:
    cursor, departed, kind = subscription.cursor, subscription.departed_traffic, subscription.type
    consumers = [_consumer_stats(each) for each in subscription.consumers]
    sums = _sums(
        consumers,
        ("msgRateOut", "msgThroughputOut", "msgOutCounter", "bytesOutCounter", "unackedMessages"),
    )
    sums["msgOutCounter"] += departed.messages
    sums["bytesOutCounter"] += departed.bytes
    return {
        **sums,
        "type": CommandSubscribe.SubType.Name(kind.sub_type) if kind is not None else "None",
        "msgBacklog": cursor.unacknowledged_count,
        "backlogSize": size_after(ledger.ledgers, cursor.mark_delete),
        "earliestMsgPublishTimeInBacklog": earliest_time_ms,
        "isDurable": subscription.is_durable,
        "isReplicated": False,
        "allowOutOfOrderDelivery": kind is not None and not kind.keeps_order,
        "nonContiguousDeletedMessagesRanges": len(cursor.state.ranges),
        "subscriptionProperties": dict(cursor.cursor_properties),
        "consumers": consumers,
    }


def _consumer_stats(consumer: Consumer) -> Stats:
    return {
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": len(consumer.pending_acks),
        "msgRateOut": consumer.traffic.message_rate,
        "msgThroughputOut": consumer.traffic.byte_rate,
        "msgOutCounter": consumer.traffic.messages,
        "bytesOutCounter": consumer.traffic.bytes,
    }


def _sums(parts: Sequence[Stats], names: Iterable[str]) -> Stats:
    return {name: sum(each[name] for each in parts) for name in names}


async def _earliest_time(subscription: Subscription, ledger: ManagedLedger) -> int:
    first = nth_unacknowledged(ledger, subscription.cursor, 1)
    if first is None or not (stored := await ledger.read(first, 1, 1)):
        return NO_TIME
    return read_entry(stored[0]).metadata.publish_time


def _earliest(times_ms: Iterable[int]) -> int:
    times_ms = list(times_ms)
    known = [time_ms for time_ms in times_ms if time_ms != NO_TIME]
    return min(known, default=NO_TIME if times_ms else 0)


def size_after(ledgers: Iterable[LedgerInfo], position: Position) -> int:
    """Estimate the bytes stored after the position, using each ledger's average entry size."""
    size = 0
    for each in ledgers:
        if each.ledger_id > position[0]:
            size += each.size_bytes
        elif each.ledger_id == position[0] and each.entry_count:
            left = each.entry_count - position[1] - 1
            size += each.size_bytes * left // each.entry_count
    return size


# Partitioned topics

_TIMES = ("earliestMsgPublishTimeInBacklog", "earliestMsgPublishTimeInBacklogs")


def sum_partition_stats(parts: Iterable[Stats]) -> Stats:
    """Add up partition statistics, merging producers and subscriptions by name."""
    total: Stats = {"publishers": [], "subscriptions": {}}
    for part in parts:
        _add(total, part)
    publishers: dict[str, Stats] = {}
    for publisher in total["publishers"]:
        _add(publishers.setdefault(publisher["producerName"], {}), publisher)
    return {**total, "publishers": list(publishers.values())}


def _add(total: Stats, part: Stats) -> None:
    for name, value in part.items():
        before = total.get(name)
        if isinstance(value, dict):
            _add(total.setdefault(name, {}), value)
        elif before is None or isinstance(value, (bool, str)) or name == "producerId":
            total[name] = value
        elif name in _TIMES:
            total[name] = _earliest((before, value)) if before else value
        else:
            total[name] = before + value
    if total.get("msgRateIn"):
        total["averageMsgSize"] = total["msgThroughputIn"] / total["msgRateIn"]


# The managed ledger


def internal_stats(topic: BrokerTopic) -> Stats:
    ledger = topic.ledger
    ledgers = ledger.ledgers
    open_ledgers = ledgers[-1:] if ledger.writer is not None else ()
    state = "Terminated" if ledger.terminated is not None else "LedgerOpened"
    return {
        "entriesAddedCounter": ledger.queue.stored_count,
        "numberOfEntries": sum(each.entry_count for each in ledgers),
        "totalSize": sum(each.size_bytes for each in ledgers),
        "currentLedgerEntries": sum(each.entry_count for each in open_ledgers),
        "currentLedgerSize": sum(each.size_bytes for each in open_ledgers),
        "lastConfirmedEntry": _format_position(ledger.last_confirmed),
        "state": "Closed" if topic.is_ended else state,
        "ledgers": [
            {"ledgerId": each.ledger_id, "entries": each.entry_count, "size": each.size_bytes}
            for each in ledgers
        ],
        "cursors": {name: _cursor_stats(cursor) for name, cursor in ledger.cursors.items()},
        "properties": dict(ledger.properties),
    }


def _cursor_stats(cursor: ManagedCursor) -> Stats:
    ranges = cursor.state.ranges
    formatted = (f"({_format_position(r.lower)}..{_format_position(r.upper)}]" for r in ranges)
    return {
        "markDeletePosition": _format_position(cursor.mark_delete),
        "individuallyDeletedMessages": f"[{','.join(formatted)}]",
        "numberOfEntriesSinceFirstNotAckedMessage": cursor.unacknowledged_count,
        "totalNonContiguousDeletedMessagesRange": len(ranges),
        "properties": dict(cursor.properties),
    }


def _format_position(position: Position) -> str:
    return f"{position[0]}:{position[1]}"
