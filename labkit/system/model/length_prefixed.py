"""Length-prefixed byte strings, such as frames on the wire and records in the journal."""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain

LENGTH_SIZE = 4
"""Bytes of a length, which is a u32."""

_LENGTH = struct.Struct(">I")


def join_with_lengths(bodies: Sequence[bytes]) -> bytes:
    """Return the bodies, each preceded by its length, as one byte string."""
    lengths = map(_LENGTH.pack, map(len, bodies))
    return b"".join(chain.from_iterable(zip(lengths, bodies, strict=True)))


def join_in_parts(bodies: Sequence[bytes], part_size: int) -> Iterator[bytes]:
    """Return the length-prefixed bodies as several byte strings.

    Each byte string contains as many bodies as fit into `part_size` bytes (not counting the length
    fields), or a single body that is larger.
    """
    ends = [*accumulate(map(len, bodies))]
    first = begin = 0
    while first < len(bodies):
        last = max(first + 1, bisect_right(ends, begin + part_size))
        yield join_with_lengths(bodies[first:last])
        first, begin = last, ends[last - 1]
