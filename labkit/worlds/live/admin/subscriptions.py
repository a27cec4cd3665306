"""The HTTP paths for a topic's subscriptions: create, delete, skip, reset, expire.

A request for a partitioned topic applies to each partition that has the subscription.

In Pulsar: `broker/admin/v2/PersistentTopics.java`.
"""

from http import HTTPStatus

from labkit.system.broker.dispatch.entry import read_entry
from labkit.system.broker.expiry import expire
from labkit.system.broker.positions import nth_unacknowledged
from labkit.system.broker.subscription import Subscription
from labkit.system.broker.topics import BrokerTopic
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.names import check_name
from labkit.worlds.live.admin.call import TOPIC, BadRequestError, Call, Routes, StatusError
from labkit.worlds.live.admin.messages import parse_position
from labkit.worlds.live.admin.partitions import (
    all_partitions,
    check_not_partitioned,
    existing_partitions,
    forward_to_partitions,
    on_each_partition,
)

_MAX_BATCH_SIZE = 64 * 1024


async def _find(call: Call) -> tuple[BrokerTopic, Subscription]:
    topic = await call.open_topic()
    return topic, topic.subscriptions.find(call.subscription)


async def _subscriptions(call: Call) -> object:
    if partitions := await all_partitions(call):
        answers = await forward_to_partitions(call, await existing_partitions(call, partitions))
        return sorted({name for names in answers.values() for name in names})
    return [each.name for each in (await call.open_topic()).subscriptions.all]


async def _create(call: Call) -> None:
    body = "latest" if call.body is None else call.body
    position = parse_position(body)
    properties = body.get("properties") or {} if isinstance(body, dict) else {}
    if not isinstance(properties, dict) or not all(isinstance(v, str) for v in properties.values()):
        raise BadRequestError('properties must be strings: {"properties": {"key": "value"}}')
    if call.query_flag("replicated"):
        raise StatusError(
            HTTPStatus.NOT_IMPLEMENTED, "replicated subscriptions are not supported here"
        )
    check_name(call.subscription, "subscription")
    # This creates a missing topic if the configuration allows it.
    if count := await call.broker.partition_count(call.topic, create=True):
        await forward_to_partitions(call, range(count), HTTPStatus.CONFLICT)
        return
    await call.require_owner(call.topic)
    topic = await call.broker.topic(call.topic)
    if not await topic.subscriptions.create(call.subscription, position, properties):
        raise StatusError(
            HTTPStatus.CONFLICT, f"{call.topic} already has a subscription {call.subscription!r}"
        )


async def _delete(call: Call) -> None:
    topic, subscription = await _find(call)
    await topic.subscriptions.unsubscribe(subscription, None, force=call.query_flag("force"))


async def _properties(call: Call) -> object:
    if partitions := await all_partitions(call):
        used = await existing_partitions(call, partitions)
        answers = await forward_to_partitions(call, used, HTTPStatus.NOT_FOUND)
        properties: dict[str, str] = {}
        for each in answers.values():
            properties.update(each)
        return properties
    _, subscription = await _find(call)
    return dict(subscription.cursor.cursor_properties)


# Skip and expire


async def _skip(call: Call) -> None:
    await check_not_partitioned(call, "skip messages of")
    topic, subscription = await _find(call)
    count = call.path_number(4)
    if count > 0:
        last = nth_unacknowledged(topic.ledger, subscription.cursor, count)
        await subscription.skip(last or topic.ledger.last_confirmed)


async def _skip_all(call: Call) -> None:
    topic, subscription = await _find(call)
    await subscription.skip(topic.ledger.last_confirmed)


async def _expire(call: Call) -> None:
    topic, subscription = await _find(call)
    if not await expire(topic.ledger, subscription, _published_before(call, call.path_number(4))):
        raise StatusError(
            HTTPStatus.CONFLICT, f"{subscription.name!r} has no messages left to expire"
        )


async def _expire_all(call: Call) -> None:
    topic = await call.open_topic()
    for subscription in topic.subscriptions.all:
        await expire(topic.ledger, subscription, _published_before(call, call.path_number(3)))


