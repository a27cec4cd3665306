"""Length-prefixed byte strings, such as frames and journal records."""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain

LENGTH_SIZE = 4
"""The size of the length field, a u32."""

_LENGTH = struct.Struct(">I")


def join_with_lengths(bodies: Sequence[bytes]) -> bytes:
    lengths = map(_LENGTH.pack, map(len, bodies))
    return b"".join(chain.from_iterable(zip(lengths, bodies, strict=True)))


def join_with_lengths_in_parts(bodies: Sequence[bytes], part_size: int) -> Iterator[bytes]:
    """Join the bodies into parts of at most `part_size` bytes, not counting the length fields. A
    body larger than `part_size` becomes a part of its own.
    """
    ends = [*accumulate(map(len, bodies))]
    first = begin = 0
    while first < len(bodies):
        last = max(first + 1, bisect_right(ends, begin + part_size))
        yield join_with_lengths(bodies[first:last])
        first, begin = last, ends[last - 1]
