"""CRC32C (Castagnoli), the checksum of entries and of messages.

The google-crc32c package uses a CPU instruction for this. In a browser, where the package is not
available, a lookup table is used, which gives the same result but is about a thousand times slower.
"""

_POLYNOMIAL = 0x82F63B78
"""Castagnoli's polynomial, with its bits reversed."""


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(map(_entry, range(256)))


def extend_by_table(crc: int, data: bytes) -> int:
    """Extend the checksum `crc` of the preceding bytes by `data`, and return the new checksum."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def value_by_table(data: bytes) -> int:
    return extend_by_table(0, data)


try:
    import google_crc32c
except ImportError:
    extend, value = extend_by_table, value_by_table
else:
    extend, value = google_crc32c.extend, google_crc32c.value
