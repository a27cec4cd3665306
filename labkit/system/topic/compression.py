"""Decompresses payloads compressed by Pulsar's clients.

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
    """The bytes cannot be decompressed to a payload of the expected size."""


def decompress_payload(kind: CompressionType, data: bytes, size: int) -> bytes:
    """Raise `DecompressionError` if the data is invalid or does not expand to `size` bytes."""
    try:
        if kind == CompressionType.ZLIB:
            # Limit the output, because a few bytes can decompress to any size.
            payload = zlib.decompressobj().decompress(data, size + 1)
        else:
            payload = pa.Codec(_ARROW[kind]).decompress(data, size, asbytes=True)
    except (KeyError, zlib.error, OSError, ValueError) as error:
        raise DecompressionError(f"it cannot be decompressed: {error}") from None
    if len(payload) != size:
        raise DecompressionError(f"its decompressed size is not {size} bytes")
    return payload
