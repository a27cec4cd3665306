"""Names schema types in the same way as Pulsar's Java classes, and decodes KeyValue schemas.

The definition of a KeyValue schema consists of two length-prefixed definitions, whose types are
stored in the schema's properties.

In Pulsar: `common/schema/SchemaType.java`, `client/impl/schema/KeyValueSchemaInfo.java`.
"""

import re
import struct
from typing import Any

from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import Schema

_LENGTH = struct.Struct(">i")
_KEY_AND_VALUE = ("key", "value")


class InvalidDefinitionError(LabkitError):
    """The definition is not valid for the schema's type."""


def _java_name(name: str) -> str:
    java_name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
    return {"BOOL": "BOOLEAN", "SCHEMALESS": "NONE"}.get(java_name, java_name)


TYPES = {_java_name(name): number for name, number in Schema.Type.items()}
"""The wire protocol's types by their Java names, such as LOCAL_DATE."""


def type_name(schema: Schema) -> str:
    return _java_name(Schema.Type.Name(schema.type))


def key_value_schemas(schema: Schema) -> tuple[Schema, Schema]:
    pairs: Any = schema.properties
    properties = {pair.key: pair.value for pair in pairs}
    types = [properties.get(f"{part}.schema.type", "NONE") for part in _KEY_AND_VALUE]
    types = ["NONE" if name == "BYTES" else name for name in types]
    if unknown := [name for name in types if name not in TYPES]:
        raise InvalidDefinitionError(f"unknown key or value schema type {unknown[0][:80]!r}")
    definitions = split_key_value(schema.schema_data)
    key, value = (
        Schema(name=part, type=Schema.Type.Name(TYPES[name]), schema_data=definition)
        for part, name, definition in zip(_KEY_AND_VALUE, types, definitions, strict=True)
    )
    return key, value


def split_key_value(data: bytes) -> tuple[bytes, bytes]:
    key, rest = _split_first(data)
    return key, _split_first(rest)[0]


def join_key_value(key: bytes, value: bytes) -> bytes:
    return b"".join(_LENGTH.pack(len(part)) + part for part in (key, value))


def _split_first(data: bytes) -> tuple[bytes, bytes]:
    """Split off the first definition. The length -1 means an empty one."""
    if len(data) < _LENGTH.size:
        raise InvalidDefinitionError("expected a 4-byte length before each of the two definitions")
    (size,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + max(size, 0)
    if end > len(data):
        raise InvalidDefinitionError(
            f"a definition has {size} bytes according to its length, but only"
            f" {len(data) - _LENGTH.size} bytes follow"
        )
    return data[_LENGTH.size : end], data[end:]
