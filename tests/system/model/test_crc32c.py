"""Tests for the table-driven CRC32C implementation."""

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.crc32c import extend_by_table, value_by_table


def test_known_checksums() -> None:
    assert value_by_table(b"") == 0
    assert value_by_table(b"123456789") == 0xE3069283
    assert value_by_table(bytes(32)) == 0x8A9136AA


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_table_gives_what_the_wheel_gives(head: bytes, tail: bytes) -> None:
    assert value_by_table(head) == google_crc32c.value(head)
    assert extend_by_table(value_by_table(head), tail) == google_crc32c.value(head + tail)
