"""Validates schemas and checks whether a new schema is compatible with earlier versions.

    BACKWARD    the new schema can read data written with the previous one
    FORWARD     the previous schema can read data written with the new one
    FULL        both

The TRANSITIVE variants compare the new schema with all earlier versions. Only AVRO, JSON, KeyValue
and PROTOBUF_NATIVE schemas are compared. A new schema of any other type only needs to have the same
type as the old one.

In Pulsar: `broker/service/schema/SchemaRegistryServiceImpl.java`, the `validator/` directory next
to it, and the classes `...SchemaCompatibilityCheck.java`.
"""

import json
from base64 import b64decode
from enum import Enum
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.policies import NamespacePolicies
from labkit.system.broker.schemas.types import InvalidDefinitionError, key_value_schemas, type_name
from labkit.system.model.proto.pulsar_pb2 import Schema, ServerError

_AVRO_COMPARED = (Schema.Avro, Schema.Json)
RECORDS = (*_AVRO_COMPARED, Schema.Protobuf)
"""Types whose definition is an Avro schema."""
_ANY_DEFINITION = (Schema.Schemaless, Schema.External)
_NO_DEFINITION = b"null"
"""The Python client sends this as the definition of a STRING schema."""


class Strategy(Enum):
    """Schema compatibility strategies, with Pulsar's names."""

    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")

    @property
    def for_consumers(self) -> "Strategy":
        """The strategy for a consumer's schema, which must be able to read producers' data."""
        compared_with_latest_only = (Strategy.FORWARD, Strategy.FORWARD_TRANSITIVE, Strategy.FULL)
        return Strategy.BACKWARD if self in compared_with_latest_only else self


UNDEFINED = "UNDEFINED"
_DEFAULT_STRATEGY = Strategy.FULL
_LEGACY_STRATEGIES = {
    "AutoUpdateDisabled": Strategy.ALWAYS_INCOMPATIBLE,
    "AlwaysCompatible": Strategy.ALWAYS_COMPATIBLE,
    "Backward": Strategy.BACKWARD,
    "BackwardTransitive": Strategy.BACKWARD_TRANSITIVE,
    "Forward": Strategy.FORWARD,
    "ForwardTransitive": Strategy.FORWARD_TRANSITIVE,
    "Full": Strategy.FULL,
    "FullTransitive": Strategy.FULL_TRANSITIVE,
}


def compatibility_strategy(namespace: str, policies: NamespacePolicies) -> Strategy:
    """Raise `BrokerError` if the strategy is unknown. Old Pulsar versions use another key."""
    name = policies.schema_strategy
    if name in (None, UNDEFINED):
        name = policies.legacy_schema_strategy
    if name is None:
        return _DEFAULT_STRATEGY
    found = {**Strategy.__members__, **_LEGACY_STRATEGIES}.get(name)
    if found is None:
        raise BrokerError(
            ServerError.MetadataError,
            f"unknown schema compatibility strategy {name[:80]!r} in the policies of"
            f" {namespace}; valid strategies: {', '.join(Strategy.__members__)}",
        )
    return found


class IncompatibleSchemaError(BrokerError):
    def __init__(self, message: str) -> None:
        super().__init__(ServerError.IncompatibleSchema, message)


class InvalidSchemaDataError(IncompatibleSchemaError):
    """A schema's definition does not match its type."""


def check_definition(schema: Schema) -> None:
    """Raise `InvalidSchemaDataError` if the definition does not match the schema's type."""
    try:
        _check_definition(schema)
    except InvalidDefinitionError as error:
        raise InvalidSchemaDataError(
            f"invalid definition of a schema of type {type_name(schema)}: {error}"
        ) from None


def incompatibility(old: Schema, new: Schema, strategy: Strategy) -> str:
    """Return why the new schema is incompatible with the old one, or "" if it is compatible."""
    if strategy is Strategy.ALWAYS_COMPATIBLE:
        return ""
    if new.type != old.type:
        return f"expected type {type_name(old)}, got {type_name(new)}"
    if new.schema_data == old.schema_data and new.type != Schema.KeyValue:
        return ""
    if strategy is Strategy.ALWAYS_INCOMPATIBLE:
        return "the strategy allows no other schema"
    try:
        return _definition_incompatibility(old, new, strategy)
    except InvalidDefinitionError as error:
        return f"one of the definitions is invalid: {error}"


def _check_definition(schema: Schema) -> None:
    kind, definition = schema.type, schema.schema_data
    if kind in RECORDS:
        from labkit.system.broker.schemas.avro_compatibility import parse_definition

        if parse_definition(definition).type == "union" and kind == Schema.Avro:
            raise InvalidDefinitionError("it is a union")
    elif kind == Schema.KeyValue:
        for part in key_value_schemas(schema):
            check_definition(part)
    elif kind == Schema.ProtobufNative:
        root_message(definition)
    elif (
        definition
        and kind not in _ANY_DEFINITION
        and (kind, definition) != (Schema.String, _NO_DEFINITION)
    ):
        raise InvalidDefinitionError(
            f"a schema of this type must not have a definition, got {len(definition)} bytes"
        )


def _definition_incompatibility(old: Schema, new: Schema, strategy: Strategy) -> str:
    if new.type in _AVRO_COMPARED:
        return _record_incompatibility(old.schema_data, new.schema_data, strategy)
    if new.type == Schema.KeyValue:
        pairs = zip(key_value_schemas(old), key_value_schemas(new), strict=True)
        return next(filter(None, (incompatibility(*pair, strategy) for pair in pairs)), "")
    if new.type == Schema.ProtobufNative:
        names = root_message(old.schema_data), root_message(new.schema_data)
        return "" if names[0] == names[1] else f"expected message {names[0]}, got {names[1]}"
    return ""


def _record_incompatibility(old: bytes, new: bytes, strategy: Strategy) -> str:
    from labkit.system.broker.schemas.avro_compatibility import (
        parse_definition,
        read_incompatibility,
    )

    older, newer = parse_definition(old), parse_definition(new)
    problem = ""
    if not strategy.value.startswith("FORWARD"):
        problem = read_incompatibility(newer, older)
    if not problem and not strategy.value.startswith("BACKWARD"):
        problem = read_incompatibility(older, newer)
    return problem


def is_same_definition(one: Schema, other: Schema) -> bool:
    """Return whether schemas are equal, for records regardless of space, comments and aliases."""
    if one.type != other.type or one.schema_data == other.schema_data:
        return one.type == other.type
    if one.type not in RECORDS:
        return False
    try:
        parsed = [
            json.loads(schema.schema_data, object_hook=_without_comments_and_aliases)
            for schema in (one, other)
        ]
    except (ValueError, RecursionError):
        return False
    return bool(parsed[0] == parsed[1])


def _without_comments_and_aliases(node: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key not in ("doc", "aliases")}


def root_message(definition: bytes) -> str:
    """Return the name of the message that a PROTOBUF_NATIVE schema defines."""
    try:
        document = json.loads(definition)
        files = FileDescriptorSet.FromString(b64decode(document["fileDescriptorSet"])).file
        root = next(each for each in files if each.name == document["rootFileDescriptorName"])
        name = str(document["rootMessageTypeName"])
        messages = root.message_type
        for part in name.removeprefix(f"{root.package}.").split("."):
            messages = next(each for each in messages if each.name == part).nested_type
    except (ValueError, KeyError, TypeError, RecursionError, StopIteration, DecodeError):
        raise InvalidDefinitionError(
            "expected a JSON object with a fileDescriptorSet, a rootFileDescriptorName and a"
            " rootMessageTypeName that exists in that file"
        ) from None
    return name
