"""Test which definitions are valid for each schema type, and which changes are compatible."""

import json
from base64 import b64encode

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

from labkit.system.broker.schemas.checks import (
    InvalidSchemaDataError,
    Strategy,
    check_definition,
    incompatibility,
)
from labkit.system.broker.schemas.types import join_key_value
from labkit.system.model.proto.pulsar_pb2 import Schema

EMPTY = b'{"type":"record","name":"R","fields":[]}'
WITH_A = b'{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
WITH_DEFAULT = b'{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":0}]}'


def schema(kind: "Schema.Type", definition: bytes = b"", **properties: str) -> Schema:
    made = Schema(name="s", type=kind, schema_data=definition)
    for key, value in properties.items():
        made.properties.add(key=key.replace("_", "."), value=value)
    return made


def pair(value: bytes, kind: str = "AVRO", key_kind: str = "STRING") -> Schema:
    types = {"key_schema_type": key_kind, "value_schema_type": kind}
    return schema(Schema.KeyValue, join_key_value(b"", value), **types)


def messages(root: str, file: str = "f.proto") -> Schema:
    inner = DescriptorProto(name="M", nested_type=[DescriptorProto(name="N")])
    files = FileDescriptorSet(file=[FileDescriptorProto(name="f.proto", package="p.q")])
    files.file[0].message_type.append(inner)
    document = {
        "fileDescriptorSet": b64encode(files.SerializeToString()).decode(),
        "rootMessageTypeName": root,
        "rootFileDescriptorName": file,
    }
    return schema(Schema.ProtobufNative, json.dumps(document).encode())


@pytest.mark.parametrize(
    "fits",
    [
        schema(Schema.String),
        schema(Schema.String, b"null"),  # sent by the Python client
        schema(Schema.Int32),
        schema(Schema.Avro, EMPTY),
        schema(Schema.Avro, b'"int"'),
        schema(Schema.Json, b'["null","int"]'),
        schema(Schema.External, b"anything"),
        pair(WITH_A),
        pair(b"", "INT64"),
        schema(Schema.KeyValue, join_key_value(b"x", b"y")),  # The key and value have type BYTES.
        messages("p.q.M"),
        messages("p.q.M.N"),
    ],
)
def test_definitions_that_fit_their_type(fits: Schema) -> None:
    check_definition(fits)


@pytest.mark.parametrize(
    ("misfit", "reason"),
    [
        (
            schema(Schema.String, b"text"),
            "of type STRING: a schema of this type must not have a definition, got 4 bytes",
        ),
        (
            schema(Schema.Bool, b"null"),
            "of type BOOLEAN: a schema of this type must not have a definition",
        ),
        (schema(Schema.Avro, b'["null","int"]'), "it is a union"),
        (schema(Schema.Protobuf, b"a"), "of type PROTOBUF"),
        (pair(b"[", "AVRO"), "of type AVRO"),
        (pair(b"x", "INT64"), "of type INT64"),
        (pair(b"", "NOPE"), "unknown key or value schema type 'NOPE'"),
        (
            schema(Schema.KeyValue, b"\0\0\0\xa4{"),
            "a definition has 164 bytes according to its length, but only 1",
        ),
        (schema(Schema.KeyValue, b"\0"), "length before each"),
        (messages("p.q.O"), "fileDescriptorSet"),
        (messages("p.q.M", "g.proto"), "fileDescriptorSet"),
        (schema(Schema.ProtobufNative, b"[]"), "fileDescriptorSet"),
        (schema(Schema.ProtobufNative, b'{"fileDescriptorSet":"!"}'), "fileDescriptorSet"),
    ],
)
def test_definitions_that_do_not_fit_their_type(misfit: Schema, reason: str) -> None:
    with pytest.raises(InvalidSchemaDataError) as rejected:
        check_definition(misfit)
    assert reason in str(rejected.value)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (schema(Schema.Avro, EMPTY), schema(Schema.Avro, WITH_DEFAULT), ""),
        (schema(Schema.Avro, EMPTY), schema(Schema.Avro, WITH_A), "missing_default_value, a"),
        (
            schema(Schema.Avro, b"["),
            schema(Schema.Avro, WITH_A),
            "one of the definitions is invalid",
        ),
        (schema(Schema.Avro, b"["), schema(Schema.Avro, b"["), ""),
        (schema(Schema.Protobuf, EMPTY), schema(Schema.Protobuf, WITH_A), ""),
        (schema(Schema.Int8), schema(Schema.Int16), "expected type INT8, got INT16"),
        (pair(EMPTY), pair(WITH_DEFAULT), ""),
        (pair(EMPTY), pair(WITH_A), "missing_default_value, a"),
        (pair(b"", "INT8"), pair(b"", "INT16"), "expected type INT8, got INT16"),
        (pair(EMPTY), pair(EMPTY, key_kind="INT16"), "expected type STRING, got INT16"),
        (messages("p.q.M"), messages("p.q.M.N"), "expected message p.q.M, got p.q.M.N"),
    ],
)
def test_what_a_new_schema_may_change(old: Schema, new: Schema, reason: str) -> None:
    found = incompatibility(old, new, Strategy.FULL)
    assert found == "" if not reason else reason in found
    assert incompatibility(old, new, Strategy.ALWAYS_COMPATIBLE) == ""