def _published_before(call: Call, age_s: int) -> int:
    if age_s < 0:
        raise BadRequestError(f"the age of the messages must be at least 0 seconds, got {age_s}")
    return call.broker.client.wall_clock_ms() - age_s * 1000


async def _expire_up_to(call: Call) -> None:
    """Acknowledge all messages up to the message in the request's body. That message is included
    unless the body sets `excluded`.
    """
    await check_not_partitioned(call, "expire messages of")
    topic, subscription = await _find(call)
    if parse_position(call.body) > topic.ledger.last_confirmed:
        raise StatusError(HTTPStatus.CONFLICT, f"{call.topic} has no message at this position yet")
    first_kept, batch = await _start(call, topic, after=not _excluded(call))
    if (last := topic.ledger.chain.last_before(first_kept)) is not None:
        await subscription.skip(last)
    if batch is not None:
        subscription.cursor.acknowledge_batch(first_kept, *batch)


# Reset


async def _reset_to_time(call: Call) -> None:
    topic, subscription = await _find(call)
    await topic.subscriptions.seek_to_time(subscription, call.path_number(4))


async def _reset_to_position(call: Call) -> None:
    """Reset the cursor to the message in the request's body, or to the next message if the body
    sets `excluded`.
    """
    await check_not_partitioned(call, "reset the cursor of")
    topic, subscription = await _find(call)
    start, batch = await _start(call, topic, after=_excluded(call))
    await topic.subscriptions.seek(subscription, start, batch)


def _excluded(call: Call) -> bool:
    return isinstance(call.body, dict) and call.body.get("excluded") is True


async def _start(
    call: Call, topic: BrokerTopic, *, after: bool
) -> tuple[Position, tuple[int, int] | None]:
    """Return the position of the message in the request's body or, with `after`, of the next
    message.

    If that message is not the first in its batch, also return the batch size, and a bit set of this
    message and the later ones in the batch. Raises `BadRequestError`.
    """
    position = parse_position(call.body)
    index = call.body.get("batchIndex", -1) if isinstance(call.body, dict) else -1
    if not isinstance(index, int) or isinstance(index, bool):
        raise BadRequestError("batchIndex must be a number")
    if index >= 0:
        size = await _batch_size(topic, position)
        before = index + after
        if 0 < before < size:
            return position, (size, (1 << size) - (1 << before))
        after = size > 0 and before >= size
    return (topic.ledger.chain.next_position(position) if after else position), None


async def _batch_size(topic: BrokerTopic, position: Position) -> int:
    """Return the number of messages in the entry, or 0 if no entry exists at the position."""
    stored = await topic.ledger.read(position, 1, 1)
    if not stored or stored[0].position != position:
        return 0
    return min(read_entry(stored[0]).message_count, _MAX_BATCH_SIZE)


_TOPIC = f"/admin/v2/persistent/{TOPIC}"
_SUBSCRIPTION = f"{_TOPIC}/subscription/([^/]+)"

SUBSCRIPTION_ROUTES: Routes = {
    f"{_TOPIC}/subscriptions": {"GET": _subscriptions},
    _SUBSCRIPTION: {"PUT": _create, "DELETE": on_each_partition(_delete, HTTPStatus.NOT_FOUND)},
    f"{_SUBSCRIPTION}/properties": {"GET": _properties},
    f"{_SUBSCRIPTION}/skip/([^/]+)": {"POST": _skip},
    f"{_SUBSCRIPTION}/skip_all": {"POST": on_each_partition(_skip_all, HTTPStatus.NOT_FOUND)},
    f"{_SUBSCRIPTION}/resetcursor/([^/]+)": {
        "POST": on_each_partition(_reset_to_time, HTTPStatus.NOT_FOUND)
    },
    f"{_SUBSCRIPTION}/resetcursor": {"POST": _reset_to_position},
    f"{_SUBSCRIPTION}/expireMessages/([^/]+)": {
        "POST": on_each_partition(_expire, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
    },
    f"{_SUBSCRIPTION}/expireMessages": {"POST": _expire_up_to},
    f"{_TOPIC}/all_subscription/expireMessages/([^/]+)": {"POST": on_each_partition(_expire_all)},
}
