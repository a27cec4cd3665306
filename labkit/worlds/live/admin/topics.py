"""The HTTP paths for topics and their statistics, including the paths defined in the other topic
modules.

In Pulsar: `broker/admin/v2/PersistentTopics.java`, `broker/lookup/v2/TopicLookup.java`.
"""

from http import HTTPStatus
from typing import Any

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.operations.deletion import PartitionedDeletion, delete_topic
from labkit.system.broker.operations.partitions import (
    create_partitioned_topic,
    create_topic,
    grow_partitioned_topic,
)
from labkit.system.broker.operations.topic_stats import (
    internal_stats,
    sum_partition_stats,
    topic_stats,
)
from labkit.system.topic.names import partition_name
from labkit.worlds.live.admin.call import TOPIC, Call, RedirectError, Routes, StatusError
from labkit.worlds.live.admin.messages import MESSAGE_ROUTES, message_id_json
from labkit.worlds.live.admin.partitions import (
    all_partitions,
    check_not_partitioned,
    existing_partitions,
    forward_to_partitions,
    on_each_partition,
)
from labkit.worlds.live.admin.schemas import CLIENT_SCHEMA_REQUESTS, SCHEMA_ROUTES
from labkit.worlds.live.admin.subscriptions import SUBSCRIPTION_ROUTES


async def _lookup(call: Call) -> object:
    broker, serves = await call.broker.look_up(
        call.topic, authoritative=call.query_flag("authoritative")
    )
    if not serves:
        raise RedirectError(broker.web_url)
    return {
        "brokerUrl": broker.service_url,
        "brokerUrlTls": broker.service_url_tls,
        "httpUrl": broker.web_url,
        "httpUrlTls": broker.web_url_tls,
        "nativeUrl": broker.service_url,
    }


async def _partitions(call: Call) -> object:
    create = call.query_flag("checkAllowAutoCreation")
    return {"partitions": await call.broker.partition_count(call.topic, create=create)}


async def _delete_partitions(call: Call) -> None:
    """Close this broker's partitions, then redirect the client to the next broker. The last broker
    deletes all partitions.
    """
    deletion = await PartitionedDeletion.begin(call.broker, call.topic)
    redirect: RedirectError | None = None
    try:
        for partition in await deletion.unmarked_partitions():
            try:
                await call.require_owner(partition)
            except RedirectError as elsewhere:
                redirect = elsewhere
            else:
                await deletion.close(partition, force=call.query_flag("force"))
    except BrokerError:
        await deletion.cancel()
        raise
    if redirect is not None:
        raise redirect
    await deletion.finish()


async def _create_topic(call: Call) -> None:
    await call.require_owner(call.topic)
    await create_topic(call.broker, call.topic)


async def _delete_topic(call: Call) -> None:
    await call.require_owner(call.topic)
    await delete_topic(call.broker, call.topic, force=call.query_flag("force"))


# Statistics, termination and unloading


async def _stats(call: Call) -> object:
    topic = await call.open_topic()
    return await topic_stats(topic, with_earliest_time=call.query_flag("getEarliestTimeInBacklog"))


async def _internal_stats(call: Call) -> object:
    return internal_stats(await call.open_topic())


async def _partitioned_stats(call: Call) -> object:
    parts = await _of_partitions(call, "stats")
    total = sum_partition_stats(parts["partitions"].values())
    if call.options.get("perPartition", "true").lower() != "true":
        parts["partitions"] = {}
    return {**total, **parts}


async def _of_partitions(call: Call, rest: str) -> dict[str, Any]:
    partitions = await all_partitions(call)
    if not partitions:
        raise StatusError(HTTPStatus.NOT_FOUND, f"partitioned topic {call.topic} does not exist")
    used = await existing_partitions(call, partitions)
    answers = await forward_to_partitions(call, used, rest=rest)
    return {
        "metadata": {"partitions": len(partitions), "deleted": False},
        "partitions": {partition_name(call.topic, at): each for at, each in answers.items()},
    }


async def _terminate(call: Call) -> object:
    await check_not_partitioned(call, "terminate all partitions at once, or")
    topic = await call.open_topic()
    return message_id_json(await topic.terminate(), topic)


async def _terminate_partitions(call: Call) -> object:
    partitions = await all_partitions(call)
    if not partitions:
        raise StatusError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{call.topic} is not partitioned: terminate it without /partitions",
        )
    # Partitions that do not exist yet must also be terminated, so create them first.
    used = await existing_partitions(call, partitions)
    unused = [each for each in partitions if each not in used]
    await forward_to_partitions(call, unused, rest="", method="PUT")
    return await forward_to_partitions(call, partitions, rest="terminate", method="POST")


async def _unload(call: Call) -> None:
    await call.open_topic()
    await call.broker.unload(call.topic)


CLIENT_TOPIC_REQUESTS = (_lookup, _partitions, *CLIENT_SCHEMA_REQUESTS)
"""Requests that a client sends before it starts to produce or consume."""

_TOPIC = f"/admin/v2/persistent/{TOPIC}"

TOPIC_ROUTES: Routes = {
    f"/lookup/v2/topic/persistent/{TOPIC}": {"GET": _lookup},
    f"{_TOPIC}/partitions": {
        "GET": _partitions,
        "PUT": lambda call: create_partitioned_topic(
            call.broker, call.topic, call.partition_count()
        ),
        "POST": lambda call: grow_partitioned_topic(
            call.broker, call.topic, call.partition_count()
        ),
        "DELETE": _delete_partitions,
    },
    f"{_TOPIC}/stats": {"GET": _stats},
    f"{_TOPIC}/internalStats": {"GET": _internal_stats},
    f"{_TOPIC}/partitioned-stats": {"GET": _partitioned_stats},
    f"{_TOPIC}/partitioned-internalStats": {
        "GET": lambda call: _of_partitions(call, "internalStats")
    },
    f"{_TOPIC}/terminate": {"POST": _terminate},
    f"{_TOPIC}/terminate/partitions": {"POST": _terminate_partitions},
    f"{_TOPIC}/unload": {"PUT": on_each_partition(_unload)},
    **MESSAGE_ROUTES,
    **SUBSCRIPTION_ROUTES,
    _TOPIC: {"PUT": _create_topic, "DELETE": _delete_topic},
    **SCHEMA_ROUTES,
}
