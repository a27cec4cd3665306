"""The HTTP paths for topics: lookup, partitions, statistics, schemas.

In Pulsar: `broker/admin/v2/PersistentTopics.java`, `broker/lookup/v2/TopicLookup.java`.
"""

from labkit.live.admin_call import (
    NAMESPACE,
    TOPIC,
    Call,
    ElsewhereError,
    Routes,
)
from labkit.live.admin_schemas import SCHEMA_QUESTIONS, SCHEMA_ROUTES
from labkit.pulsar.administration import (
    create_partitioned_topic,
    create_topic,
    delete_topic,
    forget_partitions,
    grow_partitioned_topic,
    internal_stats,
    partitions_to_delete,
)
from labkit.pulsar.namespaces import partitioned_topics_of, topics_of
from labkit.pulsar.positions import last_message_id


async def _lookup(call: Call) -> object:
    broker, serves = await call.broker.find(call.topic, authoritative=call.flag("authoritative"))
    if not serves:
        raise ElsewhereError(broker.web_url)
    return {
        "brokerUrl": broker.service_url,
        "brokerUrlTls": broker.service_url_tls,
        "httpUrl": broker.web_url,
        "httpUrlTls": broker.web_url_tls,
        "nativeUrl": broker.service_url,
    }


async def _topics(call: Call) -> object:
    if call.options.get("mode") == "NON_PERSISTENT":
        return []
    return await topics_of(call.broker.store, call.namespace)


async def _partitioned_topics(call: Call) -> object:
    return await partitioned_topics_of(call.broker.store, call.namespace)


async def _partitions(call: Call) -> object:
    create = call.flag("checkAllowAutoCreation")
    return {"partitions": await call.broker.partition_count(call.topic, create=create)}


async def _create_partitions(call: Call) -> None:
    await create_partitioned_topic(call.broker, call.topic, call.count())


async def _grow_partitions(call: Call) -> None:
    await grow_partitioned_topic(call.broker, call.topic, call.count())


async def _delete_partitions(call: Call) -> None:
    """Delete the partitions served here, then redirect to the broker of another one."""
    left: ElsewhereError | None = None
    for partition in await partitions_to_delete(call.broker, call.topic):
        try:
            await call.be_owner(partition)
        except ElsewhereError as elsewhere:
            left = elsewhere
        else:
            await delete_topic(call.broker, partition, force=call.flag("force"))
    if left is not None:
        raise left
    await forget_partitions(call.broker, call.topic)


async def _create_topic(call: Call) -> None:
    await call.be_owner(call.topic)
    await create_topic(call.broker, call.topic)


async def _delete_topic(call: Call) -> None:
    await call.be_owner(call.topic)
    await delete_topic(call.broker, call.topic, force=call.flag("force"))


async def _unload_topic(call: Call) -> None:
    await call.open_topic()
    await call.broker.unload(call.topic)


async def _internal_stats(call: Call) -> object:
    return internal_stats(await call.open_topic())


async def _last_message_id(call: Call) -> object:
    topic = await call.open_topic()
    last = await last_message_id(topic.ledger, topic.partition)
    return {
        "ledgerId": topic.ledger.last_confirmed[0],
        "entryId": topic.ledger.last_confirmed[1],
        "partitionIndex": last.partition,
    }


async def _subscriptions(call: Call) -> object:
    return [each.name for each in (await call.open_topic()).subscriptions.all]


async def _delete_subscription(call: Call) -> None:
    subscriptions = (await call.open_topic()).subscriptions
    subscription = subscriptions.find(call.names[3])
    await subscriptions.unsubscribe(subscription, None, force=call.flag("force"))


TOPIC_QUESTIONS = (_lookup, _partitions, *SCHEMA_QUESTIONS)
NAMESPACE_QUESTIONS = (_topics,)
"""Requests that a client sends before it produces or consumes."""

_PERSISTENT = "/admin/v2/persistent"

TOPIC_ROUTES: Routes = {
    f"/lookup/v2/topic/persistent/{TOPIC}": {"GET": _lookup},
    f"/admin/v2/namespaces/{NAMESPACE}/topics": {"GET": _topics},
    f"{_PERSISTENT}/{NAMESPACE}": {"GET": _topics},
    f"{_PERSISTENT}/{NAMESPACE}/partitioned": {"GET": _partitioned_topics},
    f"{_PERSISTENT}/{TOPIC}/partitions": {
        "GET": _partitions,
        "PUT": _create_partitions,
        "POST": _grow_partitions,
        "DELETE": _delete_partitions,
    },
    f"{_PERSISTENT}/{TOPIC}/unload": {"PUT": _unload_topic},
    f"{_PERSISTENT}/{TOPIC}/internalStats": {"GET": _internal_stats},
    f"{_PERSISTENT}/{TOPIC}/lastMessageId": {"GET": _last_message_id},
    f"{_PERSISTENT}/{TOPIC}/subscriptions": {"GET": _subscriptions},
    f"{_PERSISTENT}/{TOPIC}/subscription/([^/]+)": {"DELETE": _delete_subscription},
    f"{_PERSISTENT}/{TOPIC}": {"PUT": _create_topic, "DELETE": _delete_topic},
    **SCHEMA_ROUTES,
}
