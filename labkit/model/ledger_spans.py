"""The bytes of a ledger's znode under the names of their fields: what a byte X-ray shows.

Protobuf writes each field as a key (its number, and how its value is stored), for text, bytes and
messages a length, and the value.  Only format version 3 is in bytes; 1 and 2 are text.

In BookKeeper: `meta/LedgerMetadataSerDe.java`, `DataFormats.proto`.
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from labkit.model.errors import BKMetadataSerializationException
from labkit.model.layout import Span
from labkit.model.proto.bookkeeper_pb2 import LedgerMetadataFormat

_HEADER = b"BookieMetadataFormatVersion\t3\n"
_VARINT, _BYTES = 0, 2
_MEANINGS = {
    "quorumSize": "Qw: bookies that store each entry",
    "ensembleSize": "E: bookies that the ledger is spread over",
    "length": "payload bytes, once it is closed",
    "lastEntryId": "its end, once it is closed; -1 before",
    "state": "OPEN, IN_RECOVERY or CLOSED",
    "segment": "a fragment: where entries lie from its first one on",
    "ensembleMember": "a bookie; its place is its number in the list",
    "firstEntryId": "the fragment begins with this entry",
    "digestType": "how entries are protected",
    "password": "its bytes, as they are",
    "ackQuorumSize": "Qa: acknowledgements that confirm an entry",
    "ctime": "when it was made, in milliseconds",
    "customMetadata": "a key and a value of the application's own",
    "cToken": "tells its creator that the ledger is its own",
}


def ledger_metadata_spans(data: bytes) -> Iterator[Span]:
    """Name every byte.  Raises `BKMetadataSerializationException` for what is not version 3."""
    if not data.startswith(_HEADER):
        raise BKMetadataSerializationException(
            f"only ledger metadata of format version 3 is bytes; this begins with {data[:32]!r}"
        )
    yield Span("version", 0, len(_HEADER), "3", "the format's version, as a line of text")
    size, start = _varint(data, len(_HEADER))
    width = start - len(_HEADER)
    yield Span("size", len(_HEADER), width, str(size), "bytes of the message behind it")
    yield from _fields(data, start, start + size, LedgerMetadataFormat.DESCRIPTOR)


def _fields(data: bytes, at: int, end: int, kind: Any) -> Iterator[Span]:
    """The fields of a message of that kind: a descriptor, of protobuf in C or in Python."""
    while at < end:
        key, begin = _varint(data, at)
        field: FieldDescriptor = kind.fields_by_number[key >> 3]
        value, after = _varint(data, begin)
        if key & 7 == _BYTES:
            begin, after = after, after + value
        meaning = _MEANINGS.get(field.name, "")
        if field.message_type is not None:
            yield Span(field.name, at, begin - at, f"{after - begin} bytes", meaning)
            yield from _fields(data, begin, after, field.message_type)
        else:
            text = _value(field, value, data[begin:after] if key & 7 == _BYTES else b"")
            yield Span(field.name, at, after - at, text, meaning)
        at = after


def _value(field: FieldDescriptor, number: int, data: bytes) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[number].name)
    if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        return data.decode(errors="replace") or "(empty)"
    return str(number - (1 << 64) if number >> 63 else number)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at that offset, and the offset behind it."""
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1
