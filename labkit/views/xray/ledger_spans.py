"""Labels the bytes of a ledger's znode with field names, for the byte X-ray.

Only format version 3 is binary; versions 1 and 2 are text.

In BookKeeper: `meta/LedgerMetadataSerDe.java`, `DataFormats.proto`.
"""

from collections.abc import Iterator

from labkit.system.model.errors import BKMetadataSerializationException
from labkit.system.model.layout import Span
from labkit.system.model.proto.bookkeeper_pb2 import LedgerMetadataFormat
from labkit.views.xray.protobuf_spans import field_spans, varint

_HEADER = b"BookieMetadataFormatVersion\t3\n"
_MEANINGS = {
    "quorumSize": "Qw: bookies that store each entry",
    "ensembleSize": "E: bookies that store the ledger",
    "length": "payload bytes, once the ledger is closed",
    "lastEntryId": "the last entry, once the ledger is closed; -1 before",
    "state": "OPEN, IN_RECOVERY or CLOSED",
    "segment": "a segment: the bookies of all entries from its first one on",
    "ensembleMember": "a bookie of the ensemble, in order",
    "firstEntryId": "the first entry of the segment",
    "digestType": "the kind of checksum of each entry",
    "password": "the ledger's password in plain text",
    "ackQuorumSize": "Qa: acknowledgements that confirm an entry",
    "ctime": "creation time in milliseconds since 1970",
    "customMetadata": "a key and a value set by the application",
    "cToken": "a token by which the creator recognises its own write",
}


def ledger_metadata_spans(data: bytes) -> Iterator[Span]:
    """Label the bytes of a ledger's znode. Raises `BKMetadataSerializationException` if the znode
    contains text.
    """
    if not data.startswith(_HEADER):
        raise BKMetadataSerializationException(
            f"only ledger metadata of format version 3 is binary; these bytes begin"
            f" with {data[:32]!r}"
        )
    yield Span("version", 0, len(_HEADER), "3", "format version, as a line of text")
    size, start = varint(data, len(_HEADER))
    width = start - len(_HEADER)
    yield Span("size", len(_HEADER), width, str(size), "size of the message that follows, in bytes")
    yield from field_spans(LedgerMetadataFormat.DESCRIPTOR, _MEANINGS, data, start, start + size)
