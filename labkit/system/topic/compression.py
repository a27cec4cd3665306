"""Payloads as the producer's application sent them.

In Pulsar: `pulsar-common/.../compression/CompressionCodecProvider.java`.
"""

import zlib

import pyarrow as pa

from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.pulsar_pb2 import CompressionType

_ARROW = {
    CompressionType.LZ4: "lz4_raw",
    CompressionType.ZSTD: "zstd",
    CompressionType.SNAPPY: "snappy",
}


class DecompressionError(LabkitError):
    """The bytes are not a payload of that size, compressed by that codec."""


def decompressed(kind: CompressionType, data: bytes, size: int) -> bytes:
    """The payload, of which the producer says that it has `size` bytes.

    Raises `DecompressionError`.
    """
    try:
        if kind == CompressionType.ZLIB:
            # With a limit: a few bytes may decompress to any size.
            payload = zlib.decompressobj().decompress(data, size + 1)
        else:
            payload = pa.Codec(_ARROW[kind]).decompress(data, size, asbytes=True)
    except (KeyError, zlib.error, OSError, ValueError) as error:
        raise DecompressionError(f"it cannot be decompressed: {error}") from None
    if len(payload) != size:
        raise DecompressionError(f"its decompressed size is not {size} bytes")
    return payload
