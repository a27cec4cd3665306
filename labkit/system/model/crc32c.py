"""CRC32C (Castagnoli), the checksum of entries and of messages.

The wheel of google-crc32c computes it, with the processor's own instruction.  There is none for a
Python in a browser: there a table does, some thousand times slower, with the same result.
"""

_POLYNOMIAL = 0x82F63B78
"""That of Castagnoli, bits reversed."""


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(map(_entry, range(256)))


def extend_by_table(crc: int, data: bytes) -> int:
    """The checksum of the bytes that `crc` covers, followed by `data`."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def value_by_table(data: bytes) -> int:
    """The checksum of the data."""
    return extend_by_table(0, data)


try:
    import google_crc32c
except ImportError:
    extend, value = extend_by_table, value_by_table
else:
    extend, value = google_crc32c.extend, google_crc32c.value
