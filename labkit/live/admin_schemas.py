"""Schemas as Pulsar's HTTP side writes them: names of types, and the data as text.

The data of a KeyValue schema are two schemas with their lengths; over HTTP they are one JSON
document, `{"key": ..., "value": ...}`, in which a primitive type is "".

In Pulsar: `client/impl/schema/SchemaUtils.java`, `common/schema/SchemaType.java`.
"""

import json
import re
import struct
from typing import Any

from labkit.live.admin_call import BadRequestError
from labkit.model.proto.pulsar_pb2 import Schema

_LENGTH = struct.Struct(">i")
_KEY_VALUE = "KEY_VALUE"


def _java_name(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
    return "BOOLEAN" if words == "BOOL" else words


_TYPES = {_java_name(name): name for name, _ in Schema.Type.items()}
"""The wire protocol's names of the types, by those of Pulsar's Java classes, such as LOCAL_DATE."""


def type_name(schema: Schema) -> str:
    """The name of its type in Pulsar's Java classes."""
    return _java_name(Schema.Type.Name(schema.type))


def schema_of(topic: str, name: str, text: str) -> Schema:
    """The schema with this type's name and these data.

    Raises `BadRequestError` for an unknown type, and for data that do not fit it.
    """
    if name not in _TYPES:
        raise BadRequestError(f"there is no type {name[:80]}; types are {', '.join(_TYPES)}")
    data = _pair_bytes(text) if name == _KEY_VALUE else text.encode()
    return Schema(name=topic, type=_TYPES[name], schema_data=data)


def data_text(schema: Schema) -> str:
    """The data of the schema as text."""
    if type_name(schema) == _KEY_VALUE:
        return _pair_text(schema.schema_data)
    return schema.schema_data.decode(errors="replace")


def _pair_text(data: bytes) -> str:
    try:
        key, rest = _cut(data)
        value, _ = _cut(rest)
        pair = {"key": _document(key), "value": _document(value)}
    except (ValueError, RecursionError, struct.error):
        return data.decode(errors="replace")  # A client may store anything under this type.
    return json.dumps(pair, separators=(",", ":"))


def _cut(data: bytes) -> tuple[bytes, bytes]:
    """The first part, without its length, and the bytes behind it; -1 stands for no part."""
    (size,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + max(size, 0)
    if end > len(data):
        raise ValueError(f"a part of {size} bytes does not end")
    return data[_LENGTH.size : end], data[end:]


def _document(data: bytes) -> Any:
    return json.loads(data) if data else ""


def _pair_bytes(text: str) -> bytes:
    try:
        pair = json.loads(text)
        parts = [_part_bytes(pair["key"]), _part_bytes(pair["value"])]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadRequestError(
            'the schema of a KEY_VALUE is {"key": ..., "value": ...}; "" is a primitive type'
        ) from None
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _part_bytes(document: object) -> bytes:
    return b"" if document == "" else json.dumps(document, separators=(",", ":")).encode()
