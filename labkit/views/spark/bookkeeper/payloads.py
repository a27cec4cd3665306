"""Payloads as the producer's application sent them: unpacked if its client compressed them.

A client compresses the payload of a whole entry, all messages of a batch together.  In Pulsar:
`common/compression/`.
"""

import zlib
from collections.abc import Callable

import pyarrow as pa

from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import CompressionType, MessageMetadata


class PayloadError(LabkitError):
    """The payload of an entry cannot be unpacked; the message names the entry."""


def _arrow(codec: str) -> Callable[[bytes, int], bytes]:
    def unpack(data: bytes, size: int) -> bytes:
        unpacked: bytes = pa.Codec(codec).decompress(data, size, asbytes=True)
        return unpacked

    return unpack


_CODECS: dict[int, Callable[[bytes, int], bytes]] = {
    CompressionType.LZ4: _arrow("lz4_raw"),
    CompressionType.ZLIB: lambda data, size: zlib.decompress(data),
    CompressionType.ZSTD: _arrow("zstd"),
    CompressionType.SNAPPY: _arrow("snappy"),
}


def plain_payload(
    metadata: MessageMetadata, payload: bytes, ledger_id: int, entry_id: int
) -> bytes:
    """The payload of an entry, unpacked.

    A chunk of a large message stays as it is: its client compressed the whole message, then cut it.
    Raises `PayloadError` for encrypted and damaged ones.
    """
    if metadata.HasField("encryption_param") or metadata.HasField("encryption_algo"):
        raise PayloadError(
            f"entry {entry_id} of ledger {ledger_id} is encrypted, and only its consumers have the"
            " key. Columns that need no key can be read by a schema that names only these, such as"
            " .schema('ledger long, entry long, batch_index int'); option 'ledgers' instead of"
            " 'topic' reads payloads as they are stored"
        )
    if not metadata.compression or metadata.HasField("chunk_id"):
        return payload
    try:
        plain = _CODECS[metadata.compression](payload, metadata.uncompressed_size)
    except (KeyError, zlib.error, OSError, ValueError) as error:
        kind = CompressionType.Name(metadata.compression)
        raise PayloadError(
            f"entry {entry_id} of ledger {ledger_id} is compressed by {kind} and cannot be"
            f" unpacked: {error}"
        ) from None
    # zlib does not check the size, and a truncated batch would be read wrongly.
    if len(plain) != metadata.uncompressed_size:
        raise PayloadError(
            f"entry {entry_id} of ledger {ledger_id} has {len(plain)} bytes when unpacked, and"
            f" should have {metadata.uncompressed_size}"
        )
    return plain
