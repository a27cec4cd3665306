"""The HTTP paths for the schemas of a topic.

Over HTTP, schema types have the same names as in Pulsar's Java code, and schema definitions are
sent as text. The definition of a KeyValue schema is a JSON document, `{"key": ..., "value": ...}`,
in which "" represents a primitive type.

In Pulsar: `broker/admin/v2/SchemasResource.java`, `client/impl/schema/SchemaUtils.java`.
"""

import json
from typing import Any

from labkit.system.broker.policies import check_namespace_exists
from labkit.system.broker.schemas.registry import NO_NUMBER, NumberedSchema
from labkit.system.broker.schemas.types import (
    TYPES,
    InvalidDefinitionError,
    join_key_value,
    split_key_value,
    type_name,
)
from labkit.system.model.proto.pulsar_pb2 import Schema
from labkit.worlds.live.admin.call import TOPIC, BadRequestError, Call, Routes

_STORED_TYPES = [name for name in TYPES if name not in ("NONE", "AUTO_CONSUME")]


async def _topic(call: Call) -> str:
    """Return the topic in the path. The topic need not exist. Raises `BrokerError`."""
    await check_namespace_exists(call.broker.store, call.namespace)
    return call.topic


async def _schema(call: Call) -> object:
    number = int(call.names[3]) if len(call.names) > 3 else None
    return _answer(await call.broker.schemas.find(await _topic(call), number))


async def _schemas(call: Call) -> object:
    found = await call.broker.schemas.find_all(await _topic(call))
    return {"getSchemaResponses": [_answer(each) for each in found]}


async def _post(call: Call) -> object:
    version = await call.broker.schemas.register(await _topic(call), _payload(call))
    return {"version": {"version": int.from_bytes(version, "big")}}


async def _delete(call: Call) -> object:
    if not call.query_flag("force"):
        return {"version": await call.broker.schemas.delete_versions(await _topic(call))}
    await call.broker.schemas.delete(await _topic(call))
    return {"version": NO_NUMBER}


async def _compatibility(call: Call) -> object:
    strategy = await call.broker.schemas.check_compatible(await _topic(call), _payload(call))
    return {"compatibility": True, "schemaCompatibilityStrategy": strategy.value}


async def _version(call: Call) -> object:
    return {"version": await call.broker.schemas.number_of(await _topic(call), _payload(call))}


async def _metadata(call: Call) -> object:
    index = [
        {"ledgerId": each.position[0], "entryId": each.position[1], "version": each.number}
        for each in await call.broker.schemas.stored_versions(await _topic(call))
    ]
    return {"info": index[-1], "index": index}


def _payload(call: Call) -> Schema:
    """Parse the schema in the request's body. Raises `BadRequestError`."""
    body = call.body if isinstance(call.body, dict) else {}
    name, text = body.get("type"), body.get("schema")
    properties = body.get("properties") or {}
    are_texts = isinstance(properties, dict) and all(
        isinstance(value, str) for value in properties.values()
    )
    if not isinstance(name, str) or not isinstance(text, str) or not are_texts:
        raise BadRequestError(
            'the body must look like {"type": "AVRO", "schema": "...", "properties": {}}'
        )
    if name not in _STORED_TYPES:
        raise BadRequestError(
            f"unknown schema type {name[:80]}; valid types: {', '.join(_STORED_TYPES)}"
        )
    definition = _pair_bytes(text) if name == "KEY_VALUE" else text.encode()
    schema = Schema(name=call.names[2], type=Schema.Type.Name(TYPES[name]), schema_data=definition)
    for key, value in properties.items():
        schema.properties.add(key=key, value=value)
    return schema


def _answer(found: NumberedSchema) -> dict[str, Any]:
    pairs: Any = found.schema.properties
    return {
        "version": found.number,
        "type": type_name(found.schema),
        "timestamp": found.timestamp_ms,
        "data": _text(found.schema),
        "properties": {each.key: each.value for each in pairs},
    }


def _text(schema: Schema) -> str:
    if schema.type == Schema.KeyValue:
        try:
            parts = split_key_value(schema.schema_data)
            key, value = (json.loads(part) if part else "" for part in parts)
            return json.dumps({"key": key, "value": value}, separators=(",", ":"))
        except (InvalidDefinitionError, ValueError, RecursionError):
            pass  # Another program may have stored a definition that is not a pair.
    return schema.schema_data.decode(errors="replace")


def _pair_bytes(text: str) -> bytes:
    try:
        pair = json.loads(text)
        return join_key_value(_part_bytes(pair["key"]), _part_bytes(pair["value"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadRequestError(
            'a KEY_VALUE schema must look like {"key": ..., "value": ...}; use "" for a'
            " primitive type"
        ) from None


def _part_bytes(document: object) -> bytes:
    return b"" if document == "" else json.dumps(document, separators=(",", ":")).encode()


CLIENT_SCHEMA_REQUESTS = (_schema, _schemas, _version, _metadata)
"""Requests that a client sends before it produces or consumes."""

_TOPIC = f"/admin/v2/schemas/{TOPIC}"

SCHEMA_ROUTES: Routes = {
    f"{_TOPIC}/schema": {"GET": _schema, "POST": _post, "DELETE": _delete},
    rf"{_TOPIC}/schema/([0-9]{{1,100}})": {"GET": _schema},
    f"{_TOPIC}/schemas": {"GET": _schemas},
    f"{_TOPIC}/metadata": {"GET": _metadata},
    f"{_TOPIC}/version": {"POST": _version},
    f"{_TOPIC}/compatibility": {"POST": _compatibility},
}
