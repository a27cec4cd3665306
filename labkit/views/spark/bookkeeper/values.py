"""Decodes each payload to JSON text, with the version of the topic's schema with which the message
was sent.

Spark turns JSON into columns, with `from_json` or `parse_json`. JSON payloads are returned
unchanged; AVRO and PROTOBUF_NATIVE records are decoded. As in Avro's JSON encoding, bytes become
text with one character per byte; logical types, such as timestamps, remain numbers.

In Pulsar: `broker/service/schema/BookkeeperSchemaStorage.java`.
"""

import io
import json
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reader import LedgerReader
from labkit.system.metadata.store import NoNodeError
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.schemas_pb2 import SchemaEntry, SchemaInfo, SchemaLocator

Decode = Callable[[bytes], str]
"""Returns a payload as JSON. Raises `ValueError` or `DecodeError`."""

_PARTITION = re.compile(r"-partition-\d+$")


class ValueDecodeError(LabkitError):
    """A payload does not match the schema that its message was sent with."""


class ValueDecoder:
    """Decodes payloads with the versions of a topic's schema."""

    def __init__(self, versions: dict[int, SchemaInfo]) -> None:
        self._decoders = {number: _decoder(info) for number, info in versions.items()}

    def decode(self, schema_version: bytes, payload: bytes | None) -> str | None:
        """Return the payload as JSON, or None if the message's schema does not describe a record.

        Raises `ValueDecodeError` if the payload does not match its schema, or the schema version
        does not exist.
        """
        if not schema_version or payload is None:
            return None
        number = int.from_bytes(schema_version, "big")
        if number not in self._decoders:
            raise ValueDecodeError(f"version {number} of the topic's schema does not exist")
        decode = self._decoders[number]
        try:
            return decode and decode(payload)
        except (ValueError, DecodeError) as error:
            raise ValueDecodeError(
                f"the payload does not match version {number} of the topic's schema: {error}"
            ) from None


async def read_value_decoder(client: BookKeeper, topic: str) -> ValueDecoder:
    """Return the decoders for all versions of the topic's schema; there may be none."""
    schema_id = _PARTITION.sub("", topic.removeprefix("persistent://"))
    try:
        data, _ = await client.store.get(f"/schemas/{schema_id}")
    except NoNodeError:
        return ValueDecoder({})
    versions = {}
    for each in SchemaLocator.FromString(data).index:
        ledger_id, entry_id = each.position.ledgerId, each.position.entryId
        metadata = await client.ledger_metadata(ledger_id)
        entry = await LedgerReader(ledger_id, metadata, client.context).read_entry(entry_id)
        info = SchemaInfo.FromString(SchemaEntry.FromString(entry.payload).schema_data)
        if not info.deleted:
            versions[each.version] = info
    return ValueDecoder(versions)


def _decoder(info: SchemaInfo) -> Decode | None:
    if info.type == SchemaInfo.JSON:
        return lambda payload: payload.decode()
    if info.type == SchemaInfo.AVRO:
        return _avro_decoder(info.schema)
    if info.type == SchemaInfo.PROTOBUFNATIVE:
        return _protobuf_decoder(info.schema)
    return None


def _avro_decoder(definition: bytes) -> Decode:
    # Workers that do not decode AVRO do not need this package.
    from avro.errors import AvroException
    from avro.io import BinaryDecoder, DatumReader
    from avro.name import Names
    from avro.schema import make_avsc_object

    # With logical types, the library would return objects that JSON cannot represent.
    document = json.loads(definition, object_hook=_without_logical_type)
    # Names of nested Java classes contain "$".
    names = Names(validate_names=False)
    reader = DatumReader(make_avsc_object(document, names, validate_names=False))

    def decode(payload: bytes) -> str:
        try:
            datum = reader.read(BinaryDecoder(io.BytesIO(payload)))
        except (AvroException, AssertionError) as error:
            # If a payload is too short, an assertion of the library fails.
            raise ValueError(error) from None
        return json.dumps(datum, default=lambda data: data.decode("latin-1"))

    return decode


def _without_logical_type(node: dict[str, Any]) -> dict[str, Any]:
    node.pop("logicalType", None)
    return node


def _protobuf_decoder(definition: bytes) -> Decode:
    document = json.loads(definition)
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(b64decode(document["fileDescriptorSet"])).file:
        pool.Add(file)
    message = GetMessageClass(pool.FindMessageTypeByName(document["rootMessageTypeName"]))
    return lambda payload: MessageToJson(
        message.FromString(payload), preserving_proto_field_name=True, indent=None
    )
