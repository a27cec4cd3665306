"""The types of schemas by the names that Pulsar's Java classes give them, and pairs of schemas.

The definition of a KeyValue schema is two definitions, each after its length; the types of the two
are in its properties.

In Pulsar: `common/schema/SchemaType.java`, `client/impl/schema/KeyValueSchemaInfo.java`.
"""

import re
import struct
from typing import Any

from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import Schema

_LENGTH = struct.Struct(">i")
_PARTS = ("key", "value")


class InvalidDefinitionError(LabkitError):
    """The bytes are not the definition of an Avro schema."""


class NotAPairError(LabkitError):
    """A KeyValue schema whose definition, or whose types, cannot be read."""


def _java_name(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
    return {"BOOL": "BOOLEAN", "SCHEMALESS": "NONE"}.get(words, words)


TYPES = {_java_name(name): number for name, number in Schema.Type.items()}
"""The wire protocol's types, by those names, such as LOCAL_DATE."""


def type_name(schema: Schema) -> str:
    """The name of its type in Pulsar's Java classes."""
    return _java_name(Schema.Type.Name(schema.type))


def pair_of(schema: Schema) -> tuple[Schema, Schema]:
    """The schemas of the keys and of the values.  Raises `NotAPairError`."""
    pairs: Any = schema.properties
    properties = {pair.key: pair.value for pair in pairs}
    types = [properties.get(f"{part}.schema.type", "NONE") for part in _PARTS]
    types = ["NONE" if name == "BYTES" else name for name in types]
    if unknown := [name for name in types if name not in TYPES]:
        raise NotAPairError(f"there is no type {unknown[0][:80]} of keys and values")
    definitions = split_pair(schema.schema_data)
    key, value = (
        Schema(name=part, type=Schema.Type.Name(TYPES[name]), schema_data=definition)
        for part, name, definition in zip(_PARTS, types, definitions, strict=True)
    )
    return key, value


def split_pair(data: bytes) -> tuple[bytes, bytes]:
    """The definitions of the keys' and the values' schema.  Raises `NotAPairError`."""
    key, rest = _cut(data)
    return key, _cut(rest)[0]


def join_pair(key: bytes, value: bytes) -> bytes:
    """The inverse."""
    return b"".join(_LENGTH.pack(len(part)) + part for part in (key, value))


def _cut(data: bytes) -> tuple[bytes, bytes]:
    """The first part, without its length, and the bytes behind it; -1 stands for no part."""
    if len(data) < _LENGTH.size:
        raise NotAPairError("a pair of schemas begins with the length of the first one")
    (size,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + max(size, 0)
    if end > len(data):
        raise NotAPairError(f"a part of {size} bytes does not end")
    return data[_LENGTH.size : end], data[end:]
