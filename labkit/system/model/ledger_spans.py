"""Labels the bytes of a ledger's znode with field names, for the byte X-ray.

Only format version 3 is binary; versions 1 and 2 are text.

In BookKeeper: `meta/LedgerMetadataSerDe.java`, `DataFormats.proto`.
"""

from collections.abc import Iterator

from labkit.system.model.errors import BKMetadataSerializationException
from labkit.system.model.layout import Span
from labkit.system.model.proto.bookkeeper_pb2 import LedgerMetadataFormat
from labkit.system.model.protobuf_spans import FieldNames, varint

_HEADER = b"BookieMetadataFormatVersion\t3\n"
_MEANINGS = {
    "quorumSize": "Qw: bookies that store each entry",
    "ensembleSize": "E: bookies that the ledger is spread over",
    "length": "payload bytes, once it is closed",
    "lastEntryId": "its end, once it is closed; -1 before",
    "state": "OPEN, IN_RECOVERY or CLOSED",
    "segment": "a segment: where entries lie from its first one on",
    "ensembleMember": "a bookie; its place is its number in the list",
    "firstEntryId": "the segment begins with this entry",
    "digestType": "how entries are protected",
    "password": "its bytes, as they are",
    "ackQuorumSize": "Qa: acknowledgements that confirm an entry",
    "ctime": "when it was made, in milliseconds",
    "customMetadata": "a key and a value that the application has set",
    "cToken": "by which its creator recognises the ledger",
}


def ledger_metadata_spans(data: bytes) -> Iterator[Span]:
    """Raise `BKMetadataSerializationException` if the znode is text."""
    if not data.startswith(_HEADER):
        raise BKMetadataSerializationException(
            f"only ledger metadata of format version 3 is binary; these bytes begin"
            f" with {data[:32]!r}"
        )
    yield Span("version", 0, len(_HEADER), "3", "the format's version, as a line of text")
    size, start = varint(data, len(_HEADER))
    width = start - len(_HEADER)
    yield Span("size", len(_HEADER), width, str(size), "bytes of the message that follows")
    names = FieldNames(LedgerMetadataFormat.DESCRIPTOR, _MEANINGS)
    yield from names.spans(data, start, start + size)
