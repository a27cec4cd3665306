"""Which schemas may be stored, and which of them fit the ones before.

What `Strategy` asks of a new schema: BACKWARD, that it reads what the old one writes; FORWARD, that
the old one reads what it writes; FULL, both; with TRANSITIVE, of all old schemas instead of the
newest.  Only definitions of records are compared; of all other types every definition fits.

In Pulsar: `broker/service/schema/SchemaRegistryServiceImpl.java`, `validator/` beside it, and the
classes `...SchemaCompatibilityCheck.java`.
"""

import json
from base64 import b64decode
from enum import Enum
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.schemas.types import (
    InvalidDefinitionError,
    NotAPairError,
    pair_of,
    type_name,
)
from labkit.system.model.proto.pulsar_pb2 import Schema, ServerError

_COMPARED = (Schema.Avro, Schema.Json)
RECORDS = (*_COMPARED, Schema.Protobuf)
"""Types whose definition is an Avro schema."""
_FREE = (Schema.Schemaless, Schema.External)
_NO_DEFINITION = b"null"
"""The Python client's definition of a STRING schema."""


class Strategy(Enum):
    """What is asked of a new schema, by Pulsar's names."""

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
        """Whether all old schemas count, and not the newest alone."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def for_consumers(self) -> "Strategy":
        """What is asked of a consumer's schema: to read what producers write."""
        only_newest = (Strategy.FORWARD, Strategy.FORWARD_TRANSITIVE, Strategy.FULL)
        return Strategy.BACKWARD if self in only_newest else self


class InvalidSchemaDataError(BrokerError):
    """The definition of a schema does not fit its type."""


def check_definition(schema: Schema) -> None:
    """Raises `InvalidSchemaDataError` for a definition that does not fit the schema's type."""
    try:
        problem = _definition_problem(schema)
    except (InvalidDefinitionError, NotAPairError) as error:
        problem = str(error)
    if problem:
        raise InvalidSchemaDataError(
            ServerError.IncompatibleSchema,
            f"the definition is not one of a schema of type {type_name(schema)}: {problem}",
        )


def incompatibility(old: Schema, new: Schema, strategy: Strategy) -> str:
    """Why the new schema does not fit the old one; empty if it does."""
    if strategy is Strategy.ALWAYS_COMPATIBLE:
        return ""
    if new.type != old.type:
        return f"it is {type_name(new)}, not {type_name(old)}"
    if new.schema_data == old.schema_data and new.type != Schema.KeyValue:
        return ""
    if strategy is Strategy.ALWAYS_INCOMPATIBLE:
        return "no other schema may come"
    try:
        return _misfit(old, new, strategy)
    except (InvalidDefinitionError, NotAPairError) as error:
        return f"one of them is no definition: {error}"


def _definition_problem(schema: Schema) -> str:
    kind, definition = schema.type, schema.schema_data
    if kind in RECORDS:
        from labkit.system.broker.schemas.avro_compatibility import parse_definition

        is_union = parse_definition(definition).type == "union"
        return "it is a union" if kind == Schema.Avro and is_union else ""
    if kind == Schema.KeyValue:
        for part in pair_of(schema):
            check_definition(part)
        return ""
    if kind == Schema.ProtobufNative:
        root_message(definition)
        return ""
    if kind in _FREE or not definition or (kind, definition) == (Schema.String, _NO_DEFINITION):
        return ""
    return f"it has none, and here are {len(definition)} bytes"


def _misfit(old: Schema, new: Schema, strategy: Strategy) -> str:
    if new.type in _COMPARED:
        return _misfit_of_records(old.schema_data, new.schema_data, strategy)
    if new.type == Schema.KeyValue:
        pairs = zip(pair_of(old), pair_of(new), strict=True)
        return next(filter(None, (incompatibility(*pair, strategy) for pair in pairs)), "")
    if new.type == Schema.ProtobufNative:
        names = root_message(old.schema_data), root_message(new.schema_data)
        return "" if names[0] == names[1] else f"its message is {names[1]}, not {names[0]}"
    return ""


def _misfit_of_records(old: bytes, new: bytes, strategy: Strategy) -> str:
    from labkit.system.broker.schemas.avro_compatibility import parse_definition, reading_problem

    older, newer = parse_definition(old), parse_definition(new)
    problem = ""
    if not strategy.value.startswith("FORWARD"):
        problem = reading_problem(newer, older)
    if not problem and not strategy.value.startswith("BACKWARD"):
        problem = reading_problem(older, newer)
    return problem


def is_same_definition(one: Schema, other: Schema) -> bool:
    """Whether two schemas are one version: records may differ in spaces and comments."""
    if one.type != other.type or one.schema_data == other.schema_data:
        return one.type == other.type
    if one.type not in RECORDS:
        return False
    try:
        return bool(_essence(one.schema_data) == _essence(other.schema_data))
    except (ValueError, RecursionError):
        return False


def _essence(definition: bytes) -> Any:
    return json.loads(definition, object_hook=_without_comments)


def _without_comments(node: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key not in ("doc", "aliases")}


def root_message(definition: bytes) -> str:
    """The full name of the message that a PROTOBUF_NATIVE schema defines.

    Raises `InvalidDefinitionError`.
    """
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
            "it is not a document with a fileDescriptorSet, its rootFileDescriptorName and a"
            " rootMessageTypeName of that file"
        ) from None
    return name
