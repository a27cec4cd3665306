"""The HTTP paths for topics, including the paths defined in the other topic modules.

In Pulsar: `broker/admin/v2/PersistentTopics.java`, `broker/lookup/v2/TopicLookup.java`.
"""

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.operations.deletion import PartitionedDeletion, delete_topic
from labkit.system.broker.operations.partitions import (
    create_partitioned_topic,
    create_topic,
    grow_partitioned_topic,
)
from labkit.worlds.live.admin.call import (
    TOPIC,
    Call,
    RedirectError,
    Routes,
)
from labkit.worlds.live.admin.messages import MESSAGE_ROUTES
from labkit.worlds.live.admin.schemas import CLIENT_SCHEMA_REQUESTS, SCHEMA_ROUTES
from labkit.worlds.live.admin.stats import STATS_ROUTES
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


CLIENT_TOPIC_REQUESTS = (_lookup, _partitions, *CLIENT_SCHEMA_REQUESTS)
"""Requests that a client sends before it starts to produce or consume."""

_PERSISTENT = "/admin/v2/persistent"

TOPIC_ROUTES: Routes = {
    f"/lookup/v2/topic/persistent/{TOPIC}": {"GET": _lookup},
    f"{_PERSISTENT}/{TOPIC}/partitions": {
        "GET": _partitions,
        "PUT": lambda call: create_partitioned_topic(
            call.broker, call.topic, call.partition_count()
        ),
        "POST": lambda call: grow_partitioned_topic(
            call.broker, call.topic, call.partition_count()
        ),
        "DELETE": _delete_partitions,
    },
    **STATS_ROUTES,
    **MESSAGE_ROUTES,
    **SUBSCRIPTION_ROUTES,
    f"{_PERSISTENT}/{TOPIC}": {"PUT": _create_topic, "DELETE": _delete_topic},
    **SCHEMA_ROUTES,
}
