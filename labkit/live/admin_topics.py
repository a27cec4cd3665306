"""The HTTP paths for topics: lookup, partitions, schemas, and those of the modules it adds.

In Pulsar: `broker/admin/v2/PersistentTopics.java`, `SchemasResource.java`,
`broker/lookup/v2/TopicLookup.java`.
"""

from typing import Any

from labkit.live.admin_call import (
    TOPIC,
    BadRequestError,
    Call,
    ElsewhereError,
    Routes,
)
from labkit.live.admin_messages import MESSAGE_ROUTES
from labkit.live.admin_schemas import data_text, schema_of, type_name
from labkit.live.admin_stats import STATS_ROUTES
from labkit.live.admin_subscriptions import SUBSCRIPTION_ROUTES
from labkit.pulsar.administration import create_topic
from labkit.pulsar.deletion import PartitionedDeletion, delete_topic
from labkit.pulsar.errors import BrokerError
from labkit.pulsar.partitions import create_partitioned_topic, grow_partitioned_topic


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


async def _partitions(call: Call) -> object:
    create = call.flag("checkAllowAutoCreation")
    return {"partitions": await call.broker.partition_count(call.topic, create=create)}


async def _create_partitions(call: Call) -> None:
    await create_partitioned_topic(call.broker, call.topic, call.count())


async def _grow_partitions(call: Call) -> None:
    await grow_partitioned_topic(call.broker, call.topic, call.count())


async def _delete_partitions(call: Call) -> None:
    """Close the partitions served here, then redirect to the broker of another one; the last one
    deletes all.
    """
    deletion = await PartitionedDeletion.begin(call.broker, call.topic)
    left: ElsewhereError | None = None
    try:
        for partition in await deletion.left():
            try:
                await call.be_owner(partition)
            except ElsewhereError as elsewhere:
                left = elsewhere
            else:
                await deletion.close(partition, force=call.flag("force"))
    except BrokerError:
        await deletion.give_up()
        raise
    if left is not None:
        raise left
    await deletion.finish()


async def _create_topic(call: Call) -> None:
    await call.be_owner(call.topic)
    await create_topic(call.broker, call.topic)


async def _delete_topic(call: Call) -> None:
    await call.be_owner(call.topic)
    await delete_topic(call.broker, call.topic, force=call.flag("force"))


async def _schema(call: Call) -> object:
    version = b""
    if len(call.names) > 3:
        version = int(call.names[3]).to_bytes(8, "big")
    schema, found = await call.broker.schemas.get(call.topic, version)
    pairs: Any = schema.properties
    properties = {each.key: each.value for each in pairs}
    return {
        "version": int.from_bytes(found, "big"),
        "type": type_name(schema),
        "data": data_text(schema),
        "properties": properties,
    }


async def _post_schema(call: Call) -> object:
    body = call.body if isinstance(call.body, dict) else {}
    properties = body.get("properties", {})
    if not _is_schema(body, properties):
        raise BadRequestError('the body is {"type": "AVRO", "schema": "...", "properties": {}}')
    schema = schema_of(call.names[2], body["type"], body["schema"])
    for key, value in properties.items():
        schema.properties.add(key=key, value=value)
    version = await call.broker.schemas.register(call.topic, schema)
    return {"version": int.from_bytes(version, "big")}


def _is_schema(body: dict[str, Any], properties: object) -> bool:
    texts = [body.get("type"), body.get("schema")]
    if not isinstance(properties, dict):
        return False
    return all(isinstance(text, str) for text in (*texts, *properties.values()))


async def _delete_schema(call: Call) -> None:
    await call.broker.schemas.delete(call.topic)


TOPIC_QUESTIONS = (_lookup, _partitions, _schema)
"""Requests that a client sends before it produces or consumes."""

_PERSISTENT = "/admin/v2/persistent"
_SCHEMAS = f"/admin/v2/schemas/{TOPIC}/schema"

TOPIC_ROUTES: Routes = {
    f"/lookup/v2/topic/persistent/{TOPIC}": {"GET": _lookup},
    f"{_PERSISTENT}/{TOPIC}/partitions": {
        "GET": _partitions,
        "PUT": _create_partitions,
        "POST": _grow_partitions,
        "DELETE": _delete_partitions,
    },
    **STATS_ROUTES,
    **MESSAGE_ROUTES,
    **SUBSCRIPTION_ROUTES,
    f"{_PERSISTENT}/{TOPIC}": {"PUT": _create_topic, "DELETE": _delete_topic},
    _SCHEMAS: {"GET": _schema, "POST": _post_schema, "DELETE": _delete_schema},
    rf"{_SCHEMAS}/([0-9]{{1,18}})": {"GET": _schema},
}
