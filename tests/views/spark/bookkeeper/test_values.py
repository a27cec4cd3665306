"""Tests that payloads are decoded with the schema version of their message."""

import io
import json
from base64 import b64encode

import pytest
from avro.io import BinaryEncoder, DatumWriter
from avro.schema import parse
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from labkit.system.model.proto.schemas_pb2 import SchemaInfo
from labkit.views.spark.bookkeeper.values import ValueDecodeError, ValueDecoder

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": ["null", "double"]},
        {"name": "token", "type": "bytes"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
NEXT_ORDER = {**ORDER, "fields": ORDER["fields"][:1]}


def version(number: int) -> bytes:
    return number.to_bytes(8, "big")


def schema(kind: str, definition: bytes) -> SchemaInfo:
    return SchemaInfo(schema_id="t", user="", type=kind, schema=definition, timestamp=0)


def avro(definition: object) -> SchemaInfo:
    return schema("AVRO", json.dumps(definition).encode())


def encode(definition: object, datum: object) -> bytes:
    out = io.BytesIO()
    DatumWriter(parse(json.dumps(definition))).write(datum, BinaryEncoder(out))
    return out.getvalue()


def test_a_json_payload_is_returned_as_it_is() -> None:
    decoder = ValueDecoder({3: schema("JSON", b"{}")})
    assert decoder.decode(version(3), '{"name": "Zoë"}'.encode()) == '{"name": "Zoë"}'


def test_an_avro_record_is_decoded_with_the_version_of_its_message() -> None:
    of_java = {**ORDER, "namespace": "shop.Outer$"}
    decoder = ValueDecoder({0: avro(of_java), 1: avro(NEXT_ORDER)})
    plain = {**ORDER, "fields": [*ORDER["fields"][:3], {"name": "at", "type": "long"}]}
    order = {"customer": "Ann", "amount": 1.5, "token": b"\x00\xff", "at": 1700}
    decoded = decoder.decode(version(0), encode(plain, order))
    assert json.loads(decoded or "") == {**order, "token": "\x00\xff"}
    assert decoder.decode(version(1), encode(NEXT_ORDER, {"customer": "B"})) == '{"customer": "B"}'


def test_a_protobuf_message_is_decoded_with_its_field_names() -> None:
    file = FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(file)
    file.package, file.message_type[0].name = "shop", "Tick"
    files = FileDescriptorSet(file=[file]).SerializeToString()
    document = {
        "fileDescriptorSet": b64encode(files).decode(),
        "rootFileDescriptorName": file.name,
        "rootMessageTypeName": "shop.Tick",
    }
    decoder = ValueDecoder({0: schema("PROTOBUFNATIVE", json.dumps(document).encode())})
    payload = timestamp_pb2.Timestamp(seconds=5, nanos=7).SerializeToString()
    assert json.loads(decoder.decode(version(0), payload) or "") == {"seconds": "5", "nanos": 7}


def test_messages_without_a_record_have_no_value() -> None:
    decoder = ValueDecoder({0: schema("INT32", b""), 1: schema("JSON", b"{}")})
    assert decoder.decode(version(0), b"\0\0\0\1") is None
    assert decoder.decode(b"", b"{}") is None
    assert decoder.decode(version(1), None) is None


@pytest.mark.parametrize("payload", [b"", b"\x08Ann", b"\x7f" * 30, b"\x02\xff\x00\x00\x02"])
def test_a_payload_that_does_not_match_its_schema_is_an_error(payload: bytes) -> None:
    decoder = ValueDecoder({4: avro(ORDER)})
    with pytest.raises(ValueDecodeError, match="does not match version 4 of the topic's schema"):
        decoder.decode(version(4), payload)


def test_a_json_payload_that_is_not_text_is_an_error() -> None:
    with pytest.raises(ValueDecodeError, match="does not match version 0"):
        ValueDecoder({0: schema("JSON", b"{}")}).decode(version(0), b"\xff")


def test_a_version_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueDecodeError, match="version 2 of the topic's schema does not exist"):
        ValueDecoder({}).decode(version(2), b"{}")
